//! The definition of EC2NodeClass judges as the original's does, and takes what conversion makes.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use joiner_api::convert::{Converted, Options, settle_kubelets, to_v1};
use joiner_api::crd;
use joiner_apiserver::direct::Direct;
use joiner_apiserver::service::{ApiServer, Settings};
use serde_json::{Value, json};

const VERDICTS: &str = include_str!("data/ec2nodeclass/verdicts.jsonl");
const V1BETA1: &str = include_str!("data/ec2nodeclass/v1beta1.yaml");
const PROVISIONER: &str = include_str!("data/convert/provisioner-addon.yaml");

/// A server that knows the definitions, and a client of it.
fn server() -> (ApiServer, Direct) {
    let server = ApiServer::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), &Settings::default());
    for definition in crd::all().into_iter().chain([crd::ec2_node_class()]) {
        let definition = serde_json::to_value(definition).unwrap();
        let made = server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", definition);
        assert!(made.is_ok(), "{made:?}");
    }
    let client = server.direct("tests");
    (server, client)
}

/// Fields at fault, in order and once each; none if the object is taken.
fn faults(client: &Direct, object: &Value) -> Vec<String> {
    let (version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let resource = client.resource_of_kind(version, kind).unwrap();
    let Err(failure) = client.create(&resource, "", object.clone()) else { return Vec::new() };
    let causes = failure.details.as_ref().map(|details| details["causes"].clone()).unwrap_or_default();
    let mut fields: Vec<String> = causes
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| cause["field"].as_str().unwrap_or_default().to_owned())
        // Not a field: rules were left out because of another fault.
        .filter(|field| field != "<nil>" && !field.is_empty())
        .collect();
    fields.sort();
    fields.dedup();
    assert!(!fields.is_empty(), "refused without a field: {}", failure.message);
    fields
}

fn class(name: &str, laid_over: &Value) -> Value {
    let mut spec = json!({
        "amiSelectorTerms": [{ "alias": "al2023@latest" }],
        "role": "role",
        "securityGroupSelectorTerms": [{ "tags": { "a": "b" } }],
        "subnetSelectorTerms": [{ "tags": { "a": "b" } }],
    });
    for (field, value) in laid_over.as_object().unwrap() {
        match value {
            Value::Null => drop(spec.as_object_mut().unwrap().remove(field)),
            value => spec[field] = value.clone(),
        }
    }
    json!({ "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": name }, "spec": spec })
}

