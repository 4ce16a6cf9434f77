//! Files in, and what is said about them.

use serde_json::{Value, json};

use crate::process::{Folder, joiner, joiner_fed, once};

fn container(cpu: &str) -> Value {
    json!({"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}})
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid(999), "controller": true, "blockOwnerDeletion": true}])
}

fn node(name: &str, labels: Value) -> Value {
    let room = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "uid": format!("1{}", &uid(name.len())[1..]), "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"providerID": format!("aws:///us-west-2a/i-{name}")},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]},
    })
}

fn pod(name: &str, node: &str, owners: Value, labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": labels, "ownerReferences": owners, "creationTimestamp": "2026-01-02T00:00:00Z"},
        "spec": {"nodeName": node, "serviceAccountName": "runner", "containers": [container("500m")]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T00:00:05Z"}]},
    })
}

/// A small cluster as `kubectl get` would print it: a Deployment, a StatefulSet, a DaemonSet and a pod of a kind nobody knows here.
pub(crate) fn cluster() -> Vec<Value> {
    let template = |labels: &Value| json!({"metadata": {"labels": labels}, "spec": {"serviceAccountName": "runner", "containers": [container("500m")]}});
    let (web, db, agent) = (json!({"app": "web"}), json!({"app": "db"}), json!({"app": "agent"}));
    let web_hashed = json!({"app": "web", "pod-template-hash": "6d4cf56db6"});
    let mut objects = vec![
        node(
            "one",
            json!({"kubernetes.io/hostname": "one", "node.kubernetes.io/instance-type": "m5.2xlarge",
            "topology.kubernetes.io/zone": "us-west-2a", "karpenter.sh/capacity-type": "on-demand"}),
        ),
        node("two-b", json!({"kubernetes.io/hostname": "two-b"})),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "annotations": {"deployment.kubernetes.io/revision": "4"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": web}, "template": template(&web)}}),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-6d4cf56db6", "namespace": "shop", "labels": web_hashed,
            "annotations": {"deployment.kubernetes.io/revision": "4"}, "ownerReferences": owner("apps/v1", "Deployment", "web")},
            "spec": {"replicas": 3, "selector": {"matchLabels": web_hashed}, "template": template(&web_hashed)}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": db}, "template": template(&db)},
            "status": {"replicas": 2, "updateRevision": "db-7c9f", "currentRevision": "db-7c9f"}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": agent}, "template": template(&agent)}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}, "data": {"a": "Yg=="}}),
        pod("custom-1", "one", owner("example.com/v1", "Gadget", "custom"), json!({"app": "custom"})),
    ];
    for (number, node) in ["one", "one", "two-b"].iter().enumerate() {
        objects.push(pod(
            &format!("web-6d4cf56db6-{number}"),
            node,
            owner("apps/v1", "ReplicaSet", "web-6d4cf56db6"),
            web_hashed.clone(),
        ));
    }
    for number in 0..2 {
        let labels = json!({"app": "db", "controller-revision-hash": "db-7c9f", "statefulset.kubernetes.io/pod-name": format!("db-{number}"), "apps.kubernetes.io/pod-index": number.to_string()});
        objects.push(pod(&format!("db-{number}"), "two-b", owner("apps/v1", "StatefulSet", "db"), labels));
    }
    for node in ["one", "two-b"] {
        let labels =
            json!({"app": "agent", "controller-revision-hash": "5f6b", "pod-template-generation": "1"});
        objects.push(pod(&format!("agent-{node}"), node, owner("apps/v1", "DaemonSet", "agent"), labels));
    }
    objects
}

#[test]
fn a_cluster_is_as_it_was() {
    let folder = Folder::new("as-is");
    let mut objects = cluster();
    objects.push(json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "custom", "namespace": "shop"}}));
    let file = folder.list("cluster.json", &objects);
    // Nodes of AWS: its catalogue knows what they cost.
    let (said, notes, code) = once(&folder, &["--from", &file]);
    assert_eq!(code, Some(0), "{said}{notes}");
    assert!(said.starts_with("2 nodes  8 pods running  0 pending\n"), "{said}");
    assert!(said.contains("and 1 node of unknown price"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("one ") && line.contains("0.384")), "{said}");
    assert!(said.lines().any(|line| line.starts_with("two-b ") && line.trim_end().ends_with('?')), "{said}");
    assert_eq!(
        notes,
        "note: Namespace `shop` is not in the files and was added\n\
         note: AWS machines are those of us-west-2 (where nodes are); on-demand prices are estimates (the list of us-east-1), \
         spot prices are estimates (0.7 of that); --prices FILE for better ones\n\
         note: left out, because the simulated cluster does not know the kind: 1 Gadget (example.com/v1)\n"
    );
}

