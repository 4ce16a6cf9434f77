//! joiner's API beside a real one: the same kubectl commands, the same client-go informer, the same custom resources. And `joiner run` on a real one: the
//! guide, replicas that are killed.
//!
//! Most tests start `joiner up --api-only` and a real control plane from the cache of `cargo xtask control-plane build`. Without the built
//! programs the tests are named as not run, and with `CI=true` they fail.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail, and tell why")]

mod aws;
mod custom;
mod embedded;
mod guide;
mod informer;
mod kubectl;
mod kubelets;
mod leaders;
mod objects;
mod replica;
mod scenarios;
mod snapshot;
