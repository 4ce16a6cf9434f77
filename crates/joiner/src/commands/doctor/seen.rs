//! What is read of a cluster, by gets and lists and nothing else.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde_json::Value;

use crate::connection::told;

/// Objects of one page.
const PAGE: u32 = 500;

/// What came of asking.
#[derive(Debug, Clone)]
pub enum Answer {
    /// These objects.
    Got(Vec<Value>),
    /// The cluster has no such kind, or no such object.
    Absent,
    /// Whoever asks may not.
    Forbidden(String),
}

impl Answer {
    /// The objects, if there are any to be had.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Got(items) => items,
            Self::Absent | Self::Forbidden(_) => &[],
        }
    }
}

/// A cluster as it was found. Kinds are keyed by the end of their path.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// What `/version` says.
    pub version: Value,
    /// The clock of the server, and that of this machine when it answered.
    pub clocks: Option<(Timestamp, Timestamp)>,
    /// Lists, by plural.
    pub lists: BTreeMap<&'static str, Answer>,
}

/// Paths that are listed, by plural.
const LISTS: [(&str, &str); 15] = [
    ("customresourcedefinitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
    ("namespaces", "/api/v1/namespaces"),
    ("deployments", "/apis/apps/v1/deployments"),
    ("nodepools", "/apis/karpenter.sh/v1/nodepools"),
    ("nodeclaims", "/apis/karpenter.sh/v1/nodeclaims"),
    ("kwoknodeclasses", "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"),
    ("ec2nodeclasses", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
    ("stages", "/apis/kwok.x-k8s.io/v1alpha1/stages"),
    (
        "validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    ),
    ("mutatingwebhookconfigurations", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ("clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("roles", "/apis/rbac.authorization.k8s.io/v1/roles"),
    ("rolebindings", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    ("services", "/api/v1/services"),
];

/// Reads what the checks look at.
///
/// # Errors
/// The cluster cannot be reached, or fails.
pub async fn read(client: &Client, mut progress: impl FnMut(&str)) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    progress("asking for the version");
    let request = http::Request::get("/version").body(kube::client::Body::empty())?;
    let response = client.send(request).await.map_err(told)?;
    let now = Timestamp::now();
    let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    seen.clocks =
        date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|server| (server.timestamp(), now));
    let bytes = response.into_body().collect_bytes().await.map_err(told)?;
    seen.version = serde_json::from_slice(&bytes).unwrap_or_default();
    for (plural, path) in LISTS {
        progress(&format!("reading {plural}"));
        seen.lists.insert(plural, list(client, path, &ListParams::default(), slim(plural)).await?);
    }
    progress("reading nodes");
    let of_pools = ListParams::default().labels(joiner_api::names::NODEPOOL_LABEL);
    seen.lists.insert("nodes", list(client, "/api/v1/nodes", &of_pools, slim("nodes")).await?);
    progress("reading pending pods");
    let pending = ListParams::default().fields("status.phase=Pending");
    seen.lists.insert("pods", list(client, "/api/v1/pods", &pending, slim("pods")).await?);
    Ok(seen)
}

/// What the checks look at, of an object of this kind: the rest is dropped as soon as it has come.
fn slim(plural: &'static str) -> impl Fn(&mut Value) {
    move |object| {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let is_many = matches!(plural, "nodes" | "pods" | "nodeclaims");
            metadata.retain(|name, _| match name.as_str() {
                "managedFields" => plural == "customresourcedefinitions",
                "labels" | "ownerReferences" | "generateName" | "uid" => !is_many,
                _ => true,
            });
        }
        let drop: &[&str] = match plural {
            "nodes" => &["spec"],
            "pods" => &["spec"],
            "nodeclaims" => &["spec"],
            "deployments" => &["status"],
            "services" | "namespaces" => &["spec"],
            _ => &[],
        };
        if let Some(fields) = object.as_object_mut() {
            fields.retain(|name, _| !drop.contains(&name.as_str()));
        }
        if plural == "nodes" {
            let conditions = object["status"]["conditions"].take();
            object["status"] = serde_json::json!({ "conditions": conditions });
        }
    }
}

/// One list, page by page.
///
/// # Errors
/// As for [`read`].
pub async fn list(
    client: &Client,
    path: &str,
    wanted: &ListParams,
    slim: impl Fn(&mut Value),
) -> anyhow::Result<Answer> {
    let mut found = Vec::new();
    let mut page = wanted.clone().limit(PAGE);
    loop {
        let request = Request::new(path).list(&page)?;
        let mut answer: Value = match client.request(request).await {
            Ok(answer) => answer,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Answer::Absent),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return Ok(Answer::Forbidden(status.message));
            }
            // The list has become too old while it was read: what has come is as good as a list can be here.
            Err(kube::Error::Api(status)) if status.code == 410 && !found.is_empty() => {
                return Ok(Answer::Got(found));
            }
            Err(error) => return Err(told(error).context(format!("cannot list {path}"))),
        };
        if let Value::Array(items) = answer["items"].take() {
            found.extend(items.into_iter().map(|mut item| {
                slim(&mut item);
                item
            }));
        }
        match answer["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(token),
            None => return Ok(Answer::Got(found)),
        }
    }
}
