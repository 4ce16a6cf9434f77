//! Names replaced by keyed hashes, everywhere alike.
//!
//! A name is replaced wherever it stands: as a name, in references, as the value of a label or a selector, and as a part of longer names
//! (`web` in `web-6d4cf56db6-x7k2p` or `data-web-0`). One text always becomes one other text, so whatever was equal before is equal after:
//! selectors choose the same pods, claims find their volumes, pods of StatefulSets keep their numbers.
//!
//! Renamed are the names of objects that no other object of the snapshot made. Random endings, numbers and hashes stay, because they
//! tell nothing; so do zones, instance types and what else says where and what a machine is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Hashes;
use crate::field::is_uid;

/// Names that every cluster has.
const COMMON: &[&str] = &[
    "default",
    "kube-node-lease",
    "kube-public",
    "kube-system",
    "kubernetes",
    "system-cluster-critical",
    "system-node-critical",
];
/// Kinds whose names are those of products.
const PUBLIC_KINDS: &[&str] = &["CSIDriver", "CSINode", "DeviceClass"];
/// Labels that say what a machine is, not what it is called: whole keys, or everything that begins so.
const PUBLIC_KEYS: &[&str] = &[
    "beta.kubernetes.io/",
    "eks-node-viewer/",
    "failure-domain.beta.kubernetes.io/",
    "karpenter.k8s.aws/instance-",
    "karpenter.kwok.sh/instance-",
    "karpenter.sh/capacity-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/",
    "topology.",
    "pod-template-hash",
];
/// Fields below which nothing is a name.
const NO_NAMES: &[&str] = &[
    "allocatable",
    "apiGroup",
    "apiVersion",
    "capacity",
    "creationTimestamp",
    "deletionTimestamp",
    "driver",
    "drivers",
    "image",
    "key",
    "kind",
    "lastTransitionTime",
    "limits",
    "nodeInfo",
    "overhead",
    "provisioner",
    "requests",
    "schedule",
    "schedulerName",
    "schedulingGates",
    "startTime",
    "startedAt",
    "timeZone",
    "topologyKey",
];
/// Fields whose keys are those of labels.
const LABELS: &[&str] = &["annotations", "labels", "matchLabels", "nodeSelector", "selector"];
/// The longest value of a label, and the longest name of most kinds.
const LONGEST: usize = 63;

/// Replaces names.
#[derive(Debug)]
pub struct Renamer {
    hashes: Hashes,
    names: BTreeSet<String>,
}

