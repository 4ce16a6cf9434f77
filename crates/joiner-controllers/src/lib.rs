//! The loop: observe a cluster, decide, act.
//!
//! ```text
//!  watches ─> WatchEvent ─┐                                        ┌──> API server (create, patch, evict, delete)
//!  answers ─> Report ─────┼─> ClusterCache ─> reconcile(key) ─> Step ─> executor
//!  time ────> Queue ──────┘   (one owner)        (pure)            └──> provider (launch, terminate, list)
//!                ^                                                           │
//!                └───────────────────── what came of it ─────────────────────┘
//! ```
//!
//! One task, [`Controllers::run`], owns everything that is known. Watches ([`watch`]) and answers to its own writes come to it as events; it brings the
//! [`cache`] up to date and notes which keys ([`queue`]) are to be reconciled. What is to be done for a key is a pure function of what is known and of a
//! moment: all of [`steps`], and [`provision`] for pods without a place. What it
//! returns, a [`command::Step`], is carried out by the [`executor`] beside the loop, one step per key at a time. Machines are launched and listed
//! through it too, by whichever provider the [registry](joiner_provider::Registry) names for their class; outcomes come back one by one.
//!
//! What this buys:
//!
//! * **A crash loses nothing.** Progress is in the objects: the claim is written before the machine is asked for, its name follows from
//!   the plan, it says which pods it is for. A new process reads all of it back. What is only in memory (pauses, tries, the wait
//!   before an empty node goes) may start over.
//! * **Nothing is bought twice.** Answers to writes enter the cache at once, and claims on their way count as machines.
//! * **One bad thing stops itself.** A step that panics is caught and its key left alone for a while. Calls go through lanes with bounds; a write
//!   without an answer is read back before its key is reconciled again.
//! * **Nobody writes who may not.** Each write passes a [`Fence`] just before it is sent; a [`lease`] opens it for one process at a time. The others observe.
//! * **Equal runs are equal.** Time comes from a [`Clock`](joiner_provider::Clock) and tokio's timers, names from a seed; queues and maps are ordered. With paused time and one
//!   thread two runs write the same things at the same moments.
//!
//! What is decided is a [`decision::Decided`]: it gets an id, is kept and told, and learns what came of its commands; sentences are made of it
//! in `joiner_record::words` only. A kind that cannot be observed disables what needs it ([`watch_health`]) and stops nothing else.
//!
//! Rejected: kube's `Controller`, whose pending set is hashed, so that two runs differ; locks around shared state; a reconciler that writes by itself.

mod backoff;
mod breakers;
pub mod cache;
pub mod claims;
mod clock;
mod collect;
pub mod command;
mod deciding;
pub mod decision;
mod engine;
pub mod executor;
mod group_planning;
pub mod hooks;
pub mod inspect;
mod interruptions;
mod leadership;
pub mod lease;
mod lives;
mod machines;
mod measuring;
pub mod metrics;
pub mod node_groups;
pub mod observed_times;
mod offerings;
pub mod planning;
pub mod pods;
mod portions;
pub mod provision;
pub mod pulse;
pub mod queue;
mod reconcile;
pub mod record;
pub mod record_map;
mod reports;
mod room;
mod roster;
mod scaling;
mod settings;
mod slim;
pub mod steps;
mod summary;
mod tasks;
mod telling;
pub mod watch;
pub mod watch_health;

pub use clock::{Present, RuntimeClock};
pub use engine::Controllers;
pub use executor::{Epoch, Fence, GuardLayer};
pub use inspect::Inspector;
pub use lease::{Leadership, LeaseSettings};
pub use metrics::Metrics;
pub use portions::BusiestTurn;
pub use pulse::Pulse;
pub use settings::{BreakerSettings, LaneLimits, LaneSettings, Settings};
pub use summary::{Awaited, LastPlan, Summary};
