//! `up`: a Kubernetes API on this machine, without a cluster behind it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use joiner_apiserver::VERSION;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};

use crate::{FINE, Streams};

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Objects can be created, changed, watched and deleted as on a real cluster, with the definitions of joiner installed. Nothing runs: there
is no scheduler, and no controller but the garbage collector. Nothing is kept after the end.

Example:
  joiner up --api-only --kubeconfig joiner.kubeconfig &
  kubectl --kubeconfig joiner.kubeconfig apply -f examples/inflate.yaml")]
pub struct UpArgs {
    /// Serve the API and nothing else, the one thing `up` can do so far.
    #[arg(long, required = true)]
    pub api_only: bool,
    /// Where to write the file that lets clients in; it is overwritten.
    #[arg(long, value_name = "FILE", default_value = "joiner.kubeconfig")]
    pub kubeconfig: PathBuf,
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// Serves until interrupted.
pub fn run(arguments: &UpArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments, streams))?;
    // Watches still open are of no interest any more.
    runtime.shutdown_background();
    Ok(FINE)
}

async fn serve(arguments: &UpArgs, streams: &mut Streams<'_>) -> anyhow::Result<()> {
    // Spawned, so that the handler is set before anybody is told that the server is up.
    let signal = tokio::spawn(tokio::signal::ctrl_c());
    let interrupted = async {
        // Without a handler nobody could ask the process to end, so it ends at once.
        let _ = signal.await;
    };
    let server = ApiServer::new(Arc::new(Timestamp::now), &Settings::default());
    for definition in joiner_api::crd::all() {
        let object = serde_json::to_value(&definition)?;
        let name = definition.metadata.name.clone().unwrap_or_default();
        server
            .create("apiextensions.k8s.io", "customresourcedefinitions", "", object)
            .with_context(|| format!("cannot install the definition `{name}`"))?;
    }
    let endpoint = Endpoint::bind(arguments.port).await?;
    let path = std::path::absolute(&arguments.kubeconfig)?;
    write_private(&path, &endpoint.kubeconfig())
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    writeln!(
        streams.out,
        "A Kubernetes API ({VERSION}) listens on https://{}. Nothing runs behind it.\n",
        endpoint.address()
    )?;
    writeln!(streams.out, "  export KUBECONFIG={}", path.display())?;
    writeln!(streams.out, "  kubectl get nodepools,nodes,pods -A\n")?;
    writeln!(streams.out, "Ctrl-C ends it; nothing is kept.")?;
    streams.out.flush()?;
    endpoint.serve(server, interrupted).await;
    Ok(())
}

/// The file holds a token: only its owner may read it.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}
