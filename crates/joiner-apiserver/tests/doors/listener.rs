//! Who the listener lets in.

use std::time::Duration;

use joiner_apiserver::serve::Endpoint;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::tls_client::TlsClient;

const PATH: &str = "/api/v1/namespaces/default";

#[tokio::test]
async fn web_pages_are_sent_away() {
    let endpoint = Endpoint::bind(0).await.unwrap();
    let client = TlsClient::from_kubeconfig(&endpoint.kubeconfig());
    let serving = tokio::spawn(endpoint.serve(super::server(), std::future::pending()));
    assert_eq!(client.ask("GET", PATH, "").await.unwrap().0, 200);
    for origin in ["https://example.com", "http://localhost:8080", "null"] {
        let header = format!("Origin: {origin}\r\n");
        let (status, body) = client.ask_with("GET", PATH, &header, "").await.unwrap();
        assert_eq!(status, 403, "{origin}");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((body["kind"].as_str(), body["reason"].as_str()), (Some("Status"), Some("Forbidden")));
    }
    serving.abort();
}

/// Clients that send all before they listen get their answer too.
#[tokio::test]
async fn a_body_that_is_too_long_is_read_and_refused() {
    let endpoint = Endpoint::bind(0).await.unwrap();
    let client = TlsClient::from_kubeconfig(&endpoint.kubeconfig());
    let serving = tokio::spawn(endpoint.serve(super::server(), std::future::pending()));
    let body = "x".repeat(20 << 20);
    let (status, answer) = client.ask("POST", "/api/v1/namespaces/default/configmaps", &body).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, answer["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    assert_eq!(client.ask("GET", PATH, "").await.unwrap().0, 200);
    serving.abort();
}

#[tokio::test]
async fn checks_of_health_are_listed() {
    let endpoint = Endpoint::bind(0).await.unwrap();
    let client = TlsClient::from_kubeconfig(&endpoint.kubeconfig());
    let serving = tokio::spawn(endpoint.serve(super::server(), std::future::pending()));
    for (path, wanted) in [
        ("/readyz", "ok"),
        ("/livez/ping", "ok"),
        ("/readyz?verbose", "[+]ping ok\nreadyz check passed\n"),
        ("/livez?verbose=true", "[+]ping ok\nlivez check passed\n"),
        (
            "/healthz?verbose&exclude=ping&exclude=hm",
            "[+]ping excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"hm\"\nhealthz check passed\n",
        ),
    ] {
        let (status, answer) = client.ask("GET", path, "").await.unwrap();
        assert_eq!((status, String::from_utf8(answer).unwrap().as_str()), (200, wanted), "{path}");
    }
    serving.abort();
}

/// Whether the other side hangs up soon.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut [0; 1])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn more_clients_than_there_is_room_for_are_sent_away() {
    let endpoint = Endpoint::bind(0).await.unwrap().at_most(3);
    let (address, client) = (endpoint.address(), TlsClient::from_kubeconfig(&endpoint.kubeconfig()));
    let serving = tokio::spawn(endpoint.serve(super::server(), std::future::pending()));
    // Three that say nothing take all the room.
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut fourth = TcpStream::connect(address).await.unwrap();
    assert!(is_closed(&mut fourth).await, "the fourth is let in");
    assert!(client.ask("GET", PATH, "").await.is_err());
    for stream in &mut silent {
        assert!(!is_closed(stream).await, "one of the first three is sent away");
    }
    // Where one goes there is room for another.
    drop(silent.pop());
    let mut status = None;
    for _ in 0..50 {
        if let Ok((code, _)) = client.ask("GET", PATH, "").await {
            status = Some(code);
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(status, Some(200));
    serving.abort();
}
