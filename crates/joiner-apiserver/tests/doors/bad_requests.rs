//! Requests that are refused: each with its status, its reason and its words.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use joiner_apiserver::service::ApiServer;
use serde_json::{Value, json};

struct Asked<'a> {
    method: Method,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: Vec<u8>,
}

async fn ask(server: &ApiServer, asked: Asked<'_>) -> (u16, Value) {
    let mut request = Request::builder().method(asked.method).uri(format!("http://localhost{}", asked.path));
    for (name, value) in asked.headers {
        request = request.header(*name, *value);
    }
    let answer = server.answer(request.body(Full::new(Bytes::from(asked.body))).unwrap()).await;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    (code, value)
}

async fn refused(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> (u16, String, String) {
    let (code, answer) = ask(&super::server(), Asked { method, path, headers, body: body.into() }).await;
    let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
    let message = if answer.is_string() { answer.as_str().unwrap().to_owned() } else { text("message") };
    (code, text("reason"), message)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

#[tokio::test]
async fn bodies_that_make_no_sense() {
    let cases: [(&str, &str, &str); 8] = [
        ("{", "couldn't get version/kind; json parse error: unexpected end of JSON input", "BadRequest"),
        ("", "couldn't get version/kind; json parse error: unexpected end of JSON input", "BadRequest"),
        ("[]", "json", "BadRequest"),
        ("null", "", ""),
        (
            r#"{"kind": "Pod", "apiVersion": "v1"}"#,
            "Pod in version \"v1\" cannot be handled as a ConfigMap",
            "BadRequest",
        ),
        (r#"{"kind": "Nonsense", "apiVersion": "v1"}"#, "no kind \"Nonsense\" is registered", "BadRequest"),
        (r#"{"metadata": {"name": 3}}"#, "cannot unmarshal number into Go struct field", "BadRequest"),
        (r#"{"metadata": {"name": "Upper"}}"#, "a lowercase RFC 1123 subdomain", "Invalid"),
    ];
    for (body, words, reason) in cases {
        let (code, found, message) = refused(Method::POST, MAPS, JSON, body).await;
        assert!((400..500).contains(&code), "{body}: {code} {message}");
        assert!(message.contains(words), "{body}: {message}");
        assert!(reason.is_empty() || found == reason, "{body}: {found} {message}");
    }
}

#[tokio::test]
async fn types_that_are_not_spoken() {
    let refuse = |kind: &'static str| async move {
        refused(Method::POST, MAPS, &[("content-type", kind)], r#"{"metadata": {"name": "a"}}"#).await
    };
    for kind in ["text/plain", "application/cbor", "nonsense"] {
        let (code, reason, message) = refuse(kind).await;
        assert_eq!((code, reason.as_str()), (415, "UnsupportedMediaType"), "{kind}");
        assert_eq!(
            message,
            "the body of the request was in an unknown format - accepted media types include: application/json, \
             application/yaml, application/vnd.kubernetes.protobuf"
        );
    }
    let (code, reason, message) =
        refused(Method::PATCH, &format!("{MAPS}/a"), &[("content-type", "text/plain")], "{}").await;
    assert_eq!((code, reason.as_str()), (415, "UnsupportedMediaType"), "{message}");
    for accepted in ["text/html", "application/vnd.kubernetes.protobuf", "application/cbor"] {
        let (code, reason, message) = refused(Method::GET, MAPS, &[("accept", accepted)], "").await;
        assert_eq!((code, reason.as_str()), (406, "NotAcceptable"), "{accepted}");
        assert!(message.contains("application/json"), "{message}");
    }
    let both = &[("accept", "application/vnd.kubernetes.protobuf,application/json")];
    assert_eq!(refused(Method::GET, MAPS, both, "").await.0, 200);
}

#[tokio::test]
async fn bodies_that_are_too_long() {
    let body = |length: usize| {
        let text = "x".repeat(length);
        json!({"metadata": {"name": "big"}, "data": {"text": text}}).to_string()
    };
    let (code, reason, message) = refused(Method::POST, MAPS, JSON, body(3 * 1024 * 1024)).await;
    assert_eq!((code, reason.as_str()), (413, "RequestEntityTooLarge"));
    assert_eq!(message, "Request entity too large: limit is 3145728");
    // A little under the limit of requests there is one of config maps.
    let (code, _, message) = refused(Method::POST, MAPS, JSON, body(1_000_000)).await;
    assert_eq!(code, 201, "{message}");
}

#[tokio::test]
async fn selectors_that_make_no_sense() {
    for (query, words) in [
        ("labelSelector=a%20in", "found '', expected: '('"),
        ("labelSelector=-bad%3Dx", "Invalid value"),
        ("fieldSelector=spec.nodeName%3Dx", "\"spec.nodeName\" is not a known field selector"),
        ("fieldSelector=metadata.name", "invalid selector"),
        ("limit=many", "strconv.ParseInt: parsing \"many\": invalid syntax"),
        ("resourceVersion=new", "strconv.ParseUint: parsing \"new\": invalid syntax"),
        ("continue=%2A", "continue key is not valid"),
    ] {
        let (code, reason, message) = refused(Method::GET, &format!("{MAPS}?{query}"), &[], "").await;
        assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{query}: {message}");
        assert!(message.contains(words), "{query}: {message}");
    }
}

#[tokio::test]
async fn paths_that_lead_nowhere() {
    let not_found = "the server could not find the requested resource";
    for (method, path, code, words) in [
        (Method::GET, "/api/v1/nonsense", 404, not_found),
        (Method::GET, "/apis/apps/v1/namespaces/default/nonsense", 404, not_found),
        (Method::GET, "/apis/nobody.io/v1/things", 404, "404 page not found"),
        (Method::GET, "/somewhere", 404, "404 page not found"),
        (Method::GET, "/api/v1/namespaces/default/configmaps/none", 404, "configmaps \"none\" not found"),
        (Method::HEAD, MAPS, 405, ""),
        (Method::PUT, MAPS, 405, "the server does not allow this method on the requested resource"),
        (Method::POST, "/api/v1/namespaces/default/configmaps/none", 405, "does not allow this method"),
        (Method::GET, "/api/v1/namespaces/%FF%00/configmaps/..%2f..", 404, ""),
    ] {
        let (found, _, message) = refused(method.clone(), path, &[], "").await;
        assert_eq!(found, code, "{method} {path}: {message}");
        assert!(message.contains(words), "{method} {path}: {message}");
    }
}

/// Whoever asks has the stack of one of the threads that answer, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn bodies_that_go_deep() {
    tokio::spawn(async {
        let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let map = format!("{MAPS}/a");
        let patch = |kind: &'static str| (Method::PATCH, map.as_str(), kind);
        for (method, path, kind) in [
            (Method::POST, MAPS, "application/json"),
            (Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json"),
            (Method::POST, MAPS, "application/yaml"),
            (Method::PUT, &map, "application/json"),
            (Method::DELETE, &map, "application/json"),
            (Method::DELETE, MAPS, "application/json"),
            patch("application/json-patch+json"),
            patch("application/merge-patch+json"),
            patch("application/strategic-merge-patch+json"),
            patch("application/apply-patch+yaml?fieldManager=me"),
        ] {
            let (kind, query) = kind
                .split_once('?')
                .map_or((kind, String::new()), |(kind, query)| (kind, format!("?{query}")));
            for body in [
                lists(20_000),
                objects(20_000),
                "[".repeat(20_000),
                objects(121),
                "{\"a\":".repeat(1_000_000 / 5),
            ] {
                let headers = &[("content-type", kind)];
                let (code, reason, message) =
                    refused(method.clone(), &format!("{path}{query}"), headers, body.as_str()).await;
                let start: String = message.chars().take(300).collect();
                assert_eq!((code, reason.as_str()), (400, "BadRequest"), "{method} {kind}: {start}");
                assert!(
                    kind.contains("yaml") || message.contains("exceeded max depth"),
                    "{method} {kind}: {start}"
                );
            }
        }
        // Aliases put what is deep into what is deep.
        let aliases: String = (1..60)
            .map(|at| format!("a{at}: &a{at} {}*a{}{}\n", "[".repeat(30), at - 1, "]".repeat(30)))
            .collect();
        let yaml = &[("content-type", "application/yaml")];
        let (code, _, message) = refused(Method::POST, MAPS, yaml, format!("a0: &a0 []\n{aliases}")).await;
        assert_eq!(code, 400, "{message}");
    })
    .await
    .unwrap();
}

/// What is as deep as may be is kept, read again, changed and deleted.
#[tokio::test]
async fn objects_that_are_deep_enough() {
    let server = super::server();
    let send = |method: Method, path: &'static str, kind: &'static str, body: Value| {
        let (server, body) = (server.clone(), body.to_string().into_bytes());
        async move { ask(&server, Asked { method, path, headers: &[("content-type", kind)], body }).await }
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "deeps.deep.io"},
        "spec": {"group": "deep.io", "scope": "Cluster", "names": {"plural": "deeps", "singular": "deep", "kind": "Deep"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(Method::POST, path, "application/json", definition).await.0, 201);
    let deep = (0..118).fold(json!({}), |inner, _| json!({"a": inner}));
    let object =
        json!({"apiVersion": "deep.io/v1", "kind": "Deep", "metadata": {"name": "one"}, "spec": deep});
    let (code, answer) = send(Method::POST, "/apis/deep.io/v1/deeps", "application/json", object).await;
    assert_eq!(code, 201, "{answer}");
    let one = "/apis/deep.io/v1/deeps/one";
    let (code, answer) =
        send(Method::PATCH, one, "application/merge-patch+json", json!({"b": {"c": 1}})).await;
    assert_eq!(code, 200, "{answer}");
    let (_, found) = send(Method::GET, one, "application/json", Value::Null).await;
    assert_eq!((&found["spec"], &found["b"]["c"]), (&deep, &json!(1)));
    assert!(found["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:a"].is_object());
    assert_eq!(send(Method::DELETE, one, "application/json", json!({})).await.0, 200);
}

/// Rules are run on the stack of whoever sends an object; those that go too deep are refused with their definition, or not run.
#[tokio::test]
async fn rules_that_go_deep() {
    let server = super::server();
    let end =
        |answer: &Value| answer["message"].as_str().and_then(|text| text.lines().last()).map(str::to_owned);
    let sum = |terms: usize| format!("self.a{} > 0", " + 1".repeat(terms));
    let rules = [
        (sum(20_000), 422),
        (format!("{}self.a > 0{}", "(".repeat(5000), ")".repeat(5000)), 422),
        (format!("{}.a > 0", "self".to_owned() + &".a".repeat(9000)), 422),
        (sum(248), 201),
        (vec!["self.a > 0"; 400].join(" && "), 201),
        (vec!["self.a > 0"; 7000].join(" || "), 201),
        (format!("{}true", "!".repeat(20_000)), 201),
        (format!("{}self.a > 0{}", "(".repeat(90), ")".repeat(90)), 201),
    ];
    for (at, (rule, code)) in rules.iter().enumerate() {
        let name = format!("thing{at}");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{name}s.deep.io")},
            "spec": {"group": "deep.io", "scope": "Cluster",
                "names": {"plural": format!("{name}s"), "singular": name, "kind": format!("Thing{at}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object",
                        "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": rule}]}}}}}]}});
        let start: String = rule.chars().take(30).collect();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let create = |path: String, body: &Value| {
            let (server, body) = (server.clone(), body.to_string().into_bytes());
            async move { ask(&server, Asked { method: Method::POST, path: &path, headers: JSON, body }).await }
        };
        let (found, answer) = create(path.to_owned(), &definition).await;
        assert_eq!(found, *code, "{start}: {:?}", end(&answer));
        if found == 422 {
            continue;
        }
        let object = json!({"apiVersion": "deep.io/v1", "kind": format!("Thing{at}"),
            "metadata": {"name": "one"}, "spec": {"a": 1}});
        let (found, answer) = create(format!("/apis/deep.io/v1/{name}s"), &object).await;
        assert_eq!(found, 201, "{start}: {:?}", end(&answer));
    }
}
