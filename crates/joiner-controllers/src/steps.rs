//! What is to be done for one object, as pure functions: facts about it and a moment in, a [`Step`](crate::command::Step) out. Nothing here waits,
//! reads a clock or reaches outside; `cargo xtask tidy` checks it.

pub mod breakers;
pub mod consistency;
pub mod detaching;
pub mod draining;
pub mod emptiness;
pub mod hydration;
pub mod joining;
pub mod lifecycle;
pub mod movable;
pub mod nodepools;
pub mod registration_health;
pub mod static_pools;
pub mod termination;
pub mod transitions;
