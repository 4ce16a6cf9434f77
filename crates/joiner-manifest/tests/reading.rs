//! Reading objects of every kind: what is right is taken, what is wrong is found where it stands.
//!
//! Besides cases written by hand, every manifest of the planner's scenarios and the objects recorded from a cluster are spoilt in every
//! place, one place at a time: an unknown field in each map, a wrong type in each field.

use std::path::{Path, PathBuf};

use joiner_manifest::{Fault, Object, Read, name_of, place_in, read, shape};
use serde_json::{Value, json};

// ---- material ----

fn below(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            below(&path, out);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            out.push(path);
        }
    }
    out.sort();
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("readable");
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Objects that are right, with where they come from.
fn good_objects() -> Vec<(String, Value)> {
    let mut files = Vec::new();
    below(&crates().join("joiner/tests/scenarios"), &mut files);
    files.retain(|file| !file.components().any(|part| part.as_os_str() == "bad-input"));
    below(&crates().join("joiner-api/tests/data/objects"), &mut files);
    let mut out = Vec::new();
    for file in files {
        let documents = documents(&file);
        if documents.iter().any(|document| document["expect"]["inputError"].is_string()) {
            continue;
        }
        for document in documents {
            // The first document of a scenario says what is to come out.
            if !document.is_null() && document["kind"] != "Scenario" {
                out.push((file.file_name().expect("named").to_string_lossy().into_owned(), document));
            }
        }
    }
    assert!(out.len() > 1000, "only {} objects", out.len());
    out
}

/// One object of each shape: the others would only be spoilt in the same places again.
fn shapes() -> Vec<(String, Value)> {
    let mut seen = std::collections::BTreeSet::new();
    let mut out = good_objects();
    out.retain(|(_, value)| seen.insert(shape(value)));
    out
}

/// Whether its fields are known: objects that are skipped or belong to another provider may have any, and old ones change on the way.
fn is_typed(value: &Value) -> bool {
    let read = read(value, false).expect("good objects can be read");
    let current = value["apiVersion"].as_str().is_some_and(|version| {
        !version.starts_with("karpenter.sh/v1a") && !version.starts_with("karpenter.sh/v1b")
    });
    current
        && read.objects.len() == 1
        && read.objects.iter().all(|(_, object)| match object {
            Object::Skipped(_) => false,
            Object::NodeClass(group, ..) => group == "karpenter.kwok.sh",
            _ => true,
        })
}

// ---- every kind ----

#[test]
fn every_kind_is_read_as_itself() {
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    let set = json!({"selector": {}, "template": pod});
    for (api_version, kind, body, variant) in [
        ("v1", "Pod", pod.clone(), "Pod("),
        ("v1", "Node", json!({}), "Node("),
        ("v1", "Namespace", json!({}), "Namespace("),
        ("v1", "PersistentVolume", json!({"spec": {}}), "PersistentVolume("),
        ("v1", "PersistentVolumeClaim", json!({"spec": {}}), "PersistentVolumeClaim("),
        ("apps/v1", "Deployment", json!({"spec": set}), "Deployment("),
        ("apps/v1", "ReplicaSet", json!({"spec": {"selector": {}}}), "ReplicaSet("),
        ("apps/v1", "StatefulSet", json!({"spec": set}), "StatefulSet("),
        ("apps/v1", "DaemonSet", json!({"spec": {"selector": {}, "template": pod}}), "DaemonSet("),
        ("batch/v1", "Job", json!({"spec": {"template": pod}}), "Job("),
        (
            "batch/v1",
            "CronJob",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod}}}}),
            "CronJob(",
        ),
        ("storage.k8s.io/v1", "StorageClass", json!({"provisioner": "p"}), "StorageClass("),
        (
            "storage.k8s.io/v1",
            "CSINode",
            json!({"spec": {"drivers": [{"name": "d", "nodeID": "n", "allocatable": {"count": 3}}]}}),
            "CsiNode(",
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 5}), "PriorityClass("),
        (
            "karpenter.sh/v1",
            "NodePool",
            json!({"spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"}}}}}),
            "NodePool(",
        ),
        (
            "karpenter.sh/v1",
            "NodeClaim",
            json!({"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"}}}),
            "NodeClaim(",
        ),
        ("karpenter.sh/v1alpha1", "NodeOverlay", json!({"spec": {"requirements": []}}), "NodeOverlay("),
        (
            "karpenter.kwok.sh/v1alpha1",
            "KWOKNodeClass",
            json!({}),
            "NodeClass(\"karpenter.kwok.sh\", \"KWOKNodeClass\", \"x\", ",
        ),
        (
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            json!({"spec": {"any": "thing"}}),
            "NodeClass(\"karpenter.k8s.aws\", \"EC2NodeClass\", \"x\", ",
        ),
        ("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", json!({"spec": {}}), "CapacityBuffer("),
        ("v1", "ConfigMap", json!({"data": {}}), "Skipped(\"ConfigMap\")"),
        ("example.com/v7", "Anything", json!({"spec": [1]}), "Skipped(\"Anything\")"),
    ] {
        let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        value.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
        let read = read(&value, true).unwrap_or_else(|fault| panic!("{kind}: {fault:?}"));
        assert_eq!(read.unknown, None, "{kind}");
        let [(name, object)] = &read.objects[..] else { panic!("{kind}: {:?}", read.objects) };
        assert_eq!(name, &format!("{kind} x"));
        assert!(format!("{object:?}").starts_with(variant), "{kind}: {object:?}");
    }
}

