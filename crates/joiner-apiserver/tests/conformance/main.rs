//! Replays recorded requests and compares with the answers of a real server (see `tests/data/README.md`).
//!
//! Cases that do not pass yet are listed in `pending.rs` with the reason; a listed case that passes fails the test, as does an
//! unlisted one that does not.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod compare;
mod pending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use joiner_apiserver::service::{ApiServer, ResponseBody, Settings};
use serde_json::{Value, json};

use compare::{Captured, compare, pick};

/// Time stands still but for the sleeps of a case.
fn server(collect_garbage: bool) -> ApiServer {
    let start = tokio::time::Instant::now();
    let epoch: jiff::Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
    let clock = move || epoch + jiff::SignedDuration::try_from(start.elapsed()).unwrap();
    ApiServer::new(Arc::new(clock), &Settings { seed: 1, collect_garbage, ..Settings::default() })
}

struct Reply {
    status: u16,
    headers: BTreeMap<String, String>,
    body: ResponseBody,
}

async fn send(server: &ApiServer, request: &Value, captured: &Captured) -> Reply {
    let method: Method = request["method"].as_str().unwrap().parse().unwrap();
    let path = captured.fill(request["path"].as_str().unwrap());
    let path: String = path
        .chars()
        .map(|letter| if letter == ' ' { "%20".to_owned() } else { letter.to_string() })
        .collect();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    headers.insert("accept".to_owned(), "application/json".to_owned());
    headers.insert("user-agent".to_owned(), "golden/1".to_owned());
    let body = match &request["body"] {
        Value::Null => String::new(),
        Value::String(text) => captured.fill(text),
        other => captured.fill(&other.to_string()),
    };
    let body = match request["bodyPad"].as_u64() {
        Some(bytes) => body.replace("PAD", &"x".repeat(usize::try_from(bytes).unwrap())),
        None => body,
    };
    if !request["body"].is_null() {
        headers.insert("content-type".to_owned(), "application/json".to_owned());
    }
    for (name, value) in request["headers"].as_object().into_iter().flatten() {
        match value.as_str() {
            Some(value) => headers.insert(name.to_lowercase(), value.to_owned()),
            None => headers.remove(&name.to_lowercase()),
        };
    }
    let mut builder = Request::builder().method(method).uri(format!("http://localhost{path}"));
    for (name, value) in &headers {
        builder = builder.header(name, value);
    }
    let response = server.answer(builder.body(Full::new(Bytes::from(body))).unwrap()).await;
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for name in ["content-type", "warning", "retry-after", "allow"] {
        let values: Vec<&str> =
            response.headers().get_all(name).iter().map(|value| value.to_str().unwrap()).collect();
        if !values.is_empty() {
            headers.insert(name.to_owned(), values.join("\n"));
        }
    }
    Reply { status: response.status().as_u16(), headers, body: response.into_body() }
}

