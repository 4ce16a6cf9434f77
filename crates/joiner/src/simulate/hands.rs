//! What somebody does to a cluster: apply, patch, delete, scale, evict, list. Plain requests over a client, so that it is the same on every API server.

use anyhow::{Context, bail};
use joiner_api::names::{AWS_API_VERSION, BUFFER_API_VERSION, KWOK_API_VERSION};
use kube::Client;
use serde_json::{Value, json};

use crate::simulate::expect::{Expectation, Objects, Query};

/// Who the fields belong to.
const MANAGER: &str = "scenario";

/// Kinds with their group and version, the plural of their paths, and whether they have namespaces.
const KINDS: [(&str, &str, &str, bool); 30] = [
    ("Node", "v1", "nodes", false),
    ("Namespace", "v1", "namespaces", false),
    ("PersistentVolume", "v1", "persistentvolumes", false),
    ("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", false),
    ("StorageClass", "storage.k8s.io/v1", "storageclasses", false),
    ("CSINode", "storage.k8s.io/v1", "csinodes", false),
    ("CSIDriver", "storage.k8s.io/v1", "csidrivers", false),
    ("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", false),
    ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions", false),
    ("ClusterRole", "rbac.authorization.k8s.io/v1", "clusterroles", false),
    ("NodePool", "karpenter.sh/v1", "nodepools", false),
    ("NodeClaim", "karpenter.sh/v1", "nodeclaims", false),
    ("NodeOverlay", "karpenter.sh/v1alpha1", "nodeoverlays", false),
    ("KWOKNodeClass", KWOK_API_VERSION, "kwoknodeclasses", false),
    ("EC2NodeClass", AWS_API_VERSION, "ec2nodeclasses", false),
    ("CapacityBuffer", BUFFER_API_VERSION, "capacitybuffers", true),
    ("Pod", "v1", "pods", true),
    ("Service", "v1", "services", true),
    ("ConfigMap", "v1", "configmaps", true),
    ("Event", "v1", "events", true),
    ("PersistentVolumeClaim", "v1", "persistentvolumeclaims", true),
    ("Deployment", "apps/v1", "deployments", true),
    ("ReplicaSet", "apps/v1", "replicasets", true),
    ("StatefulSet", "apps/v1", "statefulsets", true),
    ("DaemonSet", "apps/v1", "daemonsets", true),
    ("Job", "batch/v1", "jobs", true),
    ("CronJob", "batch/v1", "cronjobs", true),
    ("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", true),
    ("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers", true),
    ("Lease", "coordination.k8s.io/v1", "leases", true),
];

/// A user of a cluster.
#[derive(Clone)]
pub struct Hands {
    client: Client,
}