#[test]
fn older_pools_are_brought_to_v1() {
    for file in ["provisioner-addon.yaml", "nodepool-kwok.yaml"] {
        for value in documents(&crates().join("joiner-api/tests/data/convert").join(file)) {
            let read = read(&value, true).unwrap_or_else(|fault| panic!("{file}: {fault:?}"));
            assert_eq!(read.unknown, None, "{file}");
        }
    }
    let old = json!({
        "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "old"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"name": "c"}}}},
    });
    let Read { objects, .. } = read(&old, true).expect("it can be converted");
    assert!(
        matches!(&objects[..], [(_, Object::NodePool(pool))] if pool.spec.template.spec.node_class_ref.name == "c")
    );
}

#[test]
fn lists_give_their_items() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "spec": {"containers": []}});
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"podCIDRR": "x"}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod, [pod, {"apiVersion": "v1", "kind": "List", "items": [node]}]]});
    let got = read(&list, true).expect("well-formed");
    let names: Vec<&str> = got.objects.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Pod shop/a", "Pod shop/a", "Node n"]);
    let unknown = got.unknown.expect("there is an unknown field");
    assert_eq!((unknown.within.as_str(), unknown.path.as_str()), ("items[1][1].items[0]", "spec.podCIDRR"));
    assert_eq!(place_in(&list, "Node n").as_deref(), Some("items[1][1].items[0]"));
    assert_eq!(place_in(&list, "Pod shop/a").as_deref(), Some("items[0]"));
    assert_eq!(place_in(&list, "Pod shop/b"), None);
    assert_eq!(place_in(&node, "Node n").as_deref(), Some(""));

    let broken = json!({"apiVersion": "v1", "kind": "PodList", "items": [pod, {"apiVersion": "v1", "kind": "Pod", "spec": 5}]});
    let fault = read(&broken, true).expect_err("a spec is no number");
    assert_eq!((fault.within.as_str(), fault.path.as_str()), ("items[1]", "spec"));
}

#[test]
fn numbers_may_stand_for_quantities() {
    let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "overhead": {"cpu": 1},
        "containers": [{"name": "a", "resources": {"requests": {"cpu": 0.5, "memory": 1_000_000, "x/y": "2"}}}],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 5}}],
    }});
    let got = read(&value, true).expect("numbers are fine");
    let [(_, Object::Pod(pod))] = &got.objects[..] else { panic!("{got:?}") };
    let spec = pod.spec.as_ref().expect("there is a spec");
    let requests =
        spec.containers[0].resources.as_ref().and_then(|r| r.requests.as_ref()).expect("there are requests");
    assert_eq!((requests["cpu"].0.as_str(), requests["memory"].0.as_str()), ("0.5", "1000000"));
    assert_eq!(spec.overhead.as_ref().expect("there is overhead")["cpu"].0, "1");
}

// ---- what is no object, or of no kind ----

