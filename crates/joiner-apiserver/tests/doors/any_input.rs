//! Whatever a client sends is answered, and never with the server's own failure.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use joiner_apiserver::service::ApiServer;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Mistakes of clients for which Kubernetes itself answers 500.
const AS_KUBERNETES: [&str; 12] = [
    "resourceVersion should not be set on objects to be created",
    "invalid resource version",
    // Server-side apply.
    "failed to create typed patch object",
    "failed to create typed live object",
    // Strategic merge patches.
    "no elements in any of the given slices",
    "doesn't match $setElementOrder list",
    "list element types are not identical",
    "cannot merge lists without merge key",
    "merging lists cannot yet be specified in the patch",
    "does not contain declared merge key",
    "expected a []interface {}, but received a",
    "unknown patch type",
];

/// Names that mean something somewhere, so that many bodies get past the first checks.
fn field() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => proptest::sample::select(vec![
            "metadata", "name", "namespace", "labels", "annotations", "finalizers", "ownerReferences", "uid", "generateName",
            "resourceVersion", "generation", "deletionTimestamp", "managedFields", "spec", "status", "data", "binaryData",
            "immutable", "containers", "initContainers", "image", "resources", "requests", "limits", "cpu", "memory", "ports",
            "containerPort", "env", "value", "valueFrom", "volumes", "nodeName", "nodeSelector", "tolerations", "affinity",
            "replicas", "selector", "matchLabels", "matchExpressions", "template", "taints", "key", "effect", "conditions",
            "type", "op", "path", "from", "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers",
            "apiVersion", "kind", "terminationGracePeriodSeconds", "minAvailable", "maxUnavailable", "versions", "schema",
        ]).prop_map(str::to_owned),
        1 => "[a-zA-Z$./~-]{0,8}",
    ]
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..5_i64).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        proptest::sample::select(vec![
            "a",
            "x/y",
            "default",
            "1",
            "100m",
            "2Gi",
            "NoSchedule",
            "delete",
            "replace",
            "add",
            "test",
            "/metadata/labels/a",
            "/spec/-",
            "v1",
            "Pod",
            "2026-01-01T00:00:00Z",
            ""
        ])
        .prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::vec((field(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

const COLLECTIONS: [(&str, &str, &str); 7] = [
    ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces/default/pods", "v1", "Pod"),
    ("/api/v1/nodes", "v1", "Node"),
    ("/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
    ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
    ("/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1", "Lease"),
];

/// An object of each kind, for patches to work on.
fn example(kind: usize) -> Value {
    let (_, api_version, name) = COLLECTIONS[kind];
    let containers = json!([{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}], "ports": [{"containerPort": 80}]}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let mut object = json!({"apiVersion": api_version, "kind": name, "metadata": {"name": "x", "labels": {"a": "b"}, "finalizers": ["a.io/f"]}});
    let spec = match name {
        "Pod" => json!({"containers": containers}),
        "Node" => json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        "Deployment" => json!({"selector": {"matchLabels": {"a": "b"}}, "template": template}),
        "PodDisruptionBudget" => json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}),
        "CustomResourceDefinition" => {
            object["metadata"]["name"] = "xs.a.io".into();
            json!({"group": "a.io", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"}, "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]})
        }
        "Lease" => json!({"holderIdentity": "me"}),
        _ => return object,
    };
    object["spec"] = spec;
    object
}

async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    kind: &str,
    body: impl Into<Bytes>,
) -> (u16, String) {
    let request =
        Request::builder().method(method).uri(format!("http://localhost{path}")).header("content-type", kind);
    let Ok(request) = request.body(Full::new(body.into())) else { return (0, String::new()) };
    let answer = server.answer(request).await;
    let code = answer.status().as_u16();
    (code, String::from_utf8_lossy(&answer.into_body().collect().await.unwrap().to_bytes()).into_owned())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn judge(code: u16, answer: &str, asked: &str) -> Result<(), TestCaseError> {
    let fine = code < 500 || AS_KUBERNETES.iter().any(|known| answer.contains(known));
    prop_assert!(fine, "{} to {}: {}", code, asked, answer);
    Ok(())
}

const JSON: &str = "application/json";

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bodies(kind in 0..COLLECTIONS.len(), metadata in document(), spec in document(), whole in document(), mixed in any::<bool>()) {
        let (path, api_version, name) = COLLECTIONS[kind];
        let body = if mixed {
            json!({"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": spec})
        } else {
            whole
        };
        run(async {
            let server = super::server();
            for method in [Method::POST, Method::PUT, Method::DELETE] {
                let place = if method == Method::POST { path.to_owned() } else { format!("{path}/x") };
                let (code, answer) = send(&server, method, &place, JSON, body.to_string()).await;
                judge(code, &answer, &body.to_string())?;
            }
            // The same with a good name, which gets further.
            let mut named = example(kind);
            for (field, value) in body.as_object().into_iter().flatten().filter(|(field, _)| *field != "metadata") {
                named[field] = value.clone();
            }
            let (code, answer) = send(&server, Method::POST, path, JSON, named.to_string()).await;
            judge(code, &answer, &named.to_string())
        })?;
    }

    #[test]
    fn patches(kind in 0..COLLECTIONS.len(), patch in document(), form in 0..4_usize, below in any::<bool>()) {
        let (path, api_version, name) = COLLECTIONS[kind];
        let example = example(kind);
        let mut patch = match form {
            0 => json!([patch]),
            _ if below => json!({"spec": patch}),
            _ => patch,
        };
        if form == 3 && patch.is_object() {
            patch["apiVersion"] = api_version.into();
            patch["kind"] = name.into();
        }
        let types = ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"];
        run(async {
            let server = super::server();
            let (code, answer) = send(&server, Method::POST, path, JSON, example.to_string()).await;
            prop_assert_eq!(code, 201, "{}", answer);
            let object = example["metadata"]["name"].as_str().unwrap();
            for place in [format!("{path}/{object}?fieldManager=m&force=true"), format!("{path}/{object}/status?fieldManager=m&force=true")] {
                let (code, answer) = send(&server, Method::PATCH, &place, types[form], patch.to_string()).await;
                judge(code, &answer, &format!("{} {patch}", types[form]))?;
            }
            // Whatever was stored can be read.
            let (code, answer) = send(&server, Method::GET, path, "", "").await;
            judge(code, &answer, path)?;
            Ok::<(), TestCaseError>(())
        })?;
    }

    #[test]
    fn texts_and_queries(path in "(/[a-z0-9.%~]{0,8}){0,7}", query in "\\PC{0,30}", selector in "[a-z!=<>(), ./-]{0,24}", body in proptest::collection::vec(any::<u8>(), 0..60)) {
        run(async {
            let server = super::server();
            let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let places = [
                path.clone(),
                format!("/api/v1/pods?labelSelector={}", encoded(&selector)),
                format!("/api/v1/pods?fieldSelector={}", encoded(&selector)),
                format!("/api/v1/pods?limit={0}&continue={0}&timeoutSeconds={0}", encoded(&query)),
                format!("/api/v1/namespaces/default/configmaps?{}", encoded(&query)),
            ];
            for place in places {
                let (code, answer) = send(&server, Method::GET, &place, "", "").await;
                judge(code, &answer, &place)?;
            }
            for kind in [JSON, "application/yaml", "application/vnd.kubernetes.protobuf"] {
                let mut framed = if kind.ends_with("protobuf") { b"k8s\0".to_vec() } else { Vec::new() };
                framed.extend(&body);
                let (code, answer) = send(&server, Method::POST, "/api/v1/namespaces/default/configmaps", kind, framed).await;
                judge(code, &answer, kind)?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
