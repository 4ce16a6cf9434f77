//! What was decided and why, as values.
//!
//! The loop decides; people ask later what it was and why. Between the two stands a [`Decision`]: one typed value with an id, the moment,
//! the snapshot it was made from, a [`Verdict`], the objects it is about, the causes with their numbers, what it costs, the alternatives that
//! lost, and the commands with what came of each. The screen, events, logs and pages only [render](words) it, so all of them say the same.
//!
//! * [`consolidation`]: nodes that go, machines that come, and why the others stay, as `joiner what-if --consolidate -o json` prints it.
//! * [`decision`]: the record and its parts.
//! * [`verdict`]: what can be decided.
//! * [`watch`]: kinds of objects that cannot be observed.
//! * [`words`]: the one place that makes sentences.
//! * [`ring`]: the last decisions, bounded in number and size.
//! * [`entry`]: what is appended to a file: decisions, and outcomes by the id of their decision.
//! * [`plan`]: a whole plan as a document, as `joiner plan -o json` prints it.
//!
//! Names stand in a record, never numbers that mean something in one snapshot only. Lists have an end: a decision about ten thousand pods names the
//! first and counts the rest. A record can be written as JSON and read back equal.
//!
//! Why a crate of its own: `joiner-core` stays without formats, and whoever shows decisions (a page, a command that reads a file) needs neither
//! a client nor the loop. The causes themselves are `joiner-core`'s; it lends them serde by a feature.

pub mod consolidation;
pub mod decision;
pub mod entry;
pub mod plan;
pub mod ring;
pub mod verdict;
pub mod watch;
pub mod words;

pub use decision::{
    Alternative, Command, Completed, Decision, DecisionId, Outcome, PriceChange, Reason, Subject, Verb,
};
pub use entry::Entry;
pub use ring::Ring;
pub use verdict::{
    Breaker, BreakerKind, Difference, GaveUp, Interruption, Machine, Nomination, Orphan, Verdict,
};
pub use watch::{Disabled, Resource, Trouble, WatchTrouble, WatchVerb};
