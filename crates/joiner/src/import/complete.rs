//! What objects need of a cluster and files leave out: namespaces, accounts, priorities, runtime classes.
//!
//! Snapshots leave accounts out because nothing depends on them but their existence. A priority class that is missing is made from a pod
//! that has it; without one, new pods of its workload would be refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{at, kind, text};
use crate::commands::up::objects::complete as namespaces_and_classes;

/// Where objects have pods in them.
const POD_SPECS: [&str; 4] =
    ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"];

/// Adds what is missing.
pub fn complete(objects: &mut Vec<Value>, notes: &mut Vec<String>) {
    notes.extend(namespaces_and_classes(objects));
    let mut accounts: BTreeSet<(String, String)> = BTreeSet::new();
    let mut priorities: BTreeMap<String, i64> = BTreeMap::new();
    let mut runtimes: BTreeSet<String> = BTreeSet::new();
    for object in objects.iter() {
        let namespace = text(object, "/metadata/namespace");
        if kind(object) == "Namespace" {
            accounts.insert((text(object, "/metadata/name").to_owned(), "default".to_owned()));
        }
        for spec in POD_SPECS.iter().filter_map(|pointer| at(object, pointer)) {
            let account = text(spec, "/serviceAccountName");
            if !account.is_empty() && !namespace.is_empty() {
                accounts.insert((namespace.to_owned(), account.to_owned()));
            }
            let class = text(spec, "/priorityClassName");
            if !class.is_empty() {
                let value = spec.get("priority").and_then(Value::as_i64);
                let known = priorities.entry(class.to_owned()).or_insert(0);
                *known = value.unwrap_or(*known);
            }
            let runtime = text(spec, "/runtimeClassName");
            if !runtime.is_empty() {
                runtimes.insert(runtime.to_owned());
            }
        }
    }
    for object in objects.iter() {
        let name = text(object, "/metadata/name");
        match kind(object) {
            "ServiceAccount" => {
                accounts.remove(&(text(object, "/metadata/namespace").to_owned(), name.to_owned()));
            }
            "PriorityClass" => {
                priorities.remove(name);
            }
            "RuntimeClass" => {
                runtimes.remove(name);
            }
            _ => {}
        }
    }
    priorities.retain(|name, _| !name.starts_with("system-"));
    for (namespace, name) in accounts {
        objects.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
        }));
    }
    for (name, value) in priorities {
        notes
            .push(format!("PriorityClass `{name}` is not in the files and was added with the value {value}"));
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
        }));
    }
    for name in runtimes {
        notes.push(format!("RuntimeClass `{name}` is not in the files and was added without overhead"));
        objects.push(json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": "imported",
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pods_refer_to_is_there() {
        let spec = json!({"serviceAccountName": "runner", "priorityClassName": "high", "priority": 7, "runtimeClassName": "vm"});
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"}, "spec": spec}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "shop"}, "spec": {"template": {
                "spec": {"serviceAccountName": "other", "priorityClassName": "high"},
            }}}),
        ];
        let mut notes = Vec::new();
        complete(&mut objects, &mut notes);
        let names: Vec<String> =
            objects.iter().map(|of| format!("{} {}", kind(of), text(of, "/metadata/name"))).collect();
        for wanted in [
            "Namespace shop",
            "ServiceAccount default",
            "ServiceAccount runner",
            "ServiceAccount other",
            "PriorityClass high",
            "RuntimeClass vm",
        ] {
            assert!(names.iter().any(|name| name == wanted), "{wanted} is not among {names:?}");
        }
        let class = objects.iter().find(|of| kind(of) == "PriorityClass").unwrap();
        assert_eq!(class["value"], 7);
        assert_eq!(notes.len(), 3, "{notes:?}");
        let before = objects.len();
        complete(&mut objects, &mut notes);
        assert_eq!(objects.len(), before);
    }
}
