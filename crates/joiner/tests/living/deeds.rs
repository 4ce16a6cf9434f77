//! What somebody does to a cluster: create, scale, patch, evict, delete, and wait.

use joiner_sim::clock::Clock;
use kube::Client;
use serde_json::{Value, json};

use crate::log::Log;

/// A user of a cluster.
pub(crate) struct Hands {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
}

impl Hands {
    /// Takes down what has happened, so that nothing is forgotten in a long run.
    pub(crate) async fn note(&mut self) {
        self.log.read(&self.client).await;
    }

    /// Applies all documents of a text.
    pub(crate) async fn apply(&self, text: &str) {
        for object in serde_saphyr::from_multiple::<Value>(text).unwrap() {
            self.apply_one(&object).await;
        }
    }

    pub(crate) async fn apply_one(&self, object: &Value) {
        let kind = object["kind"].as_str().unwrap();
        let path = format!("{}/{}", collection(kind), object["metadata"]["name"].as_str().unwrap());
        let request = http::Request::patch(format!("{path}?fieldManager=test&force=true"))
            .header("content-type", "application/apply-patch+yaml");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
    }

    /// Merges into an object.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: &Value) {
        let request = http::Request::patch(format!("{}/{name}?fieldManager=test", collection(kind)))
            .header("content-type", "application/merge-patch+json");
        let request = request.body(patch.to_string().into_bytes()).unwrap();
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    pub(crate) async fn scale(&self, kind: &str, name: &str, replicas: usize) {
        let request = http::Request::patch(format!("{}/{name}/scale?fieldManager=test", collection(kind)))
            .header("content-type", "application/merge-patch+json");
        let request = request.body(json!({"spec": {"replicas": replicas}}).to_string().into_bytes()).unwrap();
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let request = http::Request::delete(format!("{}/{name}", collection(kind))).body(Vec::new()).unwrap();
        self.client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
    }

    /// Asks a pod to leave; false if a budget says no.
    pub(crate) async fn evict(&self, name: &str) -> bool {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let request = http::Request::post(format!("{}/{name}/eviction", collection("Pod")))
            .header("content-type", "application/json");
        let request = request.body(eviction.to_string().into_bytes()).unwrap();
        match self.client.request::<Value>(request).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 429 => false,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    pub(crate) async fn list(&self, kind: &str) -> Vec<Value> {
        let request = http::Request::get(collection(kind)).body(Vec::new()).unwrap();
        let list: Value = self.client.request(request).await.unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// Pods that are ready.
    pub(crate) async fn ready(&self) -> usize {
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|of| of["type"] == "Ready" && of["status"] == "True")
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        self.list("Pod").await.iter().filter(is_ready).count()
    }

    /// Names of all nodes.
    pub(crate) async fn nodes(&self) -> Vec<String> {
        self.list("Node").await.iter().map(name_of).collect()
    }

    /// Names of pods on a node.
    pub(crate) async fn pods_on(&self, node: &str) -> Vec<String> {
        self.list("Pod").await.iter().filter(|pod| pod["spec"]["nodeName"] == node).map(name_of).collect()
    }
}

pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// Where objects of a kind are; those with a namespace are in `default`.
fn collection(kind: &str) -> String {
    let (root, plural) = match kind {
        "Node" => return "/api/v1/nodes".to_owned(),
        "NodePool" => return "/apis/karpenter.sh/v1/nodepools".to_owned(),
        "NodeClaim" => return "/apis/karpenter.sh/v1/nodeclaims".to_owned(),
        "KWOKNodeClass" => return "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses".to_owned(),
        "StorageClass" => return "/apis/storage.k8s.io/v1/storageclasses".to_owned(),
        "Pod" => ("/api/v1", "pods"),
        "Service" => ("/api/v1", "services"),
        "PersistentVolumeClaim" => ("/api/v1", "persistentvolumeclaims"),
        "Deployment" => ("/apis/apps/v1", "deployments"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "DaemonSet" => ("/apis/apps/v1", "daemonsets"),
        "Job" => ("/apis/batch/v1", "jobs"),
        "CronJob" => ("/apis/batch/v1", "cronjobs"),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets"),
        "HorizontalPodAutoscaler" => ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
        other => panic!("no path for {other}"),
    };
    format!("{root}/namespaces/default/{plural}")
}
