//! From Kubernetes objects to the small integers decisions are made on.
//!
//! A [`Cluster`] takes objects in one by one, typed, in any order, lets them go again, and keeps little of them. [`Cluster::snapshot`] hands out
//! a [`Snapshot`](joiner_core::model::Snapshot) at any time and lowers for it only what has changed; [`Cluster::finish`] lowers everything once, with
//! notes about what was odd. Nothing here reads files, asks a clock or talks to an API server: the command
//! line feeds it from manifests, the controller from watches, tests from builders, and equal objects always give an equal snapshot.
//!
//! # Why digests
//!
//! A cluster with a hundred thousand pods has a few hundred kinds of them. The expensive questions (what does it ask for, which
//! nodes may it use, what is given up when it fits nowhere) have one answer per kind, so the first step is to find the
//! kind of each pod as cheaply as possible: the parts of the spec that a scheduler can see are written as canonical bytes into
//! one reused buffer and looked up in a table of distinct byte strings. A pod is then a handful of ids. What is the same for
//! all pods of a kind is read only when the kind is new; what depends on other objects waits for the end.
//!
//! Three things are kept apart from the spec because they differ between pods that are otherwise alike: labels (an ordinal, a
//! pod name), volume claims (one per pod of a StatefulSet), and what only says where a pod is (node, phase, owner). They
//! meet the spec again in `finish`, cut down to what matters: labels to the keys that some selector names, claims to where they can
//! be reached and which limited driver attaches them. Unique labels that nobody selects thus cost a table row and no class.
//!
//! # What counts as an error
//!
//! An object that the API server would not have let in (a quantity that is none, an unknown effect) is a [`Problem`], returned at once with
//! object, field, value and remedy; the cluster stays as it was. An object that is well formed but cannot be served (a pod with a
//! missing volume claim) goes in, and its class carries the reason. Oddities that stop nothing become notes.
//!
//! # Finding one's way
//!
//! `cluster` takes objects in; `canon` writes bytes, `bytes` stores them, `digest` reads a spec; [`requests`] adds up what a pod asks for;
//! `workloads` makes pods of templates. `lower` is the order of events at the end; `topology`, `default_spread`, `pods`, `daemons`, `volumes`, `catalogues`,
//! `pools` and `nodes` each fill one part of the snapshot. `overlays` and `costs` change what a pool sees of its catalogue (`selector` says which
//! offerings they mean), [`machines`] says which Node is whose, `static_pools` adds machines that a pool keeps anyway, `buffers` virtual pods.
//!
//! `pod_table` and `machine_table` hold what comes and goes; `changes` collects what an event means for the next snapshot, `held` makes that of the last
//! one, and `forget` drops what nobody has any more. `standing` lowers the same cluster once more with nodes given up, `fleet` with
//! every pod on a node as one that may have to be placed.

mod buffers;
mod bytes;
mod canon;
mod catalogues;
mod changes;
mod cluster;
mod costs;
mod daemons;
mod default_spread;
mod digest;
mod fleet;
mod forget;
mod held;
mod lower;
mod machine_table;
pub mod machines;
mod node_digest;
mod nodes;
mod notes;
mod overlays;
pub mod parts;
mod pod_table;
mod pods;
mod pools;
mod problem;
pub mod requests;
mod selector;
mod standing;
mod static_pools;
mod topology;
mod volumes;
mod workloads;

pub use buffers::{Buffer, NotReady};
pub use cluster::{Cluster, Options, PodIntent};
pub use lower::Lowered;
pub use node_digest::is_ephemeral;
pub use problem::Problem;
pub use standing::{Standing, StandingNode, Stays};
