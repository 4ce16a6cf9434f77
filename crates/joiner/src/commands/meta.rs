//! `completion` and `version`: what the program says about itself.

use clap::CommandFactory;
use serde::Serialize;

use crate::cli::{Cli, CompletionArgs, VersionArgs};
use crate::{FINE, Streams, show};

/// The Karpenter release whose objects and rules are followed.
const KARPENTER: &str = "v1.14.1";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    kubernetes_api: &'static str,
    karpenter_compatibility: &'static str,
}

/// Prints the version.
pub fn version(arguments: &VersionArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        // The one that the embedded server answers as: it is what all rules were held against.
        kubernetes_api: joiner_apiserver::VERSION,
        karpenter_compatibility: KARPENTER,
    };
    let text = match arguments.output {
        None => format!("joiner {}\n", version.version),
        Some(format) => show::value(&version, format)?,
    };
    streams.out.write_all(text.as_bytes())?;
    Ok(FINE)
}

/// Prints a completion script.
pub fn completion(arguments: &CompletionArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    // Into memory first: the generator panics when its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "joiner", &mut script);
    streams.out.write_all(&script)?;
    Ok(FINE)
}
