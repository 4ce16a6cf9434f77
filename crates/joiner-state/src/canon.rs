//! The parts of a pod that a scheduler can see, as bytes.
//!
//! Two pods with equal bytes are alike; anything that does not change where a pod may go (images, commands, names of containers)
//! is left out, so that it cannot tell pods apart. Maps come sorted from their type; lists keep their order, because relaxation
//! and constraint order depend on it. Claims are written apart from the rest: they name single pods more often than not, and would
//! otherwise give every pod of a StatefulSet a spec of its own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, NodeSelectorTerm, PersistentVolumeClaim, PodAffinityTerm, PodSpec, PodStatus,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::bytes::{put_count, put_option, put_text};
use crate::requests::{find_status, is_sidecar, resize_is_infeasible};

/// Writes everything but labels, claims and what is kept per pod.
pub(crate) fn write_spec(out: &mut Vec<u8>, namespace: &str, spec: &PodSpec, status: Option<&PodStatus>) {
    put_text(out, namespace);
    put_count(out, spec.containers.len());
    let host_network = spec.host_network == Some(true);
    let statuses = status.and_then(|s| s.container_statuses.as_deref());
    for container in &spec.containers {
        write_container(out, container, statuses, host_network, true);
    }
    let statuses = status.and_then(|s| s.init_container_statuses.as_deref());
    put_count(out, spec.init_containers.as_ref().map_or(0, Vec::len));
    for container in spec.init_containers.iter().flatten() {
        let sidecar = is_sidecar(container);
        out.push(u8::from(sidecar));
        write_container(out, container, statuses.filter(|_| sidecar), host_network, sidecar);
    }
    out.push(u8::from(status.is_some_and(resize_is_infeasible)));
    match &spec.resources {
        None => out.push(0),
        Some(resources) => {
            out.push(1);
            write_amounts(out, resources.requests.as_ref());
            write_amounts(out, resources.limits.as_ref());
        }
    }
    write_amounts(out, spec.overhead.as_ref());
    write_map(out, spec.node_selector.as_ref());
    put_count(out, spec.tolerations.as_ref().map_or(0, Vec::len));
    for toleration in spec.tolerations.iter().flatten() {
        put_option(out, toleration.key.as_deref());
        put_option(out, toleration.operator.as_deref());
        put_option(out, toleration.value.as_deref());
        put_option(out, toleration.effect.as_deref());
    }
    write_affinity(out, spec);
    put_count(out, spec.topology_spread_constraints.as_ref().map_or(0, Vec::len));
    for spread in spec.topology_spread_constraints.iter().flatten() {
        put_text(out, &spread.topology_key);
        put_text(out, &spread.when_unsatisfiable);
        out.extend_from_slice(&spread.max_skew.to_le_bytes());
        out.extend_from_slice(&spread.min_domains.unwrap_or(i32::MIN).to_le_bytes());
        put_option(out, spread.node_affinity_policy.as_deref());
        put_option(out, spread.node_taints_policy.as_deref());
        write_selector(out, spread.label_selector.as_ref());
        write_texts(out, spread.match_label_keys.as_deref());
    }
    out.push(u8::from(spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())));
    // A number that admission has filled in decides alone; the class name then says nothing more.
    match spec.priority {
        Some(priority) => {
            out.push(1);
            out.extend_from_slice(&priority.to_le_bytes());
        }
        None => {
            out.push(0);
            put_option(out, spec.priority_class_name.as_deref());
        }
    }
}

/// Writes the claims a pod names, those made from a StatefulSet's templates included; nothing if there are none.
pub(crate) fn write_claims(
    out: &mut Vec<u8>,
    namespace: &str,
    spec: &PodSpec,
    templates: &[PersistentVolumeClaim],
) {
    let mut any = false;
    let mut begin = |out: &mut Vec<u8>| {
        if !std::mem::replace(&mut any, true) {
            put_text(out, namespace);
        }
    };
    for template in templates {
        begin(out);
        out.push(1);
        put_option(out, template.metadata.name.as_deref());
        let spec = template.spec.as_ref();
        put_option(out, spec.and_then(|s| s.storage_class_name.as_deref()));
        put_option(out, spec.and_then(|s| s.volume_name.as_deref()));
    }
    for volume in spec.volumes.iter().flatten() {
        if is_templated(templates, &volume.name) {
            continue;
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            begin(out);
            out.push(2);
            put_text(out, &claim.claim_name);
        } else if let Some(ephemeral) = &volume.ephemeral {
            begin(out);
            out.push(3);
            put_text(out, &volume.name);
            let spec = ephemeral.volume_claim_template.as_ref().map(|template| &template.spec);
            put_option(out, spec.and_then(|s| s.storage_class_name.as_deref()));
            put_option(out, spec.and_then(|s| s.volume_name.as_deref()));
        }
    }
}

/// Whether a StatefulSet's template takes the place of a volume.
pub(crate) fn is_templated(templates: &[PersistentVolumeClaim], volume: &str) -> bool {
    templates.iter().any(|template| template.metadata.name.as_deref() == Some(volume))
}

