//! A real Kubernetes control plane for tests.
//!
//! What the embedded API server answers is only right if a real one answers the same. This crate gets a real one: it builds
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl from pinned sources ([`build`]) into a cache
//! outside the source tree ([`cache`]), starts them on loopback with certificates and tokens of their own ([`plane`]), and talks to
//! the server ([`client`]). Nothing outside this machine is involved, and no container runtime and no root are needed.
//!
//! Tests ask for a plane with [`plane_for`]. Where the programs are not built the test is named as not run, with the reason, and
//! passes; with `CI=true` it fails instead. A test never touches a cluster by accident: the variable `KUBECONFIG` is not
//! read, only `JOINER_TEST_KUBECONFIG`.
//!
//! The programs live no longer than the process that started them ([`process`]): each hangs on a pipe that closes when that
//! process ends, however it ends. Planes that `cargo xtask control-plane up` starts are the exception ([`standing`]).
//!
//! What programs under test did is read from the API server's record of requests ([`audit`]), what they used from the system ([`usage`]).
//! Signals kill them, stop them and wake them ([`process::Signal`]).
//!
//! [`relay`] stands between a client and a server and cuts connections on demand.

pub mod audit;
pub mod build;
pub mod cache;
mod certificates;
pub mod client;
pub mod plane;
pub mod process;
pub mod relay;
pub mod standing;
pub mod usage;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::client::Client;
use crate::plane::{ControlPlane, Parts};

/// A server to test against: one that this process started, or one that the caller named.
pub struct Bed {
    /// A client with all rights.
    pub client: Client,
    /// The kubeconfig, for programs.
    pub kubeconfig: PathBuf,
    /// The programs, when they are ours.
    pub plane: Option<ControlPlane>,
}

/// A server for a test, or `None` when there is none to be had: then the test is named on standard error as not run.
///
/// # Errors
/// With `CI=true` also when there is none to be had; always when one cannot be started.
pub async fn plane_for(test: &str, parts: Parts) -> Result<Option<Bed>> {
    if let Some(kubeconfig) = std::env::var_os("JOINER_TEST_KUBECONFIG") {
        let kubeconfig = PathBuf::from(kubeconfig);
        let client = Client::from_kubeconfig(&std::fs::read_to_string(&kubeconfig)?)?;
        return Ok(Some(Bed { client, kubeconfig, plane: None }));
    }
    let Some(programs) = programs_for(test)? else { return Ok(None) };
    let plane = ControlPlane::start(&programs, parts).await?;
    let client = plane.client()?;
    Ok(Some(Bed { client, kubeconfig: plane.kubeconfig(), plane: Some(plane) }))
}

/// The built programs, or `None` when they are not built: then the test is named on standard error as not run.
///
/// # Errors
/// With `CI=true` they are not built.
pub fn programs_for(test: &str) -> Result<Option<cache::Programs>> {
    match cache::Programs::built() {
        Ok(programs) => Ok(Some(programs)),
        Err(reason) if in_ci() => {
            anyhow::bail!("`{test}` needs a real control plane: {reason:#}")
        }
        Err(reason) => {
            not_run(test, &format!("{reason:#}"));
            Ok(None)
        }
    }
}

/// Helm, or `None` when it is not built: then the test is named on standard error as not run.
///
/// # Errors
/// With `CI=true` it is not built.
pub fn helm_for(test: &str) -> Result<Option<PathBuf>> {
    let place = cache::helm()?;
    let reason = "helm is not built; `cargo xtask helm version` builds it";
    match place.is_file() {
        true => Ok(Some(place)),
        false if in_ci() => anyhow::bail!("`{test}` needs helm: {reason}"),
        false => {
            not_run(test, reason);
            Ok(None)
        }
    }
}

/// Whether tests may not be left out.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Names a test that did not run. Written past the test runner, which keeps what passing tests print.
pub fn not_run(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "not run: {test}: {reason}");
}
