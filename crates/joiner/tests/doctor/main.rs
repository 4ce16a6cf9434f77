//! `joiner doctor`: one broken cluster for each finding, a healthy one without any, and no write; and `joiner run` beside another autoscaler.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod beside;
mod broken;
mod cluster;
