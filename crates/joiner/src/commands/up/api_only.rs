//! A Kubernetes API on this machine, without a cluster behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context;
use jiff::Timestamp;
use joiner_apiserver::VERSION;
use joiner_apiserver::crd::Definition;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use serde_json::Value;

use super::UpArgs;
use super::kubeconfig::Kubeconfig;
use crate::Streams;

/// Serves until interrupted.
pub fn run(arguments: &UpArgs, streams: &mut Streams) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments, streams))?;
    // Watches still open are of no interest any more.
    runtime.shutdown_background();
    Ok(())
}

async fn serve(arguments: &UpArgs, streams: &mut Streams<'_>) -> anyhow::Result<()> {
    // Spawned, so that the handler is set before anybody is told that the server is up.
    let signal = tokio::spawn(told_to_end());
    let interrupted = async {
        // Without a handler nobody could ask the process to end, so it ends at once.
        let _ = signal.await;
    };
    let definitions = Definitions::begin()?;
    let folder = arguments.data_dir.as_deref();
    // Uids are as different from those of another start as they are on a real cluster.
    let settings = Settings { seed: rand_seed(), usage: true, ..Settings::default() };
    let (server, credentials) = match folder {
        Some(folder) => {
            let server = ApiServer::in_folder(Arc::new(Timestamp::now), &settings, folder)?;
            (server, Credentials::in_folder(folder)?)
        }
        None => (ApiServer::new(Arc::new(Timestamp::now), &settings), Credentials::generate()?),
    };
    definitions.install(&server)?;
    server.saved().await.map_err(|reason| anyhow::anyhow!("{reason}"))?;
    let address = SocketAddr::new(arguments.listen, arguments.port);
    let endpoint = Endpoint::open(address, &credentials).await?;
    let kubeconfig =
        Kubeconfig::write(arguments.kubeconfig_path(), arguments.data_dir.is_some(), endpoint.kubeconfig())?;
    writeln!(
        streams.out,
        "A Kubernetes API ({VERSION}) listens on https://{}. Nothing runs behind it.\n",
        endpoint.address()
    )?;
    if !arguments.listen.is_loopback() {
        writeln!(
            streams.out,
            "Other machines can reach it: whoever has the token of the kubeconfig may do everything.\n"
        )?;
    }
    writeln!(streams.out, "  export KUBECONFIG={}", kubeconfig.path().display())?;
    writeln!(streams.out, "  kubectl get nodepools,nodes,pods -A\n")?;
    match folder {
        Some(folder) => {
            writeln!(streams.out, "Ctrl-C ends it; everything is kept in `{}`.", folder.display())?
        }
        None => writeln!(streams.out, "Ctrl-C ends it; nothing is kept.")?,
    }
    streams.out.flush()?;
    endpoint.serve(server.clone(), interrupted).await;
    drop(kubeconfig);
    server.close();
    Ok(())
}

/// The definitions of joiner's kinds, and of a kind of others, on their way: they are written down and their rules compiled on a thread of their own, while a server
/// is made.
pub struct Definitions(JoinHandle<serde_json::Result<Vec<Value>>>);

impl Definitions {
    /// Begins.
    pub fn begin() -> std::io::Result<Self> {
        let work = || {
            let kinds = joiner_api::crd::all().into_iter().chain(joiner_api::crd::of_others());
            let all: Result<Vec<Value>, _> = kinds.map(serde_json::to_value).collect();
            for definition in all.iter().flatten() {
                // The server refuses one that cannot be read; whoever reads it next finds it read.
                let _ = Definition::read(definition);
            }
            all
        };
        Ok(Self(std::thread::Builder::new().name("definitions".to_owned()).spawn(work)?))
    }

    /// Makes the kinds known to a server.
    pub fn install(self, server: &ApiServer) -> anyhow::Result<()> {
        let all = self.0.join().map_err(|_| anyhow::anyhow!("the definitions cannot be read"))??;
        for object in all {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            server
                .ensure("apiextensions.k8s.io", "customresourcedefinitions", "", object)
                .with_context(|| format!("cannot install the definition `{name}`"))?;
        }
        Ok(())
    }
}

/// Waits for Ctrl-C, or for the word of a supervisor.
pub async fn told_to_end() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// As [`told_to_end`]; then the program ends at once, whatever is under way.
pub async fn end_at_once() {
    told_to_end().await;
    // As a shell tells that Ctrl-C ended a program.
    std::process::exit(130);
}

/// A number that differs from start to start.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