#[test]
fn recorded_verdicts_are_ours() {
    let (_server, client) = server();
    let mut wrong = Vec::new();
    let mut count = 0;
    for (at, line) in VERDICTS.lines().enumerate() {
        let verdict: Value = serde_json::from_str(line).unwrap();
        let wanted: Vec<&str> =
            verdict["fields"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let found = faults(&client, &class(&format!("class-{at}"), &verdict["spec"]));
        if found != wanted {
            wrong.push(format!("{}: {} wanted {wanted:?}, found {found:?}", at + 1, verdict["spec"]));
        }
        count += 1;
    }
    assert_eq!(count, 143);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn defaults_are_written() {
    let (_server, client) = server();
    let resource = client.resource("karpenter.k8s.aws", "ec2nodeclasses").unwrap();
    let made =
        client.create(&resource, "", class("a", &json!({ "metadataOptions": { "httpTokens": "optional" } })));
    assert_eq!(
        made.unwrap().value()["spec"]["metadataOptions"],
        json!({ "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1, "httpTokens": "optional" })
    );
}

#[test]
fn every_field_is_explained() {
    fn walk(path: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if path != ".metadata" && !path.starts_with(".status.conditions") {
                let text = property["description"].as_str().unwrap_or_default();
                assert!(text.ends_with('.') && !text.contains(['`', '\n']), "{path}: {text:?}");
            }
            walk(&path, property);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                walk(path, &schema[inner]);
            }
        }
    }
    let definition = serde_json::to_value(crd::ec2_node_class()).unwrap();
    walk("", &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
}

fn converted(values: Vec<Value>) -> Vec<Converted> {
    let options = Options {
        default_node_class: Some(joiner_api::convert::NodeClassKind {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
        }),
        ..Options::default()
    };
    let mut all: Vec<Converted> = values.into_iter().map(|value| to_v1(value, &options).unwrap()).collect();
    settle_kubelets(&mut all);
    all
}

fn objects(all: &[Converted]) -> Vec<&Value> {
    all.iter().flat_map(|one| &one.objects).collect()
}

#[test]
fn what_conversion_makes_is_taken() {
    let (_server, client) = server();
    let mut values: Vec<Value> = serde_saphyr::from_multiple(V1BETA1).unwrap();
    let mut provisioner: Value = serde_saphyr::from_str(PROVISIONER).unwrap();
    provisioner["metadata"]["name"] = json!("addon");
    values.push(provisioner);
    values.push(json!({
        "apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": { "name": "template" },
        "spec": {
            "amiFamily": "Ubuntu",
            "amiSelector": { "aws::name": "ubuntu-*", "aws::owners": "099720109477" },
            "subnetSelector": { "aws-ids": "subnet-1,subnet-2" },
            "securityGroupSelector": { "karpenter.sh/discovery": "shop" },
            "tags": { "team": "a", "kubernetes.io/cluster/shop": "owned", "eks:eks-cluster-name": "shop" },
            "metadataOptions": { "httpTokens": "required" },
            "blockDeviceMappings": [{ "deviceName": "/dev/sda1", "ebs": { "volumeSize": "50Gi" } }],
        },
    }));
    let all = converted(values);
    for object in objects(&all) {
        let found = faults(&client, object);
        assert!(found.is_empty(), "{found:?} of {object:#}");
    }
    let again = converted(objects(&all).into_iter().cloned().collect());
    assert!(again.iter().all(|one| one.notes.is_empty()), "{again:#?}");
    assert_eq!(objects(&again), objects(&all));
}

#[test]
fn a_class_of_v1beta1_and_its_pool() {
    let all = converted(serde_saphyr::from_multiple(V1BETA1).unwrap());
    let text: Vec<String> = all
        .iter()
        .flat_map(|one| {
            let objects = one.objects.iter().map(|object| serde_saphyr::to_string(object).unwrap());
            objects.chain(one.notes.iter().map(|note| format!("# {note}\n")))
        })
        .collect();
    insta::assert_snapshot!(text.join("---\n"));
}

fn pool(name: &str, kubelet: Value) -> Value {
    json!({ "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": { "name": name }, "spec": { "template": { "spec": {
        "requirements": [], "kubelet": kubelet,
        "nodeClassRef": { "apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "main" },
    } } } })
}

#[test]
fn kubelet_settings_go_where_nobody_objects() {
    const KEPT: &str = "/metadata/annotations/compatibility.karpenter.sh~1v1beta1-kubelet-conversion";
    let small = json!({ "maxPods": 20 });
    let main = |kubelet: Value| {
        let mut class = class("main", &json!({}));
        class["spec"]["kubelet"] = kubelet;
        class
    };
    let case = |values: Vec<Value>| {
        let all = converted(values);
        let class = objects(&all).into_iter().find(|of| of["kind"] == "EC2NodeClass").unwrap();
        let kubelet = class["spec"]["kubelet"].clone();
        let kept = all.iter().filter(|one| one.objects[0].pointer(KEPT).is_some()).count();
        let notes: Vec<String> = all.iter().flat_map(|one| &one.notes).map(ToString::to_string).collect();
        (kubelet, kept, notes.join("\n"))
    };
    // One pool, or several that want the same.
    let (kubelet, kept, notes) =
        case(vec![pool("a", small.clone()), main(Value::Null), pool("b", small.clone())]);
    assert_eq!((kubelet, kept), (small.clone(), 0));
    assert_eq!(notes.matches("moved to `spec.kubelet` of EC2NodeClass `main`").count(), 2, "{notes}");
    // The class has them already.
    let (kubelet, kept, _) = case(vec![main(small.clone()), pool("a", small.clone())]);
    assert_eq!((kubelet, kept), (small.clone(), 0));
    // The class has others.
    let (kubelet, kept, notes) = case(vec![main(json!({ "maxPods": 5 })), pool("a", small.clone())]);
    assert_eq!((kubelet, kept), (json!({ "maxPods": 5 }), 1));
    assert!(notes.contains("EC2NodeClass `main` has other ones in its `spec.kubelet`"), "{notes}");
    // Another pool wants others, or none.
    for other in [json!({ "maxPods": 5 }), Value::Null] {
        let (kubelet, kept, notes) =
            case(vec![pool("a", small.clone()), pool("b", other.clone()), main(Value::Null)]);
        assert_eq!((kubelet, kept), (Value::Null, if other.is_null() { 1 } else { 2 }));
        assert!(notes.contains("NodePool `b` uses EC2NodeClass `main` with other ones"), "{notes}");
    }
}
