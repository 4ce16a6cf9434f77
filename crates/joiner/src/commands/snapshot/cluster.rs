//! A live cluster, read by lists and nothing else.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::{Client, Config};
use serde_json::Value;

use crate::snapshot::kinds::KindToRead;
use crate::snapshot::scrub::Scrubber;

/// Objects of one page.
const PAGE: u32 = 500;
/// A list that expires again and again while it is read is given up.
const TRIES: usize = 5;

/// Something that is not in a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct Absence {
    plural: String,
    why: Why,
}

#[derive(Debug, PartialEq, Eq)]
enum Why {
    NotServed,
    Forbidden(String),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::NotServed => write!(f, "left out: {}, which the cluster does not serve", self.plural),
            Why::Forbidden(message) => {
                write!(f, "left out: {}, which you may not list ({message})", self.plural)
            }
        }
    }
}

/// Connects as the kubeconfig says.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let read = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig `{}`", path.display()))?;
            Config::from_custom_kubeconfig(read, &options)
                .await
                .with_context(|| format!("cannot use the kubeconfig `{}`", path.display()))?
        }
        None if context.is_some() => {
            Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")?
        }
        None => Config::infer().await.context("no cluster is known: name a kubeconfig with --kubeconfig")?,
    };
    let url = config.cluster_url.clone();
    Client::try_from(config).with_context(|| format!("cannot set up a connection to {url}"))
}

/// What was read so far.
pub struct Reading {
    /// The cluster.
    pub client: Client,
    /// What drops what is not to leave it.
    pub scrubber: Scrubber,
    /// Objects.
    pub objects: Vec<Value>,
    /// What was left out.
    pub absences: Vec<Absence>,
}

impl Reading {
    /// Reads all objects of a kind. Lists of which only a part can be had are an error: half a cluster must not look like a whole one.
    pub async fn read(
        &mut self,
        kind: &'static KindToRead,
        namespaces: &[String],
        progress: &indicatif::ProgressBar,
    ) -> anyhow::Result<()> {
        let plural = match kind.group {
            "" => kind.plural.to_owned(),
            group => format!("{}.{group}", kind.plural),
        };
        let places: Vec<Option<&str>> = match kind.namespaced && !namespaces.is_empty() {
            true => namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
            false => vec![None],
        };
        'places: for place in places {
            let mut why = Why::NotServed;
            for version in kind.versions {
                match self.list(kind, version, place, progress).await {
                    Ok(mut listed) => {
                        if kind.kind == "Namespace" && !namespaces.is_empty() {
                            listed.retain(|of| {
                                namespaces.iter().any(|name| of["metadata"]["name"] == name.as_str())
                            });
                        }
                        self.objects.append(&mut listed);
                        continue 'places;
                    }
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(kube::Error::Api(status)) if status.code == 403 => {
                        why = Why::Forbidden(status.message.replace('\n', " "));
                        break;
                    }
                    Err(error) => return Err(told(error)).with_context(|| format!("cannot list {plural}")),
                }
            }
            let absence = Absence { plural: plural.clone(), why };
            if !self.absences.contains(&absence) {
                self.absences.push(absence);
            }
        }
        Ok(())
    }

    /// One list, page by page, all at one version. If the version expires meanwhile, the list begins anew.
    async fn list(
        &self,
        kind: &'static KindToRead,
        version: &str,
        namespace: Option<&str>,
        progress: &indicatif::ProgressBar,
    ) -> Result<Vec<Value>, kube::Error> {
        let request = Request::new(kind.path(version, namespace));
        let mut tries = 1;
        'again: loop {
            let mut found = Vec::new();
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let asked = request.list(&page).map_err(kube::Error::BuildRequest)?;
                let mut answer: Value = match self.client.request(asked).await {
                    Ok(answer) => answer,
                    Err(kube::Error::Api(status)) if status.code == 410 && tries < TRIES => {
                        tries += 1;
                        continue 'again;
                    }
                    Err(error) => return Err(error),
                };
                if let Value::Array(items) = answer["items"].take() {
                    found.extend(
                        items.into_iter().filter_map(|item| self.scrubber.object(kind, version, item)),
                    );
                }
                progress.set_message(format!(
                    "reading {}: {} objects so far",
                    kind.plural,
                    self.objects.len() + found.len()
                ));
                match answer["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(token),
                    None => return Ok(found),
                }
            }
        }
    }
}

/// An error without the debugging text of the library.
fn told(error: kube::Error) -> anyhow::Error {
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
