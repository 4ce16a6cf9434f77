//! joiner's API beside a real one: the same kubectl commands, the same client-go informer, the same custom resources.
//!
//! Each test starts `joiner up --api-only` and a real control plane from the cache of `cargo xtask control-plane build`. Without the built
//! programs the tests are named as not run, and with `CI=true` they fail.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod aws;
mod custom;
mod embedded;
mod informer;
mod kubectl;
mod objects;
mod run;
mod snapshot;