impl Renamer {
    /// Learns the names of all objects.
    pub fn new(key: &str, objects: &[Value]) -> Self {
        let text = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let there: BTreeSet<(String, String, String)> = objects
            .iter()
            .map(|object| {
                (text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"))
            })
            .collect();
        // Claims of StatefulSets are named by template, set and number.
        let mut claims: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for set in objects.iter().filter(|object| object["kind"] == "StatefulSet") {
            let templates = set.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
            for template in templates.into_iter().flatten() {
                let prefix = format!("{}-{}-", text(template, "/metadata/name"), text(set, "/metadata/name"));
                claims.entry(text(set, "/metadata/namespace")).or_default().push(prefix);
            }
        }
        let mut names = BTreeSet::new();
        for object in objects {
            let (kind, namespace, name) =
                (text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"));
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let mut owners = owners.into_iter().flatten();
            let made = owners.any(|owner| {
                let (owner_kind, owner) = (text(owner, "/kind"), text(owner, "/name"));
                let same = there.contains(&(owner_kind.clone(), namespace.clone(), owner.clone()));
                let known = same || there.contains(&(owner_kind, String::new(), owner.clone()));
                known && (name == owner || name.starts_with(&format!("{owner}-")))
            });
            let claimed = kind == "PersistentVolumeClaim"
                && claims.get(&namespace).is_some_and(|prefixes| {
                    prefixes.iter().any(|prefix| name.strip_prefix(prefix.as_str()).is_some_and(is_number))
                });
            if !made && !claimed && !PUBLIC_KINDS.contains(&kind.as_str()) {
                names.insert(name);
            }
            collect_inner_names(object, &mut names);
        }
        for name in COMMON {
            names.remove(*name);
        }
        // Numbers stand for many things.
        names.retain(|name| !name.is_empty() && !is_number(name));
        Self { hashes: Hashes::new(key), names }
    }

    /// The object under its new name.
    pub fn object(&self, object: &mut Value) {
        self.walk(object, "");
    }

    fn walk(&self, value: &mut Value, field: &str) {
        match value {
            Value::String(text) => {
                if let Some(new) = self.text(text, field) {
                    *text = new;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, field)),
            Value::Object(fields) if LABELS.contains(&field) && fields.values().all(Value::is_string) => {
                for (key, value) in fields.iter_mut().filter(|(key, _)| !is_public_key(key)) {
                    self.walk(value, key);
                }
            }
            Value::Object(fields) => {
                // A requirement, a taint, a toleration: whether its values are names is up to its key.
                let public = fields.get("key").and_then(Value::as_str).is_some_and(is_public_key);
                for (name, value) in fields.iter_mut() {
                    let skipped = NO_NAMES.contains(&name.as_str())
                        || (public && (name == "values" || name == "value"));
                    if !skipped {
                        self.walk(value, name);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, text: &str, field: &str) -> Option<String> {
        if field == "providerID" {
            return (!text.is_empty()).then(|| format!("renamed://{}", self.hashes.name(text)));
        }
        if text.split(',').all(is_uid) {
            return Some(text.split(',').map(|uid| self.hashes.uid(uid)).collect::<Vec<_>>().join(","));
        }
        let new = self.parts(text)?;
        Some(if text.len() <= LONGEST && new.len() > LONGEST { self.hashes.name(text) } else { new })
    }

    /// The text with the longest known names in it replaced, from the left; nothing if there are none.
    fn parts(&self, text: &str) -> Option<String> {
        if self.names.contains(text) {
            return Some(self.hashes.name(text));
        }
        let is_border = |at: usize| {
            let between = |byte: u8| !byte.is_ascii_alphanumeric();
            let bytes = text.as_bytes();
            at == 0 || at == bytes.len() || between(bytes[at]) || between(bytes[at - 1])
        };
        let borders: Vec<usize> =
            (0..=text.len()).filter(|at| text.is_char_boundary(*at) && is_border(*at)).collect();
        let mut new = String::new();
        let (mut at, mut found) = (0, false);
        while at < borders.len() {
            let start = borders[at];
            let longest = (at + 1..borders.len())
                .rev()
                .find(|end| text.get(start..borders[*end]).is_some_and(|part| self.names.contains(part)));
            match longest {
                Some(end) => {
                    new.push_str(&self.hashes.name(&text[start..borders[end]]));
                    found = true;
                    at = end;
                }
                None => {
                    let end = borders.get(at + 1).copied().unwrap_or(text.len());
                    new.push_str(&text[start..end]);
                    at += 1;
                }
            }
        }
        found.then_some(new)
    }
}

/// Names inside an object that belong to no object of the snapshot: containers, claim templates, accounts, services of sets.
fn collect_inner_names(object: &Value, names: &mut BTreeSet<String>) {
    for spec in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"] {
        let Some(spec) = object.pointer(spec) else { continue };
        for list in ["containers", "initContainers", "volumes"] {
            let items = spec.get(list).and_then(Value::as_array).into_iter().flatten();
            names.extend(items.filter_map(|item| item["name"].as_str()).map(str::to_owned));
        }
        for field in ["serviceAccountName", "serviceName", "priorityClassName", "hostname", "subdomain"] {
            names.extend(spec.get(field).and_then(Value::as_str).map(str::to_owned));
        }
    }
    let claims = object.pointer("/spec/volumeClaimTemplates").and_then(Value::as_array);
    let claims = claims.into_iter().flatten();
    names.extend(claims.filter_map(|claim| claim["metadata"]["name"].as_str()).map(str::to_owned));
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_public_key(key: &str) -> bool {
    PUBLIC_KEYS.iter().any(|known| match known.ends_with(['/', '.', '-']) {
        true => key.starts_with(*known),
        false => key == *known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UID: &str = "0b0e5b5e-9c3e-4a56-8f0c-0d6a1d0d1f11";

    fn objects() -> Vec<Value> {
        vec![
            json!({"kind": "Namespace", "metadata": {"name": "payments", "labels": {"kubernetes.io/metadata.name": "payments"}}}),
            json!({"kind": "Node", "metadata": {"name": "ip-10-0-0-1.corp.example", "labels": {
                "kubernetes.io/hostname": "ip-10-0-0-1.corp.example", "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "ledger",
            }}, "spec": {"providerID": "aws:///a/i-1"}}),
            json!({"kind": "StatefulSet", "metadata": {"name": "ledger", "namespace": "payments"}, "spec": {
                "serviceName": "ledger", "selector": {"matchLabels": {"app": "ledger"}},
                "volumeClaimTemplates": [{"metadata": {"name": "books"}}],
                "template": {"spec": {"containers": [{"name": "acme"}], "affinity": {"nodeAffinity": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                ]}}},
            }}),
            json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "books-ledger-0", "namespace": "payments"}}),
            json!({"kind": "Pod", "metadata": {"name": "ledger-0", "namespace": "payments", "uid": UID, "labels": {
                "app": "ledger", "statefulset.kubernetes.io/pod-name": "ledger-0", "controller-revision-hash": "ledger-6c7d",
                "team": "acme-ledger-crew",
            }, "ownerReferences": [{"kind": "StatefulSet", "name": "ledger", "uid": UID}]},
                "spec": {"nodeName": "ip-10-0-0-1.corp.example", "volumes": [{"name": "books", "persistentVolumeClaim": {"claimName": "books-ledger-0"}}]}}),
            // Named as something that a machine is.
            json!({"kind": "Deployment", "metadata": {"name": "linux", "namespace": "payments"}}),
        ]
    }

    #[test]
    fn what_was_equal_is_equal_and_nothing_is_left() {
        let mut all = objects();
        let renamer = Renamer::new("key", &all);
        all.iter_mut().for_each(|object| renamer.object(object));
        let text = Value::from(all.clone()).to_string();
        for gone in
            ["payments", "ip-10-0-0-1", "e\":\"ledger\",\"names", "ledger-", "books", "acme", UID, "i-1"]
        {
            assert!(!text.contains(gone), "{gone} is still in {text}");
        }
        let [namespace, node, set, claim, pod, _] = all.as_slice() else { panic!() };
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(pod["metadata"]["namespace"], name(namespace));
        assert_eq!(pod["spec"]["nodeName"], name(node));
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], name(node));
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
        assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "ledger");
        assert_eq!(name(pod), format!("{}-0", name(set)));
        assert_eq!(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], name(pod));
        assert_eq!(pod["metadata"]["labels"]["app"], set["spec"]["selector"]["matchLabels"]["app"]);
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], format!("{}-6c7d", name(set)));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], name(set));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"]);
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], name(claim));
        let template = set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"].as_str().unwrap();
        assert_eq!(name(claim), format!("{template}-{}-0", name(set)));
        assert_eq!(
            set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][0]["values"],
            json!(["linux"])
        );
    }

    #[test]
    fn the_key_decides() {
        let renamed = |key: &str| {
            let mut all = objects();
            let renamer = Renamer::new(key, &all);
            all.iter_mut().for_each(|object| renamer.object(object));
            all
        };
        assert_eq!(renamed("a"), renamed("a"));
        assert_ne!(renamed("a"), renamed("b"));
    }
}
