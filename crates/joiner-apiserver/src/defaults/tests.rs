//! Defaults against what Kubernetes 1.35.4 answered to the same objects.

use serde_json::json;

use super::*;
use crate::fields::normalize;

/// The object as it is after reading and filling in; doing it again must change nothing.
fn defaulted(group: &str, kind: &str, mut object: Value) -> Value {
    let ty = Schemas::builtin().kind(group, "v1", kind).unwrap();
    normalize(ty, &mut object);
    apply(group, "v1", kind, &mut object);
    let mut again = object.clone();
    normalize(ty, &mut again);
    apply(group, "v1", kind, &mut again);
    assert_eq!(again, object, "filling in twice");
    object
}

fn container() -> Value {
    json!({"name": "c", "image": "x", "resources": {}, "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File", "imagePullPolicy": "Always"})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

#[test]
fn a_deployment() {
    let object = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template()}});
    assert_eq!(
        defaulted("apps", "Deployment", object),
        json!({"metadata": {"name": "d"}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {
                "containers": [container()], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst", "securityContext": {}, "schedulerName": "default-scheduler"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}, "status": {}})
    );
}

#[test]
fn a_pod() {
    let object = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x:1", "resources": {
        "limits": {"cpu": "1500m", "memory": "1024Mi"}, "requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 80}}}], "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}]}});
    let pod = defaulted("", "Pod", object);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        container["resources"],
        json!({"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert_eq!(
        container["livenessProbe"],
        json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3})
    );
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}}])
    );
    assert_eq!(pod["spec"]["enableServiceLinks"], true);
}

#[test]
fn images_and_their_policies() {
    let digest = format!("x@sha256:{}", "0".repeat(64));
    let images = ["x:latest", "x:1", digest.as_str(), "localhost:5000/x", "x"];
    let containers: Vec<Value> = images.iter().map(|image| json!({"name": "c", "image": image})).collect();
    let pod = defaulted("", "Pod", json!({"spec": {"containers": containers}}));
    let policies: Vec<&Value> = pod["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| &container["imagePullPolicy"])
        .collect();
    assert_eq!(policies, ["Always", "IfNotPresent", "IfNotPresent", "Always", "Always"]);
}

#[test]
fn other_workloads() {
    let spec = || json!({"spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template()}});
    let daemons = defaulted("apps", "DaemonSet", spec());
    assert_eq!(
        daemons["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
    );
    assert_eq!(daemons["metadata"]["annotations"], json!({"deprecated.daemonset.template.generation": "1"}));
    assert_eq!(
        daemons["status"],
        json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0})
    );
    let stateful = defaulted("apps", "StatefulSet", spec());
    assert_eq!(
        stateful["spec"]["persistentVolumeClaimRetentionPolicy"],
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
    );
    assert_eq!(
        stateful["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    );
    assert_eq!(stateful["status"], json!({"replicas": 0, "availableReplicas": 0}));
    assert_eq!(defaulted("apps", "ReplicaSet", spec())["status"], json!({"replicas": 0}));
}

#[test]
fn a_job_selects_its_pods() {
    let job = defaulted(
        "batch",
        "Job",
        json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {
        "containers": [], "restartPolicy": "Never"}}}}),
    );
    let spec = &job["spec"];
    assert_eq!(
        (&spec["completions"], &spec["parallelism"], &spec["backoffLimit"], &spec["suspend"]),
        (&json!(1), &json!(1), &json!(6), &json!(false))
    );
    assert_eq!(spec["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    assert_eq!(spec["template"]["metadata"]["labels"]["job-name"], "j");
}

#[test]
fn kinds_without_pods() {
    let claim =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    assert_eq!(
        defaulted("", "PersistentVolumeClaim", claim),
        json!({"metadata": {}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}})
    );
    let node = defaulted("", "Node", json!({"status": {"capacity": {"cpu": "4"}}}));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
    let secret = defaulted("", "Secret", json!({"stringData": {"k": "v"}}));
    assert_eq!(secret, json!({"metadata": {}, "type": "Opaque", "data": {"k": "dg=="}}));
    let service = defaulted("", "Service", json!({"spec": {"ports": [{"port": 80}]}}));
    assert_eq!(service["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    let class = defaulted("scheduling.k8s.io", "PriorityClass", json!({"value": 7}));
    assert_eq!(class["preemptionPolicy"], "PreemptLowerPriority");
    let budget = defaulted("policy", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1}}));
    assert_eq!(
        budget["status"],
        json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0})
    );
    let definition = json!({"spec": {"group": "x.io", "scope": "Cluster", "names": {"plural": "ws", "kind": "W"}, "versions": []}});
    let definition = defaulted("apiextensions.k8s.io", "CustomResourceDefinition", definition);
    assert_eq!(
        definition["spec"]["names"],
        json!({"plural": "ws", "singular": "w", "kind": "W", "listKind": "WList"})
    );
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
}
