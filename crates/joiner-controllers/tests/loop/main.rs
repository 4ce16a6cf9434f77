//! The whole loop on the embedded API server, in one process, on one thread, with paused time: on a simulated cluster with its scheduler and kubelets.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod clock_steps;
mod clouds;
mod crashes;
mod draining;
mod emptying;
mod faults;
mod keeping_order;
mod launching;
mod leading;
mod lifetimes;
mod lost_replies;
mod measuring;
mod node_groups;
mod stage;
mod takeover;
mod watching;
