//! What happens in a cluster, as somebody sees it who reads every version of every object, and stands at the door through which joiner's calls go.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

/// Something that happened.
#[derive(Debug, Clone)]
pub struct Happening {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum What {
    /// An object came, changed or went.
    Changed(Change),
    /// Joiner calls the API server to change something; the call is about to be carried out.
    Called(Call),
    /// The provider has a machine for a claim.
    Launched {
        /// The uid of the claim.
        claim_uid: String,
        /// The machine's id.
        machine: String,
    },
    /// Joiner asks the provider to end a machine; the call is about to be carried out.
    EndAsked {
        /// The machine's id.
        machine: String,
    },
    /// The provider has said that there is no such machine.
    Ended {
        /// The machine's id.
        machine: String,
    },
    /// The provider has said that there is no machine for a claim.
    NoneFor {
        /// The uid of the claim.
        claim_uid: String,
    },
}

/// A change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// Its kind.
    pub kind: &'static str,
    /// The object as it is now; of one that is gone the last state.
    pub object: Value,
    /// The object before; `Null` for a new one.
    pub previous: Value,
    /// It is gone.
    pub is_gone: bool,
}

/// A call that changes something.
#[derive(Debug, Clone)]
pub struct Call {
    /// The first process is 1; each that is started later has the next number.
    pub process: u32,
    /// Of the request.
    pub method: String,
    /// Of the request, without its query.
    pub path: String,
    /// Of the request; `Null` without one.
    pub body: Value,
}

impl Call {
    /// The resource, the namespace, the name and the subresource that the path names.
    pub fn target(&self) -> Target<'_> {
        let parts: Vec<&str> = self.path.split('/').filter(|part| !part.is_empty()).collect();
        // `api/v1/…` or `apis/GROUP/VERSION/…`.
        let parts = parts.get(if self.path.starts_with("/api/") { 2 } else { 3 }..).unwrap_or_default();
        let part = |at: usize| parts.get(at).copied().unwrap_or_default();
        match part(0) == "namespaces" && parts.len() > 2 {
            true => Target { namespace: part(1), resource: part(2), name: part(3), part: part(4) },
            false => Target { namespace: "", resource: part(0), name: part(1), part: part(2) },
        }
    }

    /// Whether it only tells something, so that nothing is lost with it.
    pub fn is_told(&self) -> bool {
        matches!(self.target().resource, "events" | "configmaps" | "leases")
    }
}

/// What a call is about. What the path does not name is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the parts of a path")]
pub struct Target<'c> {
    pub namespace: &'c str,
    pub resource: &'c str,
    pub name: &'c str,
    pub part: &'c str,
}

/// All objects of the kinds that are watched, as they are at the moment.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
}

impl Cluster {
    /// Takes in a change.
    pub fn take(&mut self, change: &Change) {
        let objects = self.objects.entry(change.kind).or_default();
        let key = key(&change.object);
        if change.is_gone {
            objects.remove(&key);
        } else {
            objects.insert(key, change.object.clone());
        }
    }

    /// Objects of a kind, by name.
    pub fn all(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.get(kind).into_iter().flat_map(BTreeMap::values)
    }

    /// An object by name; namespace and name for one in a namespace.
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        let objects = self.objects.get(kind)?;
        if namespace.is_empty() { objects.get(name) } else { objects.get(&format!("{namespace}/{name}")) }
    }

    /// An object by its [`key`].
    pub fn keyed(&self, kind: &str, key: &str) -> Option<&Value> {
        self.objects.get(kind)?.get(key)
    }

    /// The node of a machine.
    pub fn node_of(&self, machine: &str) -> Option<&Value> {
        self.all("Node").find(|node| node["spec"]["providerID"] == machine)
    }

    /// The claim of a machine.
    pub fn claim_of(&self, machine: &str) -> Option<&Value> {
        self.all("NodeClaim").find(|claim| claim["status"]["providerID"] == machine)
    }

    /// Pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = &Value> {
        self.all("Pod").filter(move |pod| pod["spec"]["nodeName"] == node)
    }
}

/// Namespace and name, or the name alone.
pub fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]).to_owned(),
    }
}

/// A text, or an empty one.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether an object is being deleted.
pub fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// A condition of an object.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Whether a condition of an object is True.
pub fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Whether a node has a taint.
pub fn is_tainted(node: &Value, taint: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|have| have["key"] == taint)
}

/// Whether a kind of controller owns an object.
pub fn is_owned_by(object: &Value, kind: &str) -> bool {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten().any(|owner| owner["kind"] == kind)
}

/// A length of time as Kubernetes writes it, in seconds; `None` for `Never` and for what cannot be read.
pub fn seconds(text: &str) -> Option<f64> {
    let mut total = (!text.is_empty()).then_some(0.0)?;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at(digits);
        let end = after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    Some(total)
}

/// An amount as Kubernetes writes it.
pub fn amount(value: &Value) -> Option<f64> {
    if let Some(number) = value.as_f64() {
        return Some(number);
    }
    let text = value.as_str()?;
    let end =
        text.find(|letter: char| !letter.is_ascii_digit() && !"+-.".contains(letter)).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        exponent => 10_f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_and_lengths_are_read() {
        for (text, wanted) in
            [("4", 4.0), ("250m", 0.25), ("1Gi", 1_073_741_824.0), ("2e3", 2000.0), ("1k", 1000.0)]
        {
            assert_eq!(amount(&json!(text)), Some(wanted), "{text}");
        }
        assert_eq!((amount(&json!("many")), seconds("")), (None, None));
        assert_eq!(
            (seconds("1m30s"), seconds("720h"), seconds("Never")),
            (Some(90.0), Some(2_592_000.0), None)
        );
    }

    #[test]
    fn calls_name_what_they_are_about() {
        let target = |path: &str| {
            let call =
                Call { process: 1, method: "POST".to_owned(), path: path.to_owned(), body: Value::Null };
            let Target { namespace, resource, name, part } = call.target();
            [namespace, resource, name, part].map(str::to_owned)
        };
        assert_eq!(target("/api/v1/nodes/a"), ["", "nodes", "a", ""]);
        assert_eq!(target("/api/v1/namespaces/b/pods/a/eviction"), ["b", "pods", "a", "eviction"]);
        assert_eq!(target("/apis/karpenter.sh/v1/nodeclaims/a/status"), ["", "nodeclaims", "a", "status"]);
        assert_eq!(target("/api/v1/namespaces/b"), ["", "namespaces", "b", ""]);
    }
}
