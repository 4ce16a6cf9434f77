//! A cluster, its snapshot, and the cluster that is made of that.

use serde_json::Value;

use crate::files::cluster;
use crate::process::{Folder, Up, joiner, pods, snapshot};

fn running(objects: &[Value]) -> usize {
    objects.iter().filter(|of| of["kind"] == "Pod" && of["status"]["phase"] == "Running").count()
}

/// Objects without what the life of a cluster changes all the time.
fn still(objects: &[Value]) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for object in &mut objects {
        // Those that every cluster has are as old as the cluster, and its own.
        if object["kind"] == "Namespace" || object["kind"] == "PriorityClass" {
            object["metadata"]["creationTimestamp"] = Value::Null;
            object["metadata"]["uid"] = Value::Null;
        }
        // Who has just started compares claims with their nodes at once, later every ten minutes.
        if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
            conditions.retain(|of| of["type"] != "ConsistentStateFound");
        }
        // Which controller wrote last, and how often, is not the cluster's state.
        for pointer in ["/status/observedGeneration", "/metadata/generation"] {
            if let Some(number) = object.pointer_mut(pointer) {
                *number = Value::Null;
            }
        }
    }
    objects
}

#[test]
fn what_joiner_built_is_the_same_after_a_restart() {
    let folder = Folder::new("restart");
    let example = format!("{}/../../examples/inflate.yaml", env!("CARGO_MANIFEST_DIR"));
    let (first_file, second_file) = (folder.path("first.yaml"), folder.path("second.json"));
    let first = {
        let up = Up::start(&folder, "first", &["-f", &example]);
        up.snapshot_when(&first_file, |objects| running(objects) == 10);
        // Claims say some seconds later that their machines are initialised.
        std::thread::sleep(std::time::Duration::from_secs(3));
        up.snapshot(&first_file)
    };
    assert_eq!(pods(&first).len(), 10);
    assert!(first.iter().any(|of| of["kind"] == "NodeClaim"), "a snapshot has claims");
    let up = Up::start(&folder, "second", &["--from", &first_file]);
    up.snapshot_when(&second_file, |objects| running(objects) == 10);
    std::thread::sleep(std::time::Duration::from_secs(5));
    let second = up.snapshot(&second_file);
    assert_eq!(pods(&second), pods(&first), "the same pods on the same nodes");
    let (first, second) = (still(&first), still(&second));
    for (before, after) in first.iter().zip(&second) {
        assert_eq!(after, before);
    }
    assert_eq!(second.len(), first.len());
}

#[test]
fn nobody_replaces_pods_that_were_there() {
    let folder = Folder::new("adopt");
    let file = folder.list("cluster.json", &cluster());
    let up = Up::start(&folder, "adopt", &["--from", &file]);
    let begun = up.snapshot(&folder.path("begun.yaml"));
    // Controllers act within milliseconds.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let later = up.snapshot(&folder.path("later.yaml"));
    assert_eq!(pods(&later), pods(&begun));
    assert_eq!(pods(&later).len(), 8);
    let orphan = later.iter().find(|of| of["metadata"]["name"] == "custom-1").unwrap();
    assert!(
        orphan["metadata"].get("ownerReferences").is_none(),
        "an owner that is not there is nobody's owner"
    );
    let set = later.iter().find(|of| of["metadata"]["name"] == "web-6d4cf56db6").unwrap();
    let deployment = later.iter().find(|of| of["kind"] == "Deployment").unwrap();
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], deployment["metadata"]["uid"]);
    assert_eq!(later.iter().filter(|of| of["kind"] == "ReplicaSet").count(), 1);
}

#[test]
fn renamed_snapshots_make_the_same_cluster_under_other_names() {
    let folder = Folder::new("rename");
    let file = folder.list("cluster.json", &cluster());
    let up = Up::start(&folder, "plain", &["--from", &file]);
    let renamed_file = folder.path("renamed.yaml");
    let renamed = snapshot(std::path::Path::new(&up.kubeconfig), &renamed_file, &["--rename", "key"]);
    let text = std::fs::read_to_string(&renamed_file).unwrap();
    for gone in ["shop", "web", "agent", "two-b", "custom-1", "runner", "example.com"] {
        assert!(!text.contains(gone), "{gone} is still there:\n{text}");
    }
    drop(up);
    let again = Up::start(&folder, "renamed", &["--from", &renamed_file]);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(pods(&again.snapshot(&folder.path("again.yaml"))), pods(&renamed));
}

#[test]
fn a_cluster_that_is_not_there_leaves_no_file() {
    let folder = Folder::new("absent");
    let kubeconfig = {
        let up = Up::start(&folder, "gone", &[]);
        up.kubeconfig.clone()
    };
    let file = folder.path("never.yaml");
    let output = joiner(&["snapshot", "--kubeconfig", &kubeconfig, "-o", &file]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: cannot list namespaces: the cluster cannot be reached: "), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(!std::path::Path::new(&file).exists());

    let output = joiner(&["snapshot", "--kubeconfig", &folder.path("none"), "-o", &file]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.starts_with("error: cannot read the kubeconfig `"), "{told}");
    let output = joiner(&["snapshot", "--kubeconfig", &kubeconfig, "--context", "other", "-o", &file]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot use the kubeconfig") && told.contains("other"), "{told}");
}
