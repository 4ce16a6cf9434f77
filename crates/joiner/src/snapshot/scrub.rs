//! What stays of one object: fields that placement and autoscaling look at, and nothing else.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Hashes;
use super::keep::Keep;
use super::kinds::{KINDS, KindToRead};

/// Annotations that stay: whole keys, or everything that begins so.
const ANNOTATIONS: &[&str] = &[
    "batch.kubernetes.io/",
    "cluster-autoscaler.kubernetes.io/",
    "controller.kubernetes.io/pod-deletion-cost",
    "deployment.kubernetes.io/",
    "deprecated.daemonset.template.generation",
    "joiner.sh/",
    "karpenter.",
    "kubernetes.io/config.mirror",
    "kwok.x-k8s.io/",
    "metrics.k8s.io/resource-metrics-path",
    "node.",
    "pv.kubernetes.io/",
    "scheduler.alpha.kubernetes.io/",
    "scheduling.k8s.io/",
    "storageclass.kubernetes.io/is-default-class",
    "volume.beta.kubernetes.io/",
    "volume.kubernetes.io/",
];
/// Stages of KWOK are named by the first part of the key.
const STAGE: &str = ".stage.kwok.x-k8s.io/";

/// Finalizers that somebody in a simulated cluster takes off again.
const FINALIZERS: &[&str] = &[
    "karpenter.sh/termination",
    "kubernetes.io/pvc-protection",
    "kubernetes.io/pv-protection",
    "batch.kubernetes.io/job-tracking",
];

/// Tells templates apart that differed only in what was dropped.
const REVISION: &str = "joiner.sh/revision";
const TEMPLATE_HASH: &str = "pod-template-hash";
const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// Drops what is not to leave the cluster.
#[derive(Debug)]
pub struct Scrubber {
    rules: BTreeMap<(&'static str, &'static str), Keep>,
    hashes: Hashes,
}

impl Scrubber {
    /// Images and other names that only have to differ become hashes under this key.
    pub fn new(key: &str) -> Self {
        let rules = KINDS.iter().map(|kind| ((kind.group, kind.kind), Keep::parse(kind.keeps))).collect();
        Self { rules, hashes: Hashes::new(key) }
    }

    /// What stays of an object that was read as this kind in this version; nothing if it has no bearing on the cluster any more.
    pub fn object(&self, kind: &'static KindToRead, version: &str, object: Value) -> Option<Value> {
        if is_over(kind.kind, &object) {
            return None;
        }
        let Value::Object(mut fields) = object else { return None };
        let Some(Value::Object(metadata)) = fields.remove("metadata") else { return None };
        let rule = self.rules.get(&(kind.group, kind.kind))?;
        let Some(Value::Object(mut kept)) = rule.apply(fields.into(), &self.hashes) else { return None };
        kept.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
        let api_version =
            if kind.group.is_empty() { version.to_owned() } else { format!("{}/{version}", kind.group) };
        let mut scrubbed =
            json!({"apiVersion": api_version, "kind": kind.kind, "metadata": own_metadata(metadata)});
        if let Value::Object(object) = &mut scrubbed {
            object.extend(kept);
        }
        drop_empty_volumes(&mut scrubbed);
        has_a_metric(&mut scrubbed).then_some(scrubbed)
    }
}

/// Metadata of an object.
fn own_metadata(metadata: Map<String, Value>) -> Map<String, Value> {
    const KEPT: [&str; 8] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
    ];
    let mut kept = Map::new();
    for (name, value) in metadata {
        if KEPT.contains(&name.as_str()) || name == "labels" {
            kept.insert(name, value);
        } else if name == "annotations" {
            keep_annotations(value, &mut kept);
        } else if name == "finalizers"
            && let Value::Array(all) = value
        {
            let known = |finalizer: &Value| finalizer.as_str().is_some_and(|of| FINALIZERS.contains(&of));
            let all: Vec<Value> = all.into_iter().filter(known).collect();
            if !all.is_empty() {
                kept.insert(name, all.into());
            }
        }
    }
    kept
}

/// Metadata of a template: labels and annotations.
pub(super) fn template_metadata(metadata: Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, value) in metadata {
        match name.as_str() {
            "labels" | "name" => {
                kept.insert(name, value);
            }
            "annotations" => keep_annotations(value, &mut kept),
            _ => {}
        }
    }
    kept
}

fn keep_annotations(annotations: Value, kept: &mut Map<String, Value>) {
    let Value::Object(annotations) = annotations else { return };
    let annotations: Map<String, Value> =
        annotations.into_iter().filter(|(key, _)| annotation_stays(key)).collect();
    if !annotations.is_empty() {
        kept.insert("annotations".to_owned(), annotations.into());
    }
}