async fn text(body: ResponseBody) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Sends a request of the setup, again until it has the wanted status where the case says so.
async fn prepare(server: &ApiServer, step: &Value, captured: &mut Captured) -> Result<(), String> {
    if let Some(seconds) = step["sleep"].as_f64() {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        return Ok(());
    }
    let wanted = step["status"].as_u64().unwrap_or(200);
    let tries = if step["until"].is_null() { 1 } else { 20 };
    let mut last = String::new();
    for _ in 0..tries {
        let reply = send(server, step, captured).await;
        let status = u64::from(reply.status);
        last = text(reply.body).await;
        if status == wanted {
            let answer: Value = serde_json::from_str(&last).unwrap_or_default();
            for (name, path) in step["capture"].as_object().into_iter().flatten() {
                let value =
                    compare::at(&answer, path.as_str().unwrap()).as_str().unwrap_or_default().to_owned();
                captured.set(name, value);
            }
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(format!("setup {} {}: wanted {wanted}, got {last}", step["method"], step["path"]))
}

/// Sends the request under test and describes the answer as the recording does.
async fn observe(
    server: &ApiServer,
    case: &Value,
    request: &Value,
    captured: &mut Captured,
) -> Result<Value, String> {
    if request["watch"].is_object() {
        return observe_stream(server, case, request, captured).await;
    }
    let wanted = request["untilStatus"].as_u64();
    let mut reply = send(server, request, captured).await;
    for _ in 0..40 {
        if wanted.is_none_or(|wanted| wanted == u64::from(reply.status)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        reply = send(server, request, captured).await;
    }
    Ok(describe(request, reply).await)
}

async fn describe(request: &Value, reply: Reply) -> Value {
    let text = text(reply.body).await;
    let mut seen = json!({"status": reply.status, "headers": reply.headers});
    match serde_json::from_str::<Value>(&text) {
        Ok(body) if !text.is_empty() => {
            let body = compare::normalized(body, request["managedFields"] == true);
            seen["body"] = match request["pick"].as_array() {
                Some(paths) => pick(&body, paths),
                None => body,
            };
        }
        _ => seen["text"] = text.into(),
    }
    seen
}

async fn observe_stream(
    server: &ApiServer,
    case: &Value,
    request: &Value,
    captured: &mut Captured,
) -> Result<Value, String> {
    let watch = &request["watch"];
    let reply = send(server, request, captured).await;
    if reply.status != 200 {
        return Ok(describe(request, reply).await);
    }
    let mut seen = json!({"status": reply.status, "headers": reply.headers, "events": []});
    let mut events: Vec<Value> = Vec::new();
    let (mut body, mut closed, mut rest) = (reply.body, false, String::new());
    let wanted = watch["events"].as_u64().map(|count| usize::try_from(count).unwrap());
    let first = watch["first"].as_u64().unwrap_or(0);
    let mut during = case["during"].as_array().cloned().unwrap_or_default().into_iter();
    let end = tokio::time::Instant::now() + Duration::from_secs_f64(watch["seconds"].as_f64().unwrap());
    loop {
        if events.len() as u64 >= first {
            for step in during.by_ref() {
                prepare(server, &step, captured).await?;
            }
        }
        if wanted.is_some_and(|wanted| events.len() >= wanted) {
            break;
        }
        match tokio::time::timeout_at(end, body.frame()).await {
            Err(_) => break,
            Ok(None) => {
                closed = true;
                break;
            }
            Ok(Some(frame)) => {
                rest.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
                while let Some((line, tail)) = rest.split_once('\n') {
                    let event: Value = serde_json::from_str(line).unwrap();
                    events.push(compare::normalized(event, request["managedFields"] == true));
                    rest = tail.to_owned();
                }
            }
        }
    }
    seen["events"] = events.into();
    if watch["closed"] == true {
        seen["closed"] = closed.into();
    }
    Ok(seen)
}

async fn replay(case: &Value, number: usize) -> Result<(), String> {
    let controllers =
        case["needs"].as_array().is_some_and(|needs| needs.iter().any(|need| need == "controllers"));
    let server = server(controllers);
    let mut captured = Captured::default();
    let namespace = format!("g{number}");
    captured.set("NS", namespace.clone());
    if case["namespace"] == true {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let step = json!({"method": "POST", "path": "/api/v1/namespaces", "body": body, "status": 201});
        prepare(&server, &step, &mut captured).await?;
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let step = json!({"method": "POST", "path": path, "body": body, "status": 201});
        prepare(&server, &step, &mut captured).await?;
    }
    for step in case["setup"].as_array().into_iter().flatten() {
        prepare(&server, step, &mut captured).await?;
    }
    let seen = observe(&server, case, &case["request"], &mut captured).await?;
    compare("", &case["expect"], &seen, &captured)?;
    for pair in case["after"].as_array().into_iter().flatten() {
        let seen = observe(&server, case, &pair["request"], &mut captured).await?;
        compare("after", &pair["expect"], &seen, &captured)?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn recorded_cases_are_answered_as_recorded() {
    let only: Option<String> = std::env::var("CASE").ok();
    let cases: Vec<Value> = include_str!("../data/apiserver.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(cases.len(), 325);
    let pending: BTreeMap<&str, &str> = pending::PENDING.into_iter().collect();
    let mut known = BTreeSet::new();
    let (mut passed, mut problems) = (0, Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let name = format!("{}/{}", case["topic"].as_str().unwrap(), case["name"].as_str().unwrap());
        assert!(known.insert(name.clone()), "two cases are called {name}");
        if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        match (replay(case, number).await, pending.get(name.as_str())) {
            (Ok(()), None) => passed += 1,
            (Ok(()), Some(_)) => problems.push(format!("{name}: passes, take it off the list")),
            (Err(_), Some(_)) if only.is_none() => {}
            (Err(difference), _) => problems.push(format!("{name}:\n    {difference}")),
        }
    }
    for name in pending.keys() {
        assert!(known.contains(*name), "the list names an unknown case {name}");
    }
    assert!(problems.is_empty(), "{passed} pass, {} differ:\n{}", problems.len(), problems.join("\n"));
}
