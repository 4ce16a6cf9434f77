//! # The decision core
//!
//! Everything joiner does rests on one pure function: given a [`Snapshot`](model::Snapshot) of pools, instance types, nodes and pods,
//! [`decide`](decide::decide) says which machines to add, which pod goes where, and why a pod can't be placed. The live controller, the
//! simulator, `plan`, `what-if`, `explain` and the benchmarks all call it; none of them decides anything itself.
//!
//! ## What is in here
//!
//! * [`model`]: the data. Kubernetes objects are *lowered* to it once (by `joiner-state`); after that everything is small integers in
//!   flat vectors. Label keys and values are interned, requirement sets, taints and tolerations are hash-consed, pods that are
//!   alike to a scheduler share a class.
//! * [`algebra`]: requirement sets at run time. Equal sets share an id, so "narrow this machine by that pod" is a table look-up.
//! * [`filter`]: the rules of one pod on one node, shared with the scheduler of the simulated cluster.
//! * [`pack`]: the scratch state with its undo log, topology counts, and the strategies that place pods.
//! * [`bound`]: the price no packing can beat.
//! * [`disrupt`]: which machines can be taken away, or had cheaper.
//! * [`explain`]: the cold path from a refusal to a sentence.
//! * [`plan`]: the result.
//! * [`waste`]: what of a machine's price is paid for nothing.
//!
//! ## What is deliberately absent
//!
//! No clock, environment, file, thread, log or Kubernetes type; no `Err` on cluster data: a pod that makes no sense is refused with
//! a reason, and the run goes on. Nothing depends on the order of a hash table: plans are equal for equal input.
//!
//! ## Where the speed comes from
//!
//! Offerings are numbered by rising price and kept in bit sets: "which of these can still be this machine" is an AND of a hundred words,
//! "the cheapest of them" is the first bit. Within a run room only shrinks and requirements only narrow, so a refusal for those
//! reasons is never asked twice ([`pack::finder`]). Sketches that were turned down: maps of string sets per pod (the original; a
//! thousand times slower), one bit set over values per requirement (values are few, lists are shorter), copying the state for
//! every trial (the undo log costs what is changed).

pub mod algebra;
pub mod bound;
pub mod decide;
pub mod disrupt;
pub mod explain;
pub mod filter;
pub mod model;
pub mod offer_set;
pub mod pack;
pub mod plan;
pub mod waste;
