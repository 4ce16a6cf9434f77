//! A live cluster, read by lists and nothing else.

use std::fmt;
use std::path::Path;

use anyhow::Context;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;

use crate::connection::{self, told};
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
        let why = match &self.why {
            Why::NotServed => "the cluster does not serve",
            Why::Forbidden(_) => "you may not list",
        };
        write!(f, "left out: {}, which {why}", self.plural)
    }
}

impl Absence {
    /// What the cluster said; it may name users, which is nothing for the file.
    pub fn detail(&self) -> Option<&str> {
        match &self.why {
            Why::NotServed => None,
            Why::Forbidden(message) => Some(message),
        }
    }
}

/// Connects as the kubeconfig says.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    let config = connection::config(kubeconfig, context).await?;
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

    async fn list(
        &self,
        kind: &'static KindToRead,
        version: &str,
        namespace: Option<&str>,
        progress: &indicatif::ProgressBar,
    ) -> Result<Vec<Value>, kube::Error> {
        let request = Request::new(kind.path(version, namespace));
        let ask = async |page: &ListParams| {
            let asked = request.list(page).map_err(kube::Error::BuildRequest)?;
            self.client.request(asked).await
        };
        let keep = |item: Value| self.scrubber.object(kind, version, item);
        let told = |count: usize| {
            let count = self.objects.len() + count;
            progress.set_message(format!("reading {}: {count} objects so far", kind.plural));
        };
        pages(ask, keep, told).await
    }
}

/// One list, page by page, all at one version. If the version expires meanwhile, the list begins anew.
async fn pages(
    mut ask: impl AsyncFnMut(&ListParams) -> Result<Value, kube::Error>,
    keep: impl Fn(Value) -> Option<Value>,
    told: impl Fn(usize),
) -> Result<Vec<Value>, kube::Error> {
    let mut tries = 1;
    'again: loop {
        let mut found = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let mut answer = match ask(&page).await {
                Ok(answer) => answer,
                Err(kube::Error::Api(status)) if status.code == 410 && tries < TRIES => {
                    tries += 1;
                    continue 'again;
                }
                Err(error) => return Err(error),
            };
            if let Value::Array(items) = answer["items"].take() {
                found.extend(items.into_iter().filter_map(&keep));
            }
            told(found.len());
            match answer["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(token),
                None => return Ok(found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kube::core::Status;
    use serde_json::json;

    use super::*;

    fn page(items: &[u8], token: &str) -> Result<Value, kube::Error> {
        Ok(json!({"metadata": {"continue": token}, "items": items}))
    }

    fn failure(code: u16) -> Result<Value, kube::Error> {
        Err(kube::Error::Api(Box::new(Status::failure("no", "No").with_code(code))))
    }

    /// Lists from these answers: what came of it, and the tokens that were sent.
    async fn listed(
        answers: Vec<Result<Value, kube::Error>>,
    ) -> (Result<Vec<Value>, kube::Error>, Vec<String>) {
        let (answers, asked) = (RefCell::new(answers.into_iter()), RefCell::new(Vec::new()));
        let ask = async |page: &ListParams| {
            assert_eq!(page.limit, Some(PAGE));
            asked.borrow_mut().push(page.continue_token.clone().unwrap_or_default());
            answers.borrow_mut().next().expect("nobody asks for more")
        };
        let listed = pages(ask, Some, |_| {}).await;
        (listed, asked.into_inner())
    }

    #[tokio::test]
    async fn pages_follow_one_another() {
        let (found, asked) = listed(vec![page(&[1, 2], "a"), page(&[3], "b"), page(&[4], "")]).await;
        assert_eq!(found.unwrap(), [1, 2, 3, 4]);
        assert_eq!(asked, ["", "a", "b"]);
    }

    #[tokio::test]
    async fn a_list_that_expires_begins_anew() {
        let (found, asked) =
            listed(vec![page(&[1, 2], "a"), failure(410), page(&[5], "c"), page(&[6], "")]).await;
        assert_eq!(found.unwrap(), [5, 6], "nothing of the first try is left");
        assert_eq!(asked, ["", "a", "", "c"]);
        let (found, _) = listed((0..TRIES).map(|_| failure(410)).collect()).await;
        assert!(found.is_err(), "not for ever");
    }

    #[tokio::test]
    async fn a_list_that_fails_half_way_is_no_list() {
        let (found, _) = listed(vec![page(&[1, 2], "a"), failure(500)]).await;
        assert!(found.is_err());
    }
}