#[test]
fn what_is_no_object_is_refused() {
    for (value, object, path, message) in [
        (json!(null), "", "", "this is no Kubernetes object"),
        (json!("text"), "", "", "this is no Kubernetes object"),
        (json!({}), "", "", "this is no Kubernetes object: it has no `kind`"),
        (
            json!({"kind": "Pod", "metadata": {"name": "a"}}),
            "Pod a",
            "",
            "this is no Kubernetes object: it has no `apiVersion`",
        ),
        (json!({"kind": "", "apiVersion": "v1"}), "", "", "this is no Kubernetes object: it has no `kind`"),
        (json!({"kind": ["Pod"], "apiVersion": "v1"}), "", "kind", "expected text"),
        (
            json!({"kind": "Pot", "apiVersion": "v1", "metadata": {"name": "a"}}),
            "Pot a",
            "kind",
            "`v1` has no such kind",
        ),
        (json!({"kind": "Pod", "apiVersion": "v2"}), "Pod", "apiVersion", "there is no such version of Pod"),
        (json!({"kind": "Job", "apiVersion": "v1"}), "Job", "apiVersion", "Job is not one of its kinds"),
        (
            json!({"kind": "NodePol", "apiVersion": "karpenter.sh/v1"}),
            "NodePol",
            "kind",
            "`karpenter.sh/v1` has no such kind",
        ),
    ] {
        let fault = read(&value, true).expect_err("refused");
        assert_eq!(
            (fault.object.as_str(), fault.path.as_str(), fault.message.as_str()),
            (object, path, message),
            "{value}"
        );
        assert!(!fault.remedy.is_empty());
    }
}

#[test]
fn names_are_one_short_line() {
    let value = json!({"kind": "Pod\n", "metadata": {"name": "x".repeat(9000)}});
    let name = name_of(&value);
    assert!(name.len() < 300 && !name.contains('\n'), "{name}");
}

// ---- spoiling ----

/// Maps that take any key.
const FREE: [&str; 15] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "requests",
    "limits",
    "capacity",
    "allocatable",
    "overhead",
    "parameters",
    "fieldsV1",
    "volumeAttributes",
    "data",
    "options",
    "resources",
];

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn paths(value: &Value, here: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    let mut visit = |step: Step, inner: &Value| {
        here.push(step);
        out.push(here.clone());
        paths(inner, here, out);
        here.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| visit(Step::Key(key.clone()), inner)),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, inner)| visit(Step::Index(at), inner)),
        _ => {}
    }
}

fn text(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Index(at) => out.push_str(&format!("[{at}]")),
            Step::Key(key) if key.contains(['.', '/', '[', ']']) => out.push_str(&format!("[{key}]")),
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => out.push_str(&format!(".{key}")),
        }
    }
    out
}

fn at<'v>(value: &'v mut Value, path: &[Step]) -> &'v mut Value {
    path.iter().fold(value, |here, step| match step {
        Step::Key(key) => &mut here[key.as_str()],
        Step::Index(at) => &mut here[*at],
    })
}

fn last_key(path: &[Step]) -> &str {
    path.iter()
        .rev()
        .find_map(|step| if let Step::Key(key) = step { Some(key.as_str()) } else { None })
        .unwrap_or("")
}

#[test]
fn good_objects_have_no_unknown_field() {
    for (file, value) in good_objects() {
        let read = read(&value, true).unwrap_or_else(|fault| panic!("{file}: {fault:?}\n{value}"));
        assert_eq!(read.unknown, None, "{file}: {value}");
    }
}

#[test]
fn an_unknown_field_is_found_wherever_it_is() {
    let mut spoilt = 0;
    for (file, value) in shapes().into_iter().filter(|(_, value)| value["kind"] != "List" && is_typed(value))
    {
        let mut places = vec![Vec::new()];
        paths(&value, &mut Vec::new(), &mut places);
        for place in places {
            let mut bad = value.clone();
            let Value::Object(map) = at(&mut bad, &place) else { continue };
            map.insert("zzz".to_owned(), json!(1));
            let expected = if place.is_empty() { "zzz".to_owned() } else { format!("{}.zzz", text(&place)) };
            let found = match read(&bad, true) {
                Ok(read) => read.unknown,
                Err(fault) => Some(fault),
            };
            match found {
                Some(Fault { path, .. }) => assert_eq!(path, expected, "{file}: {bad}"),
                None => {
                    assert!(FREE.contains(&last_key(&place)), "{file}: {expected} was not found in {bad}")
                }
            }
            assert!(read(&bad, false).is_err() || read(&bad, false).is_ok_and(|read| read.unknown.is_none()));
            spoilt += 1;
        }
    }
    assert!(spoilt > 1000, "only {spoilt} places were spoilt");
}

