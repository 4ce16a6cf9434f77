//! The whole product in a simulated cluster: every scenario, every crash, every lost answer, and clusters drawn from seeds; and that the checkers see what they
//! are there to see.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod command;
mod planted;
mod scenarios;
mod seeds;