fn annotation_stays(key: &str) -> bool {
    let listed = |known: &&str| match known.ends_with('/') || known.ends_with('.') {
        true => key.starts_with(*known),
        false => key == *known,
    };
    ANNOTATIONS.iter().any(listed) || key.contains(STAGE)
}

/// Objects that no longer change anything: ended pods and jobs, old templates without pods, services that choose no pods.
fn is_over(kind: &str, object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    match kind {
        "Pod" => matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        "Job" => {
            let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|condition| {
                condition["status"] == "True"
                    && (condition["type"] == "Complete" || condition["type"] == "Failed")
            })
        }
        "ReplicaSet" => {
            object["metadata"].get("ownerReferences").is_some()
                && object.pointer("/spec/replicas").is_some()
                && number("/spec/replicas") == 0
                && number("/status/replicas") == 0
        }
        "Service" => object["spec"]["selector"].as_object().is_none_or(Map::is_empty),
        _ => false,
    }
}

/// Metrics of which only the type is left go, and an autoscaler without any is none.
fn has_a_metric(object: &mut Value) -> bool {
    if object["kind"] != "HorizontalPodAutoscaler" {
        return true;
    }
    match object.pointer_mut("/spec/metrics").and_then(Value::as_array_mut) {
        Some(metrics) => {
            metrics.retain(|metric| metric.as_object().is_some_and(|fields| fields.len() > 1));
            !metrics.is_empty()
        }
        None => true,
    }
}

/// Volumes of which only the name is left.
fn drop_empty_volumes(object: &mut Value) {
    for pointer in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"]
    {
        let Some(spec) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { continue };
        if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
            volumes.retain(|volume| volume.as_object().is_some_and(|fields| fields.len() > 1));
            if volumes.is_empty() {
                spec.remove("volumes");
            }
        }
    }
}

