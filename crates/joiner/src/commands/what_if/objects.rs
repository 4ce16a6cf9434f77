//! The input as values that can be replaced, removed and edited, and how people name them.

use joiner_core::explain::nearest;
use serde_json::Value;

use crate::load::objects::read_value;
use crate::load::{Document, Documents, Source};
use crate::report::InputError;

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

/// An object of the input.
#[derive(Debug, Clone)]
pub struct Item {
    /// Who it is; `None` for objects without a name of their own.
    pub identity: Option<Identity>,
    /// The source it is from, by number.
    pub source: usize,
    /// The object.
    pub value: Value,
}

/// Kinds as people abbreviate them; other kinds are found by their own name.
const SHORT: [(&str, &str); 19] = [
    ("deploy", "Deployment"),
    ("sts", "StatefulSet"),
    ("rs", "ReplicaSet"),
    ("ds", "DaemonSet"),
    ("cj", "CronJob"),
    ("po", "Pod"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("np", "NodePool"),
    ("nc", "NodeClaim"),
    ("overlay", "NodeOverlay"),
    ("overlays", "NodeOverlay"),
    ("cb", "CapacityBuffer"),
    ("buffer", "CapacityBuffer"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("sc", "StorageClass"),
    ("pc", "PriorityClass"),
    ("provisioner", "NodePool"),
];

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

/// Looks at a document before it is taken apart; gets the names of all sources.
pub type Check<'c> = dyn FnMut(&[String], &Document) -> Result<(), InputError> + 'c;

/// Reads all objects of some sources; each document is also handed to `check`, which refuses what `plan` would.
pub fn read(sources: &[Source], first_source: usize, check: &mut Check) -> Result<Vec<Item>, InputError> {
    let names: Vec<String> = sources.iter().map(Source::name).collect();
    let mut items = Vec::new();
    Documents::new(sources).for_each(&mut |document| {
        check(&names, &document)?;
        let value = read_value(&names[document.source], &document)?;
        push_items(value, first_source + document.source, &mut items);
        Ok(())
    })?;
    Ok(items)
}

fn push_items(value: Value, source: usize, items: &mut Vec<Item>) {
    let listed = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Array(list) => list.into_iter().for_each(|item| push_items(item, source, items)),
        Value::Object(mut fields) if listed && fields.get("items").is_some_and(Value::is_array) => {
            if let Some(Value::Array(list)) = fields.remove("items") {
                list.into_iter().for_each(|item| push_items(item, source, items));
            }
        }
        value => items.push(Item { identity: Identity::of(&value), source, value }),
    }
}

/// An object as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    kind: String,
    /// The namespace, if it was given.
    namespace: Option<String>,
    /// The name.
    name: String,
    /// As written.
    pub written: String,
}

fn is_version(text: &str) -> bool {
    text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The API group of a kind.
fn group_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps",
        "Job" | "CronJob" => "batch",
        "NodePool" | "NodeClaim" | "NodeOverlay" => "karpenter.sh",
        "KWOKNodeClass" => "karpenter.kwok.sh",
        "EC2NodeClass" => "karpenter.k8s.aws",
        "CapacityBuffer" => "autoscaling.x-k8s.io",
        "StorageClass" | "CSINode" => "storage.k8s.io",
        "PriorityClass" => "scheduling.k8s.io",
        _ => return None,
    })
}