#[test]
fn intent_starts_on_no_nodes() {
    let folder = Folder::new("intent");
    let file = folder.list("cluster.json", &cluster());
    let pool = folder.write("pool.yaml", POOL);
    let (said, notes, code) = once(&folder, &["--from", &file, "--from-mode", "intent", "-f", &pool]);
    assert_eq!(code, Some(0), "{said}{notes}");
    // Three of the Deployment, two of the StatefulSet, one of the DaemonSet for each node.
    assert!(said.starts_with("1 node  6 pods running  0 pending\n"), "{said}{notes}");
    assert!(!said.contains("two-b"), "{said}");
}

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
";

#[test]
fn plan_sees_the_cluster_or_only_its_wishes() {
    let folder = Folder::new("plan");
    let mut objects = cluster();
    let mut waiting = pod("waits", "", json!([]), json!({}));
    waiting["spec"]["containers"] = json!([container("10")]);
    waiting["status"] = json!({"phase": "Pending"});
    waiting["spec"].as_object_mut().unwrap().remove("nodeName");
    objects.push(waiting);
    let file = folder.list("cluster.json", &objects);

    let output = joiner(&["plan", "--from", &file, "-o", "json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["nodes"].as_array().unwrap().len(), 1, "{plan}");
    assert_eq!(plan["nodes"][0]["pods"], json!(["shop/waits"]), "{plan}");

    let output = joiner(&["plan", "--from", &file, "--from-mode", "intent", "-o", "json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pods: usize =
        plan["nodes"].as_array().unwrap().iter().map(|node| node["pods"].as_array().unwrap().len()).sum();
    assert_eq!(pods, 6, "three of the Deployment, two of the StatefulSet, the one that waits: {plan}");

    // A manifest that names no namespace means the default one, and takes the place of what the cluster has there.
    let deployment = |replicas: usize| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "api"}},
            "template": {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container("1")]}},
        }})
    };
    let mut there = deployment(5);
    there["metadata"]["namespace"] = "default".into();
    let cluster = folder.list("api.json", &[there]);
    let other = folder.write("other.json", &deployment(2).to_string());
    let output = joiner(&["plan", "--from", &cluster, "--from-mode", "intent", "-f", &other, "-o", "json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["totals"]["pods"], 2, "{plan}");

    let text = std::fs::read_to_string(&file).unwrap();
    let piped = joiner_fed(&["plan", "--from", "-", "--from-mode", "intent", "-o", "json"], &text);
    assert_eq!(piped.status.code(), Some(0));
}

#[test]
fn what_if_asks_a_cluster() {
    let folder = Folder::new("what-if");
    let file = folder.list("cluster.json", &cluster());
    let output = joiner(&["what-if", "--from", &file, "--remove", "node/one", "-o", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let on_it = cluster().iter().filter(|object| object["spec"]["nodeName"] == "one").count();
    let text = answer.to_string();
    assert!(
        on_it > 0 && text.contains("shop/web-6d4cf56db6-"),
        "pods of the node that goes are told of: {text}"
    );
    // Without a change there is nothing to ask, and without a base nothing to ask of.
    assert_eq!(joiner(&["what-if", "--from", &file]).status.code(), Some(2));
    assert_eq!(joiner(&["what-if", "--remove", "node/one"]).status.code(), Some(2));
}

/// A recording: a Deployment grows after two seconds, shrinks after four, and a node joins.
fn recording() -> String {
    let change = |seconds: u64,
                  resource: Value,
                  name: &str,
                  namespace: &str,
                  method: &str,
                  template: Value| {
        json!({
            "apiVersion": "action.kwok.x-k8s.io/v1alpha1", "kind": "ResourcePatch", "resource": resource,
            "target": {"name": name, "namespace": namespace}, "durationNanosecond": seconds * 1_000_000_000, "method": method, "template": template,
        })
    };
    let deployments = json!({"group": "apps", "version": "v1", "resource": "deployments"});
    let nodes = json!({"group": "", "version": "v1", "resource": "nodes"});
    let pods = json!({"group": "", "version": "v1", "resource": "pods"});
    let mut joins = node("three", json!({}));
    joins["metadata"].as_object_mut().unwrap().remove("uid");
    let documents = [
        change(4, pods, "custom-1", "shop", "delete", json!({})),
        change(2, deployments.clone(), "web", "shop", "patch", json!({"spec": {"replicas": 6}})),
        change(3, nodes, "three", "", "create", joins),
        change(5, deployments, "gone", "shop", "patch", json!({"spec": {"replicas": 1}})),
    ];
    let objects = cluster().into_iter().chain(documents);
    objects.map(|object| format!("---\n{object}\n")).collect()
}

#[test]
fn a_recording_is_played() {
    let folder = Folder::new("recording");
    let file = folder.write("recording.yaml", &recording());
    let (said, notes, code) = once(&folder, &["--from", &file, "--speed", "10x", "--no-autoscaler"]);
    assert_eq!(code, Some(0), "{said}{notes}");
    // Eight, three more of the Deployment, one daemon on the new node, and one pod less.
    assert!(said.starts_with("3 nodes  11 pods running  0 pending\n"), "{said}{notes}");

    let output = joiner(&["plan", "--from", &file]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        notes.contains("note: 4 recorded changes are not planned for: this is the state before them\n"),
        "{notes}"
    );
}

#[test]
fn bad_input_is_told_in_one_sentence() {
    let folder = Folder::new("bad");
    let missing = folder.path("missing.yaml");
    let empty = folder.write("empty.yaml", "# nothing\n");
    let no_kind = folder.write("no-kind.yaml", "apiVersion: v1\nmetadata:\n  name: a\n");
    let no_name = folder.write("no-name.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  namespace: a\n");
    let twice = folder.write(
        "twice.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
    );
    let change = folder.write(
        "change.yaml",
        "apiVersion: action.kwok.x-k8s.io/v1alpha1\nkind: ResourcePatch\nresource: {resource: pods}\ntarget: {name: a}\ndurationNanosecond: 5\nmethod: replace\n",
    );
    let secrets = folder.write("secrets.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n");
    let refused = folder
        .write("refused.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n");
    let cut = folder.write("cut.json", "{\"kind\":\"List\",\"items\":[{\"kind\":\"Pod\"");
    for (file, said) in [
        (&missing, "missing.yaml: no such file or folder; check the path"),
        (&empty, "empty.yaml: there is nothing in it; give a file with at least one Kubernetes object"),
        (
            &no_kind,
            "no-kind.yaml:1: `kind`: missing, so this is no Kubernetes object; every object names its `apiVersion` and `kind`",
        ),
        (
            &no_name,
            "no-name.yaml:3: Pod: `metadata.name`: missing, and nobody knows what to call it; every object has a name",
        ),
        (
            &twice,
            "twice.yaml:7: Node `a`: `metadata.name`: an object of this kind and name is there twice; keep one of them",
        ),
        (
            &change,
            "change.yaml:6: ResourcePatch: `method`: neither `create`, `patch` nor `delete`; check the recording",
        ),
        (&secrets, "secrets.yaml: there is nothing in it that a cluster could be made of; give a snapshot"),
        (
            &refused,
            "Pod `a`: the cluster refuses it: Pod \"a\" is invalid: spec.containers: Required value; correct it",
        ),
        (&cut, "cut.json:1: this is not valid JSON: it ends too early; check whether the file is whole"),
    ] {
        let (out, told, code) = once(&folder, &["--from", file]);
        assert_eq!((out.as_str(), code), ("", Some(2)), "{told}");
        let first = told.lines().next().unwrap_or_default();
        assert!(first.contains(said), "{told}\nis not\n{said}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn a_folder_in_use_is_not_mixed_with_another_cluster() {
    let folder = Folder::new("data");
    let file = folder.list("cluster.json", &cluster());
    let data = folder.path("data");
    let (said, notes, code) = once(&folder, &["--from", &file, "--data-dir", &data]);
    assert_eq!(code, Some(0), "{said}{notes}");
    let (_, told, code) = once(&folder, &["--from", &file, "--data-dir", &data]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("`--from`: the folder of `--data-dir` has a cluster already; leave `--from` out"),
        "{told}"
    );
    let (said, notes, _) = once(&folder, &["--data-dir", &data]);
    assert!(said.starts_with("2 nodes  8 pods running"), "{said}{notes}");
}

#[test]
fn a_file_that_is_not_there_is_told_with_its_flag() {
    let folder = Folder::new("not-there");
    let (_, complaint, code) = once(&folder, &["--from", "/there/is/no/such.yaml"]);
    assert_eq!(code, Some(2), "{complaint}");
    assert_eq!(
        complaint,
        "error: /there/is/no/such.yaml: no such file or folder; check the path after --from\n"
    );
}

#[test]
fn without_a_kubeconfig_the_reason_is_told_once() {
    let folder = Folder::new("no-kubeconfig");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_joiner"));
    command.args(["snapshot", "-o", "-"]).env("HOME", &folder.0).env_remove("KUBECONFIG");
    let output = command.env_remove("KUBERNETES_SERVICE_HOST").output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaint.matches("os error 2").count(), 1, "{complaint}");
    assert!(complaint.contains("or start a simulated cluster with `joiner up`"), "{complaint}");
}