/// Old ReplicaSets of a Deployment whose template has become equal to the present one get a mark: a controller would take them for the new
/// one.
pub fn tell_templates_apart(objects: &mut [Value]) {
    let mut sets: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, object) in objects.iter().enumerate().filter(|(_, object)| object["kind"] == "ReplicaSet") {
        if let Some(owner) = object.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str) {
            sets.entry(owner.to_owned()).or_default().push(at);
        }
    }
    let plain = |set: &Value| -> Value {
        let mut template = set["spec"]["template"].clone();
        if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.remove(TEMPLATE_HASH);
        }
        template
    };
    let revision = |set: &Value| -> i64 {
        let text = set["metadata"]["annotations"][DEPLOYMENT_REVISION].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    for places in sets.into_values().filter(|places| places.len() > 1) {
        let Some(newest) = places.iter().copied().max_by_key(|at| revision(&objects[*at])) else { continue };
        let present = plain(&objects[newest]);
        for at in places {
            if at != newest && plain(&objects[at]) == present {
                let hash = objects[at]["spec"]["template"]["metadata"]["labels"][TEMPLATE_HASH].clone();
                let hash = if hash.is_string() { hash } else { "old".into() };
                objects[at]["spec"]["template"]["metadata"]["annotations"][REVISION] = hash;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> &'static KindToRead {
        KINDS.iter().find(|kind| kind.kind == name).unwrap()
    }

    fn scrubbed(name: &str, object: Value) -> Option<Value> {
        let kind = kind(name);
        Scrubber::new("").object(kind, kind.versions[0], object)
    }

    /// A pod spec with something secret in every place that could hold it.
    fn leaky_pod_spec() -> Value {
        let container = json!({
            "name": "main",
            "image": "registry.example.com/SECRET-image:1",
            "imagePullPolicy": "SECRET",
            "command": ["SECRET"], "args": ["--token=SECRET"], "workingDir": "/SECRET",
            "env": [{"name": "SECRET", "value": "SECRET"}, {"name": "A", "valueFrom": {"secretKeyRef": {"name": "SECRET", "key": "SECRET"}}}],
            "envFrom": [{"configMapRef": {"name": "SECRET"}}],
            "volumeMounts": [{"name": "SECRET", "mountPath": "/SECRET", "subPath": "SECRET"}],
            "livenessProbe": {"httpGet": {"path": "/SECRET", "port": 80, "httpHeaders": [{"name": "SECRET", "value": "SECRET"}]}},
            "lifecycle": {"preStop": {"exec": {"command": ["SECRET"]}}},
            "securityContext": {"seLinuxOptions": {"user": "SECRET"}},
            "ports": [{"name": "SECRET", "containerPort": 80, "hostPort": 8080}],
            "resources": {"requests": {"cpu": "1"}},
        });
        json!({
            "containers": [container.clone()], "initContainers": [container],
            "ephemeralContainers": [{"name": "SECRET", "image": "SECRET"}],
            "imagePullSecrets": [{"name": "SECRET"}],
            "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["SECRET"]}],
            "dnsConfig": {"searches": ["SECRET"]},
            "securityContext": {"sysctls": [{"name": "SECRET", "value": "SECRET"}]},
            "serviceAccountName": "runner",
            "nodeName": "n",
            "volumes": [
                {"name": "a", "secret": {"secretName": "SECRET"}},
                {"name": "b", "configMap": {"name": "SECRET"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "d", "csi": {"driver": "efs.csi.aws.com", "volumeAttributes": {"key": "SECRET"}, "nodePublishSecretRef": {"name": "SECRET"}}},
                {"name": "e", "hostPath": {"path": "/SECRET"}},
                {"name": "f", "projected": {"sources": [{"secret": {"name": "SECRET"}}]}},
                {"name": "g", "nfs": {"server": "SECRET", "path": "/SECRET"}},
            ],
        })
    }

    fn leaky_metadata() -> Value {
        json!({
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "5", "generateName": "SECRET-",
            "labels": {"app": "web"},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"SECRET\": 1}",
                "vault.hashicorp.com/agent-inject-secret": "SECRET", "note": "SECRET",
                "csi.volume.kubernetes.io/nodeid": "SECRET", "compatibility.karpenter.sh/provider": "SECRET",
                "karpenter.sh/do-not-disrupt": "true", "kwok.x-k8s.io/usage-cpu": "200m",
                "pod-ready.stage.kwok.x-k8s.io/delay": "5s",
            },
            "managedFields": [{"manager": "SECRET"}],
            "finalizers": ["example.com/SECRET", "karpenter.sh/termination"],
        })
    }

    #[test]
    fn nothing_secret_comes_out() {
        let (metadata, spec) = (leaky_metadata(), leaky_pod_spec());
        let template = json!({"metadata": leaky_metadata(), "spec": spec});
        let conditions = json!([{"type": "Ready", "status": "True", "reason": "A", "message": "SECRET"}]);
        let container_statuses = json!([{
            "name": "main", "ready": true, "restartCount": 2, "image": "SECRET", "imageID": "SECRET", "containerID": "SECRET",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "SECRET"}},
            "lastState": {"terminated": {"exitCode": 1, "message": "SECRET"}},
        }]);
        let job = json!({"parallelism": 1, "template": template, "SECRET": 1});
        let claims = json!([{"metadata": leaky_metadata(), "spec": {"accessModes": ["ReadWriteOnce"], "dataSource": {"name": "SECRET"}}}]);
        let cases = [
            ("Namespace", json!({"spec": {}, "status": {"phase": "Active", "conditions": conditions}})),
            ("PriorityClass", json!({"value": 1, "description": "SECRET"})),
            (
                "StorageClass",
                json!({"provisioner": "p", "parameters": {"secret": "SECRET"}, "mountOptions": ["SECRET"]}),
            ),
            (
                "EC2NodeClass",
                json!({
                    "spec": {"userData": "SECRET", "role": "SECRET", "tags": {"SECRET": "SECRET"}, "kubelet": {"maxPods": 9},
                        "amiSelectorTerms": [{"alias": "al2023@latest"}, {"id": "SECRET"}],
                        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"kmsKeyID": "SECRET", "volumeSize": "80Gi"}}]},
                    "status": {"subnets": [{"id": "SECRET", "zone": "us-east-1a"}]},
                }),
            ),
            (
                "NodePool",
                json!({
                    "spec": {"template": {"metadata": leaky_metadata(), "spec": {"requirements": []}}},
                    "status": {"conditions": conditions},
                }),
            ),
            ("NodeClaim", json!({"spec": {}, "status": {"conditions": conditions, "imageID": "SECRET"}})),
            (
                "Node",
                json!({
                    "spec": {"podCIDR": "SECRET", "providerID": "aws:///a/i-1"},
                    "status": {
                        "addresses": [{"type": "Hostname", "address": "SECRET"}], "conditions": conditions,
                        "nodeInfo": {"machineID": "SECRET", "architecture": "amd64"}, "images": [{"names": ["SECRET"]}],
                    },
                }),
            ),
            ("CSINode", json!({"spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "SECRET"}]}})),
            (
                "PersistentVolume",
                json!({"spec": {
                "csi": {"driver": "d", "volumeHandle": "SECRET", "volumeAttributes": {"SECRET": "SECRET"}, "nodeStageSecretRef": {"name": "SECRET"}},
                "mountOptions": ["SECRET"], "nfs": {"server": "SECRET", "path": "SECRET"},
            }, "status": {"phase": "Bound", "message": "SECRET"}}),
            ),
            (
                "PersistentVolumeClaim",
                json!({"spec": {"dataSource": {"name": "SECRET"}}, "status": {"phase": "Bound", "conditions": conditions}}),
            ),
            (
                "Service",
                json!({"spec": {"selector": {"app": "web"}, "externalName": "SECRET", "ports": [{"name": "SECRET", "port": 80, "targetPort": "SECRET"}]}}),
            ),
            (
                "Deployment",
                json!({"spec": {"replicas": 1, "template": template, "SECRET": 1}, "status": {"conditions": conditions}}),
            ),
            (
                "ReplicaSet",
                json!({"spec": {"replicas": 1, "template": template}, "status": {"conditions": conditions}}),
            ),
            (
                "StatefulSet",
                json!({"spec": {"replicas": 1, "template": template, "volumeClaimTemplates": claims}}),
            ),
            ("DaemonSet", json!({"spec": {"template": template}})),
            (
                "CronJob",
                json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"metadata": leaky_metadata(), "spec": job}}}),
            ),
            ("Job", json!({"spec": job, "status": {"active": 1}})),
            ("PodTemplate", json!({"template": template})),
            (
                "HorizontalPodAutoscaler",
                json!({"spec": {"maxReplicas": 3, "metrics": [{"type": "External", "external": {"metric": {"name": "SECRET"}}}, {"type": "Resource", "resource": {"name": "cpu"}}]}, "status": {"conditions": conditions}}),
            ),
            (
                "PodDisruptionBudget",
                json!({"spec": {"maxUnavailable": 1}, "status": {"conditions": conditions, "disruptedPods": {"SECRET": "2026-01-01T00:00:00Z"}}}),
            ),
            (
                "Pod",
                json!({"spec": spec, "status": {
                    "phase": "Running", "message": "SECRET", "podIP": "SECRET", "hostIP": "SECRET", "conditions": conditions,
                    "containerStatuses": container_statuses,
                }}),
            ),
        ];
        for (name, mut object) in cases {
            object["metadata"] = metadata.clone();
            object["data"] = json!({"SECRET": "SECRET"});
            let out = scrubbed(name, object).unwrap();
            let text = out.to_string();
            assert!(!text.contains("SECRET"), "{name}: {text}");
            assert_eq!(out["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"], "true");
            assert_eq!(out["metadata"]["annotations"]["pod-ready.stage.kwok.x-k8s.io/delay"], "5s");
            assert_eq!(out["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
        }
    }

    #[test]
    fn what_placement_looks_at_stays() {
        let object =
            json!({"metadata": leaky_metadata(), "spec": leaky_pod_spec(), "status": {"phase": "Running"}});
        let pod = scrubbed("Pod", object).unwrap();
        assert_eq!(pod["apiVersion"], "v1");
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert_eq!(pod["spec"]["containers"][0]["ports"], json!([{"containerPort": 80, "hostPort": 8080}]));
        assert_eq!(
            pod["spec"]["volumes"],
            json!([
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "d", "csi": {"driver": "efs.csi.aws.com"}},
            ])
        );
        let image = pod["spec"]["containers"][0]["image"].as_str().unwrap();
        assert_eq!(image, pod["spec"]["initContainers"][0]["image"].as_str().unwrap());
    }

    #[test]
    fn what_is_over_is_left_out() {
        let metadata = json!({"name": "a", "ownerReferences": [{"uid": "u"}]});
        let done = json!({"metadata": metadata, "status": {"phase": "Succeeded"}});
        assert!(scrubbed("Pod", done).is_none());
        let old = json!({"metadata": metadata, "spec": {"replicas": 0}, "status": {"replicas": 0}});
        assert!(scrubbed("ReplicaSet", old).is_none());
        let complete = json!({"metadata": metadata, "spec": {}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert!(scrubbed("Job", complete).is_none());
        assert!(scrubbed("Service", json!({"metadata": metadata, "spec": {"externalName": "x"}})).is_none());
    }

    #[test]
    fn templates_that_became_equal_are_told_apart() {
        let set = |name: &str, revision: &str| {
            json!({
                "kind": "ReplicaSet",
                "metadata": {
                    "name": name, "ownerReferences": [{"uid": "d"}], "annotations": {DEPLOYMENT_REVISION: revision},
                },
                "spec": {"template": {"metadata": {"labels": {"app": "web", TEMPLATE_HASH: name}}, "spec": {"containers": []}}},
            })
        };
        let mut objects = vec![set("old", "9"), set("new", "10")];
        tell_templates_apart(&mut objects);
        assert_eq!(objects[0]["spec"]["template"]["metadata"]["annotations"], json!({REVISION: "old"}));
        assert_eq!(objects[1], set("new", "10"));
    }
}
