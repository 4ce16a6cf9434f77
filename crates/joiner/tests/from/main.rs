//! `joiner snapshot`, `up --from` and `plan --from` as processes: a cluster goes into a file and comes out of it as it was.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod files;
mod process;
mod restart;