#[test]
fn an_unknown_field_is_found_even_if_it_is_empty() {
    let pod =
        |body: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": body});
    let pool = |template: Value, more: Value| {
        let mut spec = json!({"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"}}}});
        spec["template"]["spec"].as_object_mut().unwrap().extend(template.as_object().unwrap().clone());
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec})
    };
    let mut at_the_top = pod(json!({"containers": []}));
    at_the_top["specc"] = json!({});
    for (value, path, near) in [
        (
            pod(json!({"containers": [{"name": "c", "resource": {}}]})),
            "spec.containers[0].resource",
            "resources",
        ),
        (
            pod(json!({"containers": [], "affinity": {"nodeAffinty": {}}})),
            "spec.affinity.nodeAffinty",
            "nodeAffinity",
        ),
        (
            pod(json!({"containers": [], "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [], "nodeSelectorTerm": []}}}})),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerm",
            "",
        ),
        (pod(json!({"containers": [], "node_selector": null})), "spec.node_selector", "nodeSelector"),
        (at_the_top, "specc", ""),
        (pool(json!({"kubelet": {}}), json!({})), "spec.template.spec.kubelet", ""),
        (pool(json!({}), json!({"disruption": {"budget": []}})), "spec.disruption.budget", "budgets"),
        (pool(json!({}), json!({"limit": {}})), "spec.limit", "limits"),
    ] {
        let fault = read(&value, true).expect("readable").unknown.expect(path);
        assert_eq!(fault.path, path);
        let remedy = match near {
            "" => "correct its name or place".to_owned(),
            near => format!("correct its name (is `{near}` meant?) or place"),
        };
        assert_eq!(fault.remedy, remedy, "{path}");
    }
}

#[test]
fn empty_fields_that_are_known_are_fine() {
    let pod = json!({
        "metadata": {"creationTimestamp": null, "labels": {}, "annotations": null, "ownerReferences": []},
        "spec": {
            "containers": [{"name": "c", "resources": {}, "env": [], "ports": null, "securityContext": {}, "lifecycle": {}}],
            "securityContext": {}, "affinity": {}, "nodeSelector": null, "tolerations": [],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": null}],
            "terminationGracePeriodSeconds": null, "hostNetwork": null,
        },
        "status": {},
    });
    let with = |api_version: &str, kind: &str, mut value: Value| {
        value["apiVersion"] = api_version.into();
        value["kind"] = kind.into();
        value["metadata"]["name"] = "a".into();
        value
    };
    let mut template = pod.clone();
    template.as_object_mut().unwrap().remove("status");
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"});
    for value in [
        with("v1", "Pod", pod),
        with(
            "apps/v1",
            "Deployment",
            json!({"metadata": {"creationTimestamp": null}, "status": {}, "spec": {
                "selector": {}, "template": template, "strategy": {}, "replicas": null, "paused": null}}),
        ),
        with(
            "v1",
            "Node",
            json!({"metadata": {}, "spec": {}, "status": {"daemonEndpoints": {"kubeletEndpoint": null}, "nodeInfo": null}}),
        ),
        with("v1", "Namespace", json!({"metadata": {}, "spec": {}, "status": {}})),
        with(
            "v1",
            "Service",
            json!({"metadata": {}, "spec": {"selector": null}, "status": {"loadBalancer": {}}}),
        ),
        with(
            "karpenter.sh/v1",
            "NodePool",
            json!({"metadata": {"creationTimestamp": null}, "status": {}, "spec": {
                "weight": null, "limits": {}, "disruption": {"budgets": null}, "replicas": null,
                "template": {"metadata": {"labels": {}, "annotations": null}, "spec": {
                    "requirements": [], "taints": [], "startupTaints": null, "expireAfter": null,
                    "terminationGracePeriod": null, "nodeClassRef": class}}}}),
        ),
        with(
            "karpenter.sh/v1",
            "NodeClaim",
            json!({"metadata": {}, "status": {"conditions": [], "capacity": {}}, "spec": {
                "requirements": [], "resources": {}, "taints": null, "nodeClassRef": class}}),
        ),
        with(
            "karpenter.kwok.sh/v1alpha1",
            "KWOKNodeClass",
            json!({"metadata": {}, "spec": {}, "status": {}}),
        ),
    ] {
        let read = read(&value, true).unwrap_or_else(|fault| panic!("{fault:?}"));
        assert_eq!(read.unknown, None);
    }
}

#[test]
fn a_wrong_type_is_found_where_it_is() {
    let wrong = [json!([[[true]]]), json!(true), json!({"zzz": {"zzz": [true]}}), json!(7.5)];
    let (mut spoilt, mut refused) = (0, 0);
    for (file, value) in shapes().into_iter().filter(|(_, value)| value["kind"] != "List" && is_typed(value))
    {
        let mut places = Vec::new();
        paths(&value, &mut Vec::new(), &mut places);
        for (number, place) in places.into_iter().enumerate() {
            if matches!(&place[..], [Step::Key(key)] if key == "kind" || key == "apiVersion") {
                continue;
            }
            // Two of the four each: reading so often takes its time.
            for wrong in wrong.iter().skip(number % 2).step_by(2) {
                let mut bad = value.clone();
                let expected = text(&place);
                *at(&mut bad, &place) = wrong.clone();
                spoilt += 1;
                let Err(fault) = read(&bad, false) else { continue };
                refused += 1;
                assert!(
                    fault.path.starts_with(&expected),
                    "{file}: {expected} was made {wrong}, but `{}` is blamed: {}\n{bad}",
                    fault.path,
                    fault.message,
                );
                assert!(
                    !fault.message.contains("i32") && !fault.message.contains("invalid type"),
                    "{}",
                    fault.message
                );
            }
        }
    }
    assert!(refused > 1500 && refused * 2 > spoilt, "only {refused} of {spoilt} were refused");
}

#[test]
fn a_missing_field_is_told_where_it_belongs() {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {
            "limits": {"cpu": 5},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "requirements": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"},
            }},
        },
    });
    for pointer in [
        "/spec/template/spec/nodeClassRef",
        "/spec/template/spec/nodeClassRef/name",
        "/spec/template/spec/requirements/1/key",
        "/spec/template/spec/requirements/0/operator",
    ] {
        let mut bad = pool.clone();
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        let map = bad.pointer_mut(parent).and_then(Value::as_object_mut).expect("it is there");
        map.remove(field);
        let fault = read(&bad, true).expect_err("the field is required");
        let expected = pointer[1..]
            .replace("requirements/1", "requirements[1]")
            .replace("requirements/0", "requirements[0]")
            .replace('/', ".");
        assert_eq!(
            (fault.path.as_str(), fault.message.as_str()),
            (expected.as_str(), "this field is missing")
        );
        // A field of nearly that name is likely to be meant.
        let mut bad = pool.clone();
        let map = bad.pointer_mut(parent).and_then(Value::as_object_mut).expect("it is there");
        let value = map.remove(field).expect("it is there");
        map.insert(format!("{field}s"), value);
        let fault = read(&bad, true).expect_err("the field is required");
        assert_eq!(fault.remedy, format!("add it; is `{field}s` meant to be it?"));
    }
}