/// Where an object is, or with an empty name where all of its kind are.
fn path(kind: &str, namespace: Option<&str>, name: &str) -> anyhow::Result<String> {
    let Some((_, version, plural, is_namespaced)) = KINDS.iter().find(|(known, ..)| *known == kind) else {
        bail!("scenarios know no kind `{kind}`; they know {}", KINDS.map(|(kind, ..)| kind).join(", "));
    };
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let within = match namespace {
        Some(namespace) if *is_namespaced => format!("/namespaces/{namespace}"),
        _ => String::new(),
    };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    Ok(format!("{root}{within}/{plural}{name}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Where an object is; one without a namespace is in `default`.
fn path_of(object: &Value) -> anyhow::Result<String> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or("default");
    path(text(&object["kind"]), Some(namespace), text(&metadata["name"]))
}

impl Hands {
    /// Hands on a cluster.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(body).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }

    /// Applies an object, or each of a list, as `kubectl apply --server-side --force-conflicts` does.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        if let Value::Array(objects) = object {
            for object in objects {
                Box::pin(self.apply(object)).await?;
            }
            return Ok(());
        }
        let path = format!("{}?fieldManager={MANAGER}&force=true", path_of(object)?);
        let sent = self.send("PATCH", &path, "application/apply-patch+yaml", object).await;
        sent.map(drop).with_context(|| {
            format!("cannot apply {} `{}`", text(&object["kind"]), text(&object["metadata"]["name"]))
        })
    }

    /// Creates an object; one that is there already is as good.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn create(&self, object: &Value) -> anyhow::Result<()> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let path = format!("{}?fieldManager={MANAGER}", path(text(&object["kind"]), Some(namespace), "")?);
        match self.send("POST", &path, "application/json", object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error).with_context(|| {
                format!("cannot create {} `{}`", text(&object["kind"]), text(&object["metadata"]["name"]))
            }),
        }
    }

    /// Merges into an object.
    ///
    /// # Errors
    /// The server refuses it; that it is gone is fine.
    pub async fn patch(&self, object: &Value, change: &Value) -> anyhow::Result<()> {
        let path = format!("{}?fieldManager={MANAGER}", path_of(object)?);
        self.settled(object, self.send("PATCH", &path, "application/merge-patch+json", change).await)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The server refuses it; that it is gone is fine.
    pub async fn delete(&self, object: &Value) -> anyhow::Result<()> {
        let path = path_of(object)?;
        self.settled(object, self.send("DELETE", &path, "application/json", &Value::Null).await)
    }

    /// Asks a pod to leave. Says whether a budget allows it.
    ///
    /// # Errors
    /// The server refuses it for another reason.
    pub async fn evict(&self, pod: &Value) -> anyhow::Result<bool> {
        let metadata = &pod["metadata"];
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": metadata["name"]}});
        let path = format!("{}/eviction", path_of(pod)?);
        match self.send("POST", &path, "application/json", &eviction).await {
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(false),
            sent => self.settled(pod, sent).map(|()| true),
        }
    }

    /// Sets the number of replicas of an object in `default`.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn scale(&self, kind: &str, name: &str, replicas: u32) -> anyhow::Result<()> {
        let path = format!("{}/scale?fieldManager={MANAGER}", path(kind, Some("default"), name)?);
        let change = json!({"spec": {"replicas": replicas}});
        let sent = self.send("PATCH", &path, "application/merge-patch+json", &change).await;
        sent.map(drop).with_context(|| format!("cannot scale {kind} `{name}`"))
    }

    fn settled(&self, object: &Value, sent: Result<Value, kube::Error>) -> anyhow::Result<()> {
        match sent {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| {
                format!("{} `{}`", text(&object["kind"]), text(&object["metadata"]["name"]))
            }),
        }
    }

    /// All objects of a kind, each with its kind in it; none if the server does not know the kind.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn list(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let sent = self.send("GET", &path(kind, None, "")?, "application/json", &Value::Null).await;
        let mut list = match sent {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(Vec::new()),
            sent => sent.with_context(|| format!("cannot list {kind}"))?,
        };
        let mut items = match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        for item in &mut items {
            item["kind"] = kind.into();
        }
        items.sort_by(|one, other| name_of(one).cmp(&name_of(other)));
        Ok(items)
    }

    /// All objects that expectations ask for.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn look(&self, expectations: &[Expectation]) -> anyhow::Result<Objects> {
        let mut objects = Objects::default();
        for kind in expectations.iter().flat_map(Expectation::kinds) {
            if !objects.0.contains_key(kind) {
                objects.0.insert(kind.to_owned(), self.list(kind).await?);
            }
        }
        Ok(objects)
    }

    /// The objects a query chooses, by name; at least one.
    ///
    /// # Errors
    /// There is none, or they cannot be listed.
    pub async fn choose(&self, query: &Query, usual_kind: &str) -> anyhow::Result<Vec<Value>> {
        let kind = query.kind.as_deref().unwrap_or(usual_kind);
        let mut objects = Objects::default();
        for kind in [kind, "Node"] {
            if !objects.0.contains_key(kind) {
                objects.0.insert(kind.to_owned(), self.list(kind).await?);
            }
        }
        let chosen = query.select(kind, &objects).into_iter();
        let chosen: Vec<Value> = chosen.take(query.first.unwrap_or(usize::MAX)).cloned().collect();
        match chosen.is_empty() {
            true => bail!("there is no {kind} {query}"),
            false => Ok(chosen),
        }
    }
}

fn name_of(object: &Value) -> (&str, &str) {
    (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_paths() {
        assert_eq!(path("Node", Some("default"), "a").unwrap(), "/api/v1/nodes/a");
        assert_eq!(path("Pod", Some("b"), "a").unwrap(), "/api/v1/namespaces/b/pods/a");
        assert_eq!(path("Deployment", None, "").unwrap(), "/apis/apps/v1/deployments");
        assert!(path("Nod", None, "").unwrap_err().to_string().contains("no kind `Nod`"));
    }
}
