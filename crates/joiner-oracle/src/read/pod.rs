//! A pod object, or a workload's template dressed up as one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claims::{Storage, resolve};
use super::expressions::{folded_selector, node_expressions, selector};
use super::field::{at, labels, list, required, seconds, stable_key, stable_labels, strings, text, whole32};
use super::refusal::refusal;
use super::requests::{pod_requests, with_defaulted_requests};
use crate::world::{AffinityTerm, Expr, Pod, Port, Spread, Toleration};

/// What reading a pod needs to know about the rest.
pub(super) struct Surroundings {
    pub storage: Storage,
    pub priorities: BTreeMap<String, i32>,
    pub default_priority: i32,
    pub well_known: BTreeSet<String>,
}

/// Reads a pod whatever its state; see [`waits_or_runs`].
pub(super) fn pod(object: &Value, around: &Surroundings) -> Result<Pod, String> {
    let namespace = text(object, &["metadata", "namespace"]).unwrap_or("default").to_owned();
    let name = required(object, &["metadata", "name"])?.to_owned();
    read(object, namespace.clone(), name.clone(), around)
        .map_err(|why| format!("pod `{namespace}/{name}`: {why}"))
}

/// False for pods no scheduler cares about: finished, gated, deleted before binding, or made for one node by a controller.
pub(super) fn waits_or_runs(object: &Value) -> bool {
    let finished = matches!(text(object, &["status", "phase"]), Some("Succeeded" | "Failed"));
    let bound = text(object, &["spec", "nodeName"]).is_some();
    let deleting = at(object, &["metadata", "deletionTimestamp"]).is_some();
    let gated =
        at(object, &["spec", "schedulingGates"]).and_then(Value::as_array).is_some_and(|g| !g.is_empty());
    let local = owned_by(object, "apps/v1", "DaemonSet") || owned_by(object, "v1", "Node");
    !finished && (bound || !(deleting || gated || local))
}

fn owned_by(object: &Value, version: &str, kind: &str) -> bool {
    let owners = at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.is_some_and(|owners| {
        owners.iter().any(|owner| {
            (text(owner, &["apiVersion"]), text(owner, &["kind"])) == (Some(version), Some(kind))
        })
    })
}

