//! The way to a cluster: kubeconfigs, contexts, the account of a pod, and what is said when there is none.

use std::path::Path;

use anyhow::Context;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// How to connect, as the kubeconfig says.
pub async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path).map_err(|error| {
                anyhow::anyhow!("cannot read the kubeconfig `{}`: {}", path.display(), innermost(&error))
            })?;
            Config::from_custom_kubeconfig(read, &options)
                .await
                .with_context(|| format!("cannot use the kubeconfig `{}`", path.display()))
        }
        None if context.is_some() => {
            Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")
        }
        None => Config::infer().await.map_err(|error| {
            // Its causes say the same thing again, each in more words.
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            anyhow::anyhow!(
                "no cluster is known ({why}): name a kubeconfig with --kubeconfig, or start a simulated cluster with `joiner up`"
            )
        }),
    }
}

/// The cause of all causes.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// An error without the debugging text of the library.
pub fn told(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{} (code {})", status.message, status.code),
        kube::Error::Service(cause) => {
            let mut text = cause.to_string();
            let mut source = cause.source();
            while let Some(inner) = source {
                let inner_text = inner.to_string();
                if !text.contains(&inner_text) {
                    text = format!("{text}: {inner_text}");
                }
                source = inner.source();
            }
            anyhow::anyhow!("the cluster cannot be reached: {text}")
        }
        error => error.into(),
    }
}