// ---- shapes ----

#[test]
fn shapes_tell_fields_apart_and_not_values() {
    let pod = |name: &str, body: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": body});
    let one = pod("a", json!({"containers": [{"name": "x", "image": "y"}], "priority": 5}));
    assert_eq!(
        shape(&one),
        shape(&pod("b", json!({"containers": [{"name": "1", "image": "2"}], "priority": 7})))
    );
    for other in [
        pod("a", json!({"containers": [{"name": "x", "imagee": "y"}], "priority": 5})),
        pod(
            "a",
            json!({"containers": [{"name": "x", "image": "y"}, {"name": "x", "image": "y"}], "priority": 5}),
        ),
        pod("a", json!({"containers": [{"name": "x", "image": "y"}]})),
        pod("a", json!({"containers": [{"name": "x", "image": "y"}], "priority": null})),
        pod("a", json!({"containers": [{"name": "x", "image": "y", "priority": 5}]})),
        pod("a", json!({"containers": {"name": "x", "image": "y"}, "priority": 5})),
    ] {
        assert_ne!(shape(&one), shape(&other), "{other}");
    }
    // The same fields are right in one kind and wrong in another.
    let mut of_other_kind = one.clone();
    of_other_kind["kind"] = json!("Node");
    assert_ne!(shape(&one), shape(&of_other_kind));
    let mut of_other_group = one.clone();
    of_other_group["apiVersion"] = json!("example.com/v1");
    assert_ne!(shape(&one), shape(&of_other_group));
}

/// Callers look for unknown fields once per shape: objects alike in shape must be alike in that.
#[test]
fn objects_of_one_shape_have_the_same_unknown_fields() {
    let mut known: std::collections::BTreeMap<u64, (Option<String>, Value)> =
        std::collections::BTreeMap::new();
    for (file, value) in good_objects().into_iter().step_by(4) {
        for extra in ["", "/metadata", "/spec", "/spec/template/spec"] {
            let mut value = value.clone();
            if let Some(map) = value.pointer_mut(extra).and_then(Value::as_object_mut) {
                map.insert("zzz".to_owned(), json!("text"));
            }
            let Ok(read) = read(&value, true) else { continue };
            let path = read.unknown.map(|fault| format!("{}{}", fault.within, fault.path));
            let first = known.entry(shape(&value)).or_insert_with(|| (path.clone(), value.clone()));
            assert_eq!(first.0, path, "{file}: {} and {value}", first.1);
        }
    }
}
