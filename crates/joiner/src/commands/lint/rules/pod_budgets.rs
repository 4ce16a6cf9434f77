//! PodDisruptionBudgets under which no pod may ever be evicted.

use joiner_manifest::Object;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod_topology::matches;
use super::workloads;
use crate::commands::lint::finding::Hit;
use crate::commands::lint::subject::Subject;

/// Budgets that allow no eviction while all pods are well.
pub fn blocks_every_drain(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (object, budget) in &subject.pod_budgets {
        let Some(spec) = &budget.spec else { continue };
        let none = |value: &IntOrString| share(value) == Some(0) || *value == IntOrString::Int(0);
        if spec.max_unavailable.as_ref().is_some_and(none) {
            hits.push(hit(*object, "maxUnavailable", "allows no pod to be unavailable".to_owned()));
        } else if spec.min_available.as_ref().and_then(share).is_some_and(|share| share >= 100) {
            hits.push(hit(*object, "minAvailable", "wants all pods available at all times".to_owned()));
        } else if let Some(IntOrString::Int(least)) = &spec.min_available
            && let Some(replicas) = replicas(subject, budget)
            && replicas <= i64::from(*least)
        {
            let message = format!("wants {least} pods available, of workloads with {replicas} replicas");
            hits.push(hit(*object, "minAvailable", message));
        }
    }
    hits
}

fn hit(object: usize, field: &str, why: String) -> Hit {
    Hit::new(
        object,
        format!("spec.{field}"),
        format!("{why}: no node with such a pod is ever drained, so it is neither consolidated nor replaced"),
        "allow one pod to be away, e.g. `maxUnavailable: 1`, and run at least two",
    )
}

/// A share of pods in percent.
fn share(value: &IntOrString) -> Option<u32> {
    match value {
        IntOrString::Int(_) => None,
        IntOrString::String(text) => text.strip_suffix('%')?.trim().parse().ok(),
    }
}

/// How many pods the workloads of the input that a budget selects want together; nothing if there are none.
fn replicas(subject: &Subject, budget: &PodDisruptionBudget) -> Option<i64> {
    let selector = budget.spec.as_ref()?.selector.as_ref()?;
    let namespace = |of: Option<&str>| of.unwrap_or("default").to_owned();
    let mut all = None;
    for loaded in subject.objects {
        let (replicas, metadata) = match &loaded.object {
            Object::Deployment(of) => (of.spec.replicas, &of.metadata),
            Object::StatefulSet(of) => (of.spec.replicas, &of.metadata),
            Object::ReplicaSet(of) => (of.spec.replicas, &of.metadata),
            _ => continue,
        };
        let owned = metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
        let here =
            namespace(metadata.namespace.as_deref()) == namespace(budget.metadata.namespace.as_deref());
        let selects = workloads::selected(&loaded.object)
            .is_some_and(|(_, template)| matches(selector, workloads::labels(template)));
        if !owned && here && selects {
            *all.get_or_insert(0) += i64::from(replicas.unwrap_or(1));
        }
    }
    all
}
