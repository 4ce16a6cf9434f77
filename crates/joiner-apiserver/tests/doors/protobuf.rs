//! Bodies in protobuf, as kubectl 1.35 sends them when it creates objects itself (recorded).

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// `kubectl create configmap conf --from-literal=a=b`.
const CONFIG_MAP: &str = "6b3873000a0f0a0276311209436f6e6669674d6170121e0a140a04636f6e6612001a0022002a0032003800420012060a01611201621a00\
     2200";
/// `kubectl auth whoami`.
const WHO_AM_I: &str = "6b3873000a2d0a1861757468656e7469636174696f6e2e6b38732e696f2f7631121153656c665375626a656374526576696577121a0a10\
     0a0012001a0022002a0032003800420012060a040a0012001a002200";
/// `kubectl create deployment web --image=pause --replicas=0`.
const DEPLOYMENT: &str = "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412ab010a1f0a0377656212001a0022002a003200380042005a0a0a03\
     6170701203776562127a0800120c0a0a0a0361707012037765621a600a1c0a0012001a0022002a003200380042005a0a0a036170701203\
     776562124012220a057061757365120570617573652a0042006a007200800100880100900100a201001a00320042004a00520058006000\
     68008201008a01009a0100c2010022020a00280038001a0c0800100018002000280038001a002200";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

async fn send(method: &str, path: &str, body: Vec<u8>) -> (u16, Value) {
    let server = super::server();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://localhost{path}"))
        .header("accept", "application/vnd.kubernetes.protobuf,application/json")
        .header("content-type", "application/vnd.kubernetes.protobuf")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let answer = server.answer(request).await;
    assert_eq!(answer.headers()["content-type"], "application/json");
    let code = answer.status().as_u16();
    (code, serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap())
}

#[tokio::test]
async fn a_config_map() {
    let path = "/api/v1/namespaces/default/configmaps?fieldManager=kubectl-create&fieldValidation=Strict";
    let (code, answer) = send("POST", path, bytes(CONFIG_MAP)).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["data"], json!({"a": "b"}));
    assert_eq!(answer["metadata"]["name"], "conf");
    let mut fields: Vec<&String> = answer.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["apiVersion", "data", "kind", "metadata"]);
    let owned = &answer["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(*owned, json!({"f:data": {".": {}, "f:a": {}}}));
}

#[tokio::test]
async fn a_deployment_keeps_its_zeros() {
    let (code, answer) =
        send("POST", "/apis/apps/v1/namespaces/default/deployments", bytes(DEPLOYMENT)).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["spec"]["replicas"], 0);
    assert_eq!(answer["spec"]["strategy"]["type"], "RollingUpdate");
    let container = &answer["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["image"], &container["imagePullPolicy"]), (&json!("pause"), &json!("Always")));
    assert!(container.get("workingDir").is_none(), "{container}");
}

#[tokio::test]
async fn who_am_i() {
    let (code, answer) =
        send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", bytes(WHO_AM_I)).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["status"]["userInfo"]["username"], "kubernetes-admin");
}

#[tokio::test]
async fn nonsense() {
    let path = "/api/v1/namespaces/default/configmaps";
    let (code, answer) = send("POST", path, b"{}".to_vec()).await;
    assert_eq!((code, answer["reason"].as_str()), (400, Some("BadRequest")));
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("does not appear to be a protobuf message"), "{message}");
    // A body of another kind than that of the path.
    let (code, answer) = send("POST", path, bytes(DEPLOYMENT)).await;
    assert_eq!(code, 400, "{answer}");
}
