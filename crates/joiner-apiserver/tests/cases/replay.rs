//! Sends the requests of a case to a server, embedded or real, and describes the answers as recordings do.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use joiner_apiserver::service::ApiServer;
use joiner_testbed::client::Client;
use serde_json::{Value, json};

use super::compare::{self, Captured, compare, pick};

/// Who answers.
pub(crate) enum Target {
    Embedded(Box<ApiServer>),
    Real(Client),
}

type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

impl Target {
    async fn answer(&self, request: Request<Full<Bytes>>, stream: bool) -> Response<Body> {
        match self {
            Self::Embedded(server) => {
                server.answer(request).await.map(|body| body.map_err(Into::into).boxed_unsync())
            }
            Self::Real(client) if stream => {
                client.stream(request).await.unwrap().map(|body| body.map_err(Into::into).boxed_unsync())
            }
            Self::Real(client) => {
                let answer = client.send(request).await.unwrap();
                answer.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())
            }
        }
    }

    /// How long to wait between two tries, and for a stream to bring what it should.
    fn is_real(&self) -> bool {
        matches!(self, Self::Real(_))
    }
}

struct Reply {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Body,
}

async fn send(target: &Target, request: &Value, captured: &Captured) -> Reply {
    let method: Method = request["method"].as_str().unwrap().parse().unwrap();
    let path = captured.fill(request["path"].as_str().unwrap()).replace(' ', "%20");
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
    let mut builder = Request::builder().method(method).uri(path);
    for (name, value) in &headers {
        builder = builder.header(name, value);
    }
    let request_body = Full::new(Bytes::from(body));
    let response = target.answer(builder.body(request_body).unwrap(), request["watch"].is_object()).await;
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

async fn text(body: Body) -> String {
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Sends a request of the setup, again until it has the wanted status where the case says so.
async fn prepare(target: &Target, step: &Value, captured: &mut Captured) -> Result<(), String> {
    if let Some(seconds) = step["sleep"].as_f64() {
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        return Ok(());
    }
    let wanted = step["status"].as_u64().unwrap_or(200);
    let tries = if step["until"].is_null() { 1 } else { 100 };
    let mut last = String::new();
    for _ in 0..tries {
        let reply = send(target, step, captured).await;
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

/// Sends the request under test and describes the answer.
async fn observe(
    target: &Target,
    case: &Value,
    request: &Value,
    captured: &mut Captured,
) -> Result<Value, String> {
    if request["watch"].is_object() {
        return observe_stream(target, case, request, captured).await;
    }
    let wanted = request["untilStatus"].as_u64();
    let mut reply = send(target, request, captured).await;
    for _ in 0..60 {
        if wanted.is_none_or(|wanted| wanted == u64::from(reply.status)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        reply = send(target, request, captured).await;
    }
    Ok(describe(request, reply).await)
}

async fn describe(request: &Value, reply: Reply) -> Value {
    // An answer to HEAD has no body on the wire, whatever the server made.
    let text = if request["method"] == "HEAD" { String::new() } else { text(reply.body).await };
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
    target: &Target,
    case: &Value,
    request: &Value,
    captured: &mut Captured,
) -> Result<Value, String> {
    let watch = &request["watch"];
    let reply = send(target, request, captured).await;
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
                prepare(target, &step, captured).await?;
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

/// Whether a case is about what controllers do.
pub(crate) fn needs_controllers(case: &Value) -> bool {
    case["needs"].as_array().is_some_and(|needs| needs.iter().any(|need| need == "controllers"))
}

/// The answers of one case: that to the request under test, then those to the requests after it.
pub(crate) struct Seen {
    pub(crate) answers: Vec<Value>,
    pub(crate) captured: Captured,
}

impl Seen {
    /// Holds them against the recording.
    pub(crate) fn check(&self, case: &Value) -> Result<(), String> {
        let mut answers = self.answers.iter();
        compare("", &case["expect"], answers.next().unwrap(), &self.captured)?;
        for (pair, seen) in case["after"].as_array().into_iter().flatten().zip(answers) {
            compare("after", &pair["expect"], seen, &self.captured)?;
        }
        Ok(())
    }
}

/// Runs a case and, on the embedded server, compares at once.
pub(crate) async fn replay(target: &Target, case: &Value, namespace: &str) -> Result<Seen, String> {
    let mut captured = Captured::default();
    captured.set("NS", namespace.to_owned());
    if case["namespace"] == true {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let step = json!({"method": "POST", "path": "/api/v1/namespaces", "body": body, "status": 201});
        prepare(target, &step, &mut captured).await?;
        let body = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        // With controllers about, theirs may come first.
        let step = json!({"method": "POST", "path": path, "body": body, "status": 201});
        if let Err(problem) = prepare(target, &step, &mut captured).await
            && !problem.contains("AlreadyExists")
        {
            return Err(problem);
        }
    }
    for step in case["setup"].as_array().into_iter().flatten() {
        prepare(target, step, &mut captured).await?;
    }
    let mut answers = vec![observe(target, case, &case["request"], &mut captured).await?];
    for pair in case["after"].as_array().into_iter().flatten() {
        answers.push(observe(target, case, &pair["request"], &mut captured).await?);
    }
    let seen = Seen { answers, captured };
    if !target.is_real() {
        seen.check(case)?;
    }
    Ok(seen)
}

/// Deletes what a case leaves behind that could disturb others. Most of it stays, each in a namespace of its own.
pub(crate) async fn clean(target: &Target, case: &Value, namespace: &str) {
    let mut captured = Captured::default();
    captured.set("NS", namespace.to_owned());
    for path in case["cleanup"].as_array().into_iter().flatten() {
        let _ = text(send(target, &json!({"method": "DELETE", "path": path}), &captured).await.body).await;
    }
}
