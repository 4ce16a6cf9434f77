//! Who asked the API server for what: its audit log, as one line per request.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// Every request, without its body. A watch is told when it begins, everything else when it is answered.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1",
  "kind": "Policy",
  "rules": [
    {"level": "None", "nonResourceURLs": ["/healthz*", "/readyz*", "/livez*", "/version"]},
    {"level": "Metadata", "verbs": ["watch"], "omitStages": ["RequestReceived", "ResponseComplete"]},
    {"level": "Metadata", "omitStages": ["RequestReceived", "ResponseStarted"]}
  ]
}
"#;

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who asked.
    pub user: String,
    /// `create`, `patch`, `watch` and so on.
    pub verb: String,
    /// The API group of the kind; nothing for the core group.
    pub group: String,
    /// The kind in the plural, with its subresource: `nodes`, `pods/eviction`.
    pub resource: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name, where the address has one.
    pub name: String,
    /// The status of the answer.
    pub code: u64,
    /// When it came in, in microseconds: `2026-01-31T10:00:00.123456Z`. Earlier times are smaller texts.
    pub received: String,
}

impl Request {
    /// Whether it could change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it did what it asked for.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// The requests in a log. A line that is still being written is left out.
///
/// # Errors
/// The log cannot be read, or a whole line of it is no event.
pub fn read(log: &Path) -> Result<Vec<Request>> {
    let text = std::fs::read_to_string(log).with_context(|| format!("cannot read `{}`", log.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(request).collect()
}

fn request(line: &str) -> Result<Request> {
    let event: Value = serde_json::from_str(line).context("a line of the audit log is no JSON")?;
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut resource = text("/objectRef/resource");
    let subresource = text("/objectRef/subresource");
    if !subresource.is_empty() {
        resource = format!("{resource}/{subresource}");
    }
    Ok(Request {
        user: text("/user/username"),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource,
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        received: text("/requestReceivedTimestamp"),
    })
}

/// How many there are of each verb and kind, most first.
pub fn tally<'r>(requests: impl IntoIterator<Item = &'r Request>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests {
        let code = if request.succeeded() { String::new() } else { format!(" ({})", request.code) };
        *counts.entry(format!("{} {}{code}", request.verb, request.resource)).or_default() += 1;
    }
    let mut all: Vec<(String, usize)> = counts.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn lines_become_requests() {
        let folder = crate::plane::scratch("audit").unwrap();
        let log = folder.join("audit.log");
        let line = |verb: &str, subresource: &str, code: u64| {
            serde_json::json!({"kind": "Event", "stage": "ResponseComplete", "verb": verb, "user": {"username": "replica-1"},
                "objectRef": {"resource": "pods", "subresource": subresource, "namespace": "a", "name": "p"},
                "responseStatus": {"code": code}, "requestReceivedTimestamp": "2026-01-31T10:00:00.123456Z"})
            .to_string()
        };
        let text = [line("create", "eviction", 201), line("create", "eviction", 429), line("get", "", 200)];
        std::fs::write(&log, text.join("\n") + "\n{\"half").unwrap();
        let requests = read(&log).unwrap();
        assert_eq!(requests.len(), 3);
        assert!(requests[0].is_write() && requests[0].succeeded());
        assert_eq!(requests[0].resource, "pods/eviction");
        assert!(requests[1].is_write() && !requests[1].succeeded());
        assert!(!requests[2].is_write());
        let counts = tally(&requests);
        let expected = [("create pods/eviction", 1), ("create pods/eviction (429)", 1), ("get pods", 1)];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