fn read(object: &Value, namespace: String, name: String, around: &Surroundings) -> Result<Pod, String> {
    let object = &with_defaulted_requests(object);
    let spec = at(object, &["spec"]).ok_or("field `spec` is missing")?;
    let own_labels = labels(object, &["metadata", "labels"])?;
    let priority = match (whole32(spec, &["priority"])?, text(spec, &["priorityClassName"])) {
        (Some(priority), _) => priority,
        (None, Some(class)) => match (around.priorities.get(class), class) {
            (Some(value), _) => *value,
            (None, "system-cluster-critical") => 2_000_000_000,
            (None, "system-node-critical") => 2_000_001_000,
            (None, unknown) => return Err(format!("priority class `{unknown}` does not exist")),
        },
        (None, None) => around.default_priority,
    };

    let node_affinity = at(spec, &["affinity", "nodeAffinity"]);
    let mut required_terms = None;
    let mut uses_match_fields = false;
    let mut preferred_terms = Vec::new();
    if let Some(affinity) = node_affinity {
        if let Some(required) = at(affinity, &["requiredDuringSchedulingIgnoredDuringExecution"]) {
            let mut terms: Vec<Vec<Expr>> = Vec::new();
            for term in list(required, &["nodeSelectorTerms"])? {
                uses_match_fields |= !list(term, &["matchFields"])?.is_empty();
                terms.push(node_expressions(list(term, &["matchExpressions"])?)?);
            }
            required_terms = Some(terms);
        }
        for item in list(affinity, &["preferredDuringSchedulingIgnoredDuringExecution"])? {
            let weight = whole32(item, &["weight"])?.unwrap_or(0);
            let exprs = node_expressions(list(item, &["preference", "matchExpressions"])?)?;
            preferred_terms.push((weight, exprs));
        }
    }

    let spread = list(spec, &["topologySpreadConstraints"])?
        .iter()
        .map(|item| {
            Ok(Spread {
                key: stable_key(required(item, &["topologyKey"])?).to_owned(),
                max_skew: whole32(item, &["maxSkew"])?.unwrap_or(1),
                min_domains: whole32(item, &["minDomains"])?,
                hard: text(item, &["whenUnsatisfiable"]) != Some("ScheduleAnyway"),
                selector: folded_selector(item, &own_labels)?,
                honor_affinity: text(item, &["nodeAffinityPolicy"]) != Some("Ignore"),
                honor_taints: text(item, &["nodeTaintsPolicy"]) == Some("Honor"),
            })
        })
        .collect::<Result<Vec<_>, String>>()?;

    let term = |item: &Value| -> Result<AffinityTerm, String> {
        Ok(AffinityTerm {
            key: stable_key(required(item, &["topologyKey"])?).to_owned(),
            selector: folded_selector(item, &own_labels)?,
            namespaces: strings(item, &["namespaces"])?,
            namespace_selector: selector(at(item, &["namespaceSelector"]))?,
        })
    };
    let hard_terms = |kind: &str| -> Result<Vec<AffinityTerm>, String> {
        let path = ["affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"];
        list(spec, &path)?.iter().map(&term).collect()
    };
    let soft_terms = |kind: &str| -> Result<Vec<(i32, AffinityTerm)>, String> {
        list(spec, &["affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"])?
            .iter()
            .map(|item| {
                let inner =
                    at(item, &["podAffinityTerm"]).ok_or("a preferred term has no `podAffinityTerm`")?;
                Ok((whole32(item, &["weight"])?.unwrap_or(0), term(inner)?))
            })
            .collect()
    };

    let resolved = resolve(&namespace, &name, spec, &around.storage)?;
    let mut pod = Pod {
        uid: text(object, &["metadata", "uid"]).unwrap_or_default().to_owned(),
        created: text(object, &["metadata", "creationTimestamp"]).and_then(seconds),
        node_name: text(spec, &["nodeName"]).map(str::to_owned),
        priority,
        requests: pod_requests(object)?,
        tolerations: tolerations(spec)?,
        node_selector: stable_labels(labels(spec, &["nodeSelector"])?),
        required_terms,
        uses_match_fields,
        preferred_terms,
        spread,
        affinity: hard_terms("podAffinity")?,
        anti_affinity: hard_terms("podAntiAffinity")?,
        preferred_affinity: soft_terms("podAffinity")?,
        preferred_anti_affinity: soft_terms("podAntiAffinity")?,
        ports: ports(spec)?,
        volumes: resolved.volumes,
        uses_resource_claims: !list(spec, &["resourceClaims"])?.is_empty(),
        is_daemon: owned_by(object, "apps/v1", "DaemonSet"),
        filler: false,
        terminating: at(object, &["metadata", "deletionTimestamp"]).is_some(),
        refused: None,
        labels: own_labels,
        namespace,
        name,
    };
    pod.refused = refusal(&pod, &around.well_known).or(resolved.refused);
    Ok(pod)
}

fn tolerations(spec: &Value) -> Result<Vec<Toleration>, String> {
    list(spec, &["tolerations"])?
        .iter()
        .map(|item| {
            Ok(Toleration {
                key: text(item, &["key"]).map(str::to_owned),
                operator: text(item, &["operator"]).unwrap_or("Equal").to_owned(),
                value: text(item, &["value"]).unwrap_or_default().to_owned(),
                effect: text(item, &["effect"]).map(str::to_owned),
            })
        })
        .collect()
}

/// Host ports of everything that keeps running: containers and sidecars. On the host network every port is a host port.
fn ports(spec: &Value) -> Result<Vec<Port>, String> {
    let host_network = at(spec, &["hostNetwork"]).and_then(Value::as_bool).unwrap_or(false);
    let sidecars = list(spec, &["initContainers"])?
        .iter()
        .filter(|container| text(container, &["restartPolicy"]) == Some("Always"));
    let mut ports = Vec::new();
    for container in list(spec, &["containers"])?.iter().chain(sidecars) {
        for item in list(container, &["ports"])? {
            let mut port = whole32(item, &["hostPort"])?.unwrap_or(0);
            if port == 0 && host_network {
                port = whole32(item, &["containerPort"])?.unwrap_or(0);
            }
            if port > 0 {
                ports.push(Port {
                    host_ip: text(item, &["hostIP"]).unwrap_or_default().to_owned(),
                    port,
                    protocol: text(item, &["protocol"]).unwrap_or("TCP").to_owned(),
                });
            }
        }
    }
    ports.sort();
    ports.dedup();
    Ok(ports)
}
