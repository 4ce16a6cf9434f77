//! Who comes in, and as whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use serde_json::{Value, json};

use super::tls_client::TlsClient;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

async fn send(client: &TlsClient, headers: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = client.ask_with("POST", path, headers, &body.to_string()).await.unwrap();
    (status, serde_json::from_slice(&answer).unwrap())
}

fn review() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

#[tokio::test]
async fn an_issued_token_is_good_until_it_expires() {
    let time = Arc::new(AtomicI64::new(1_800_000_000));
    let clock = time.clone();
    let now = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
    let server = ApiServer::new(Arc::new(now), &Settings::default());
    let endpoint = Endpoint::bind(0).await.unwrap();
    let client = TlsClient::from_kubeconfig(&endpoint.kubeconfig());
    let serving = tokio::spawn(endpoint.serve(server, std::future::pending()));

    let request =
        |spec: Value| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let path = format!("{ACCOUNTS}/default/token");
    let mut tokens = Vec::new();
    for spec in [json!({"expirationSeconds": 600}), json!({}), json!({"audiences": ["elsewhere"]})] {
        let (status, issued) = send(&client, "", &path, &request(spec)).await;
        assert_eq!(status, 201, "{issued}");
        tokens.push(issued["status"]["token"].as_str().unwrap().to_owned());
    }
    let as_account = |token: &str| client.with_token(token);
    let who = |client: TlsClient| async move { send(&client, "", WHO, &review()).await };
    let (status, answer) = who(as_account(&tokens[0])).await;
    let user = &answer["status"]["userInfo"];
    assert_eq!((status, user["username"].as_str()), (201, Some("system:serviceaccount:default:default")));
    assert_eq!(user["groups"][1], "system:serviceaccounts:default");
    assert!(user["uid"].is_string());
    let (_, own) = who(client.clone()).await;
    assert_eq!(own["status"]["userInfo"]["username"], "kubernetes-admin");
    // One for somebody else opens nothing here, nor does one with another end.
    assert_eq!(who(as_account(&tokens[2])).await.0, 401);
    let (open, _) = tokens[0].rsplit_once('.').unwrap();
    assert_eq!(who(as_account(&format!("{open}.AAAA"))).await.0, 401);

    let reviewed = async |token: &str| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        send(&client, "", REVIEWS, &body).await.1["status"].clone()
    };
    assert_eq!(reviewed(&tokens[0]).await["authenticated"], true);
    assert_eq!(reviewed(client.token()).await["user"]["username"], "kubernetes-admin");
    time.fetch_add(600, Ordering::Relaxed);
    assert_eq!(who(as_account(&tokens[0])).await.0, 401);
    let expired = "[invalid bearer token, service account token has expired]";
    assert_eq!(reviewed(&tokens[0]).await, json!({"user": {}, "error": expired}));
    // The other lives on, as long as its account does.
    assert_eq!(who(as_account(&tokens[1])).await.0, 201);
    client.ask("DELETE", &format!("{ACCOUNTS}/default"), "").await.unwrap();
    assert_eq!(who(as_account(&tokens[1])).await.0, 401);
    serving.abort();
}

#[tokio::test]
async fn one_may_pretend_to_be_another() {
    let endpoint = Endpoint::bind(0).await.unwrap();
    let client = TlsClient::from_kubeconfig(&endpoint.kubeconfig());
    let serving = tokio::spawn(endpoint.serve(super::server(), std::future::pending()));
    for (headers, wanted) in [
        ("Impersonate-User: foo\r\n", json!({"username": "foo", "groups": ["system:authenticated"]})),
        (
            "Impersonate-User: foo\r\nImpersonate-Group: a\r\nImpersonate-Group: b\r\nImpersonate-Uid: u\r\n",
            json!({"username": "foo", "uid": "u", "groups": ["a", "b", "system:authenticated"]}),
        ),
        (
            "Impersonate-User: system:serviceaccount:n:s\r\nImpersonate-Extra-Acme.com%2Fp: x\r\n",
            json!({
                "username": "system:serviceaccount:n:s",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"],
                "extra": {"acme.com/p": ["x"]},
            }),
        ),
        (
            "Impersonate-User: system:anonymous\r\n",
            json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]}),
        ),
    ] {
        let (status, answer) = send(&client, headers, WHO, &review()).await;
        assert_eq!((status, &answer["status"]["userInfo"]), (201, &wanted), "{headers}");
    }
    // Whoever pretends to be in a group must pretend to be somebody, whatever the request is about.
    let header = "Impersonate-Group: g\r\n";
    assert_eq!(client.ask_with("GET", "/api/v1/nodes", header, "").await.unwrap().0, 400);
    serving.abort();
}

/// What every cluster has from the start.
#[tokio::test]
async fn a_new_cluster_has_the_service_of_its_server() {
    let server = super::server();
    let client = super::client(&server);
    let get = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request::<Value>(request).await.unwrap()
    };
    let service = get("/api/v1/namespaces/default/services/kubernetes").await;
    assert_eq!(service["spec"]["clusterIPs"], json!(["10.96.0.1"]));
    let port = json!([{"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"}]);
    assert_eq!(service["spec"]["ports"], port);
}
