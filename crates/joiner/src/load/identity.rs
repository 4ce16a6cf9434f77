//! When two objects of the input are the same one.

use serde_json::Value;

/// Kind, namespace and name: what makes two objects the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The kind, older ones under their name of today.
    pub kind: String,
    /// The namespace; empty for kinds without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Kinds of which there is one per cluster and name.
const CLUSTER_WIDE: [&str; 8] = [
    "Node",
    "NodePool",
    "NodeClaim",
    "NodeOverlay",
    "Namespace",
    "PersistentVolume",
    "StorageClass",
    "PriorityClass",
];

impl Identity {
    /// The identity of an object, if it has a name.
    pub fn of(value: &Value) -> Option<Self> {
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let kind = match text("/kind")? {
            "Provisioner" => "NodePool",
            "Machine" => "NodeClaim",
            "AWSNodeTemplate" => "EC2NodeClass",
            kind => kind,
        };
        let cluster_wide = CLUSTER_WIDE.contains(&kind) || kind.ends_with("NodeClass") || kind == "CSINode";
        let namespace = if cluster_wide { "" } else { text("/metadata/namespace").unwrap_or("default") };
        Some(Self {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: text("/metadata/name")?.to_owned(),
        })
    }

    /// `Deployment shop/web`.
    pub fn text(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}