impl Target {
    /// Reads `KIND/NAME` or `NAMESPACE/KIND/NAME`; `namespace` is that of `-n`.
    pub fn parse(flag: &str, text: &str, namespace: Option<&str>) -> Result<Self, InputError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (given, kind, name) = match parts.as_slice() {
            [kind, name] => (namespace, *kind, *name),
            [given, kind, name] => (Some(*given), *kind, *name),
            _ => return Err(wrong(flag, text, "not a target", "write KIND/NAME or NAMESPACE/KIND/NAME")),
        };
        if kind.is_empty() || name.is_empty() || given == Some("") {
            return Err(wrong(
                flag,
                text,
                "a part of the target is empty",
                "write KIND/NAME or NAMESPACE/KIND/NAME",
            ));
        }
        Ok(Self {
            kind: kind.to_owned(),
            namespace: given.map(str::to_owned),
            name: name.to_owned(),
            written: text.to_owned(),
        })
    }

    /// Whether the user meant this kind.
    pub fn is_kind(&self, kind: &str) -> bool {
        let asked = self.kind.to_ascii_lowercase();
        // As kubectl takes it: `deployments.apps`, `deployments.v1.apps`.
        let (asked, group) = asked.split_once('.').unwrap_or((&asked, ""));
        let group =
            group.split_once('.').filter(|(version, _)| is_version(version)).map_or(group, |(_, g)| g);
        if !group.is_empty() && group_of(kind).is_none_or(|known| known != group) {
            return false;
        }
        let known = kind.to_ascii_lowercase();
        let plural = if known.ends_with('s') { format!("{known}es") } else { format!("{known}s") };
        asked == known
            || asked == plural
            || SHORT.iter().any(|(short, long)| *short == asked && *long == kind)
    }

    /// The object meant, by its number.
    pub fn find(&self, flag: &str, items: &[Item]) -> Result<usize, InputError> {
        let of_kind: Vec<(usize, &Identity)> = items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| Some((at, item.identity.as_ref()?)))
            .filter(|(_, identity)| self.is_kind(&identity.kind))
            .collect();
        if of_kind.is_empty() {
            let mut kinds: Vec<&str> =
                items.iter().filter_map(|item| Some(item.identity.as_ref()?.kind.as_str())).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let remedy = match nearest(&self.kind, kinds.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("kinds in the input: {}", kinds.join(", ")),
            };
            return Err(wrong(
                flag,
                &self.written,
                format!("the input has no object of kind `{}`", self.kind),
                remedy,
            ));
        }
        let named: Vec<&(usize, &Identity)> =
            of_kind.iter().filter(|(_, identity)| identity.name == self.name).collect();
        let wanted = self.namespace.as_deref().unwrap_or("default");
        let here = |identity: &Identity| identity.namespace.is_empty() || identity.namespace == wanted;
        let in_namespace: Vec<_> = named.iter().filter(|(_, identity)| here(identity)).collect();
        match (in_namespace.last(), named.as_slice()) {
            (Some((at, _)), _) => Ok(*at),
            // A name without a namespace also means the one object of that name elsewhere.
            (None, [(at, _)]) if self.namespace.is_none() => Ok(*at),
            (None, [_, _, ..]) if self.namespace.is_none() => {
                let spaces: Vec<&str> =
                    named.iter().map(|(_, identity)| identity.namespace.as_str()).collect();
                let message = format!("there are several, in the namespaces {}", spaces.join(", "));
                Err(wrong(flag, &self.written, message, "write NAMESPACE/KIND/NAME, or give -n"))
            }
            _ => {
                let names = of_kind.iter().map(|(_, identity)| identity.name.as_str());
                let remedy = match named.first() {
                    Some((_, identity)) => format!("there is one in the namespace `{}`", identity.namespace),
                    None => match nearest(&self.name, names.clone()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("there are {}", names.take(8).collect::<Vec<_>>().join(", ")),
                    },
                };
                Err(wrong(flag, &self.written, "there is no such object in the input", remedy))
            }
        }
    }
}

/// A complaint about a flag.
pub fn wrong(flag: &str, value: &str, message: impl Into<String>, remedy: impl Into<String>) -> InputError {
    InputError {
        path: Some(flag.to_owned()),
        value: Some(value.to_owned()),
        message: message.into(),
        remedy: Some(remedy.into()),
        ..InputError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_any_usual_name() {
        for (text, kind) in [
            ("deploy/web", "Deployment"),
            ("deployments/web", "Deployment"),
            ("Deployment/web", "Deployment"),
            ("shop/sts/web", "StatefulSet"),
            ("nodepool/a", "NodePool"),
            ("provisioner/a", "NodePool"),
            ("storageclasses/a", "StorageClass"),
        ] {
            assert!(Target::parse("--x", text, None).expect("a target").is_kind(kind), "{text}");
        }
        assert!(!Target::parse("--x", "pod/a", None).expect("a target").is_kind("PodTemplate"));
        for text in ["web", "a/b/c/d", "/web", "deploy/", "//x"] {
            assert!(Target::parse("--x", text, None).is_err(), "{text}");
        }
    }
}
