//! A cluster around the embedded API server.

pub mod cache;
pub mod controller;
pub mod event;
pub mod object;
pub mod scheduler;
#[allow(dead_code, reason = "the loop uses what is left")]
pub mod write;
