//! A cluster around the embedded API server.

pub mod event;
pub mod object;
pub mod scheduler;
pub mod write;
