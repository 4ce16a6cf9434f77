//! A cluster around the embedded API server.
//!
//! `joiner-apiserver` keeps objects and answers requests; nothing happens by itself. This crate adds what makes a cluster of it.
//!
//! **Participants** keep a view of their own and take one step at a time ([`controller::Participant`]): told of every change
//! ([`event`]) of every object ([`object`]), they answer with changes to make ([`write`](mod@write)). They do no I/O, ask no clock and roll no dice, so
//! the same input gives the same cluster, byte for byte.
//!
//! **The scheduler** ([`scheduler`]) is one of them. It does what kube-scheduler does by default, with the rules that joiner plans by:
//!
//! ```
//! use joiner_sim::controller::Participant;
//! use joiner_sim::scheduler::{Scheduler, Settings};
//!
//! let mut scheduler = Scheduler::new(Settings::default());
//! assert!(scheduler.step(jiff::Timestamp::UNIX_EPOCH).is_empty(), "no pods, nothing to write");
//! ```
//!
//! Turned down: a scheduler that asks the server for lists, as kube-scheduler's plugins do. Following events costs what changes and not what
//! the cluster holds.

pub mod cache;
pub mod controller;
pub mod event;
pub mod object;
pub mod scheduler;
#[allow(dead_code, reason = "the loop uses what is left")]
pub mod write;
