//! A cluster that lives, with joiner in it: lived twice, it leaves the same log; kubectl finds in it what it finds in a real one.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cluster;
mod day;
mod deeds;
mod kubectl;
mod log;
mod scenarios;
mod twice;
mod up;