/// Writes labels as pairs of texts.
pub(crate) fn write_labels(out: &mut Vec<u8>, labels: Option<&BTreeMap<String, String>>) {
    for (key, value) in labels.into_iter().flatten() {
        put_text(out, key);
        put_text(out, value);
    }
}

fn write_container(
    out: &mut Vec<u8>,
    container: &Container,
    statuses: Option<&[ContainerStatus]>,
    host_network: bool,
    with_ports: bool,
) {
    let resources = container.resources.as_ref();
    write_amounts(out, resources.and_then(|r| r.requests.as_ref()));
    write_amounts(out, resources.and_then(|r| r.limits.as_ref()));
    match find_status(statuses, &container.name) {
        None => out.push(0),
        Some((actual, status)) => {
            out.push(1);
            write_amounts(out, actual.requests.as_ref());
            write_amounts(out, status.allocated_resources.as_ref());
        }
    }
    if with_ports {
        for port in container.ports.iter().flatten() {
            let host_port = match port.host_port {
                Some(number) if number != 0 => number,
                _ if host_network => port.container_port,
                _ => continue,
            };
            out.push(1);
            out.extend_from_slice(&host_port.to_le_bytes());
            put_option(out, port.host_ip.as_deref());
            put_option(out, port.protocol.as_deref());
        }
    }
    out.push(0);
}

fn write_affinity(out: &mut Vec<u8>, spec: &PodSpec) {
    let Some(affinity) = &spec.affinity else {
        out.push(0);
        return;
    };
    out.push(1);
    let node = affinity.node_affinity.as_ref();
    match node.and_then(|n| n.required_during_scheduling_ignored_during_execution.as_ref()) {
        None => out.push(0),
        Some(required) => {
            out.push(1);
            put_count(out, required.node_selector_terms.len());
            for term in &required.node_selector_terms {
                write_node_term(out, term);
            }
        }
    }
    let preferred = node.and_then(|n| n.preferred_during_scheduling_ignored_during_execution.as_ref());
    put_count(out, preferred.map_or(0, Vec::len));
    for term in preferred.into_iter().flatten() {
        out.extend_from_slice(&term.weight.to_le_bytes());
        write_node_term(out, &term.preference);
    }
    let together = affinity.pod_affinity.as_ref();
    let apart = affinity.pod_anti_affinity.as_ref();
    write_pod_terms(
        out,
        together.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()),
        together.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()),
    );
    write_pod_terms(
        out,
        apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref()),
        apart.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()),
    );
}

fn write_node_term(out: &mut Vec<u8>, term: &NodeSelectorTerm) {
    out.push(u8::from(term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty())));
    put_count(out, term.match_expressions.as_ref().map_or(0, Vec::len));
    for expression in term.match_expressions.iter().flatten() {
        put_text(out, &expression.key);
        put_text(out, &expression.operator);
        write_texts(out, expression.values.as_deref());
    }
}

fn write_pod_terms(
    out: &mut Vec<u8>,
    required: Option<&[PodAffinityTerm]>,
    preferred: Option<&[WeightedPodAffinityTerm]>,
) {
    put_count(out, required.map_or(0, <[_]>::len));
    for term in required.into_iter().flatten() {
        write_pod_term(out, term);
    }
    put_count(out, preferred.map_or(0, <[_]>::len));
    for term in preferred.into_iter().flatten() {
        out.extend_from_slice(&term.weight.to_le_bytes());
        write_pod_term(out, &term.pod_affinity_term);
    }
}

fn write_pod_term(out: &mut Vec<u8>, term: &PodAffinityTerm) {
    put_text(out, &term.topology_key);
    write_selector(out, term.label_selector.as_ref());
    write_selector(out, term.namespace_selector.as_ref());
    write_texts(out, term.namespaces.as_deref());
    write_texts(out, term.match_label_keys.as_deref());
    write_texts(out, term.mismatch_label_keys.as_deref());
}

fn write_selector(out: &mut Vec<u8>, selector: Option<&LabelSelector>) {
    let Some(selector) = selector else {
        out.push(0);
        return;
    };
    out.push(1);
    write_map(out, selector.match_labels.as_ref());
    put_count(out, selector.match_expressions.as_ref().map_or(0, Vec::len));
    for expression in selector.match_expressions.iter().flatten() {
        put_text(out, &expression.key);
        put_text(out, &expression.operator);
        write_texts(out, expression.values.as_deref());
    }
}

fn write_texts(out: &mut Vec<u8>, texts: Option<&[String]>) {
    put_count(out, texts.map_or(0, <[_]>::len));
    for text in texts.into_iter().flatten() {
        put_text(out, text);
    }
}

fn write_map(out: &mut Vec<u8>, map: Option<&BTreeMap<String, String>>) {
    put_count(out, map.map_or(0, BTreeMap::len));
    for (key, value) in map.into_iter().flatten() {
        put_text(out, key);
        put_text(out, value);
    }
}

fn write_amounts(out: &mut Vec<u8>, map: Option<&BTreeMap<String, Quantity>>) {
    put_count(out, map.map_or(0, BTreeMap::len));
    for (key, value) in map.into_iter().flatten() {
        put_text(out, key);
        put_text(out, &value.0);
    }
}
