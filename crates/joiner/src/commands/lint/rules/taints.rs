//! Taints that contradict each other, or keep everybody out.

use std::collections::BTreeMap;

use joiner_core::model::Effect;
use joiner_manifest::Object;
use k8s_openapi::api::core::v1::Taint as TaintObject;

use crate::commands::lint::finding::Hit;
use crate::commands::lint::subject::Subject;

const TAINTS: &str = "spec.template.spec.taints";
const STARTUP_TAINTS: &str = "spec.template.spec.startupTaints";

/// The same key and effect twice.
pub fn twice(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (object, loaded) in subject.objects.iter().enumerate() {
        let Object::NodePool(pool) = &loaded.object else { continue };
        let spec = &pool.spec.template.spec;
        let mut seen: BTreeMap<(&str, &str), (&str, &str)> = BTreeMap::new();
        for (list, taints) in [(TAINTS, &spec.taints), (STARTUP_TAINTS, &spec.startup_taints)] {
            for (at, taint) in taints.iter().flatten().enumerate() {
                let key = (taint.key.as_str(), taint.effect.as_str());
                let value = taint.value.as_deref().unwrap_or_default();
                match seen.get(&key) {
                    Some(before) => hits.push(Hit::new(
                        object,
                        format!("{list}[{at}]"),
                        message(taint, *before, (list, value)),
                        "keep one of them",
                    )),
                    None => {
                        seen.insert(key, (list, value));
                    }
                }
            }
        }
    }
    hits
}

fn message(taint: &TaintObject, before: (&str, &str), now: (&str, &str)) -> String {
    let name = format!("{}:{}", taint.key, taint.effect);
    if before.0 != now.0 {
        return format!("`{name}` is a taint and a startup taint: it can't both stay and go away");
    }
    if before.1 == now.1 {
        return format!("`{name}` is there twice");
    }
    format!("`{name}` has two values, `{}` and `{}`; a node can have one", before.1, now.1)
}

/// Taints that no pod tolerates.
pub fn nobody_tolerates(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    if subject.pods.is_empty() {
        return hits;
    }
    for pool in &subject.pools {
        for (at, taint) in pool.taints.iter().enumerate() {
            let tolerated = subject.pods.iter().flat_map(|pod| &pod.tolerations).any(|t| t.tolerates(taint));
            if taint.effect != Effect::PreferNoSchedule && !tolerated {
                hits.push(Hit::new(
                    pool.object,
                    format!("{TAINTS}[{at}]"),
                    format!("no pod of the input tolerates `{taint}`"),
                    "fine if such pods are elsewhere; otherwise give some pod the toleration",
                ));
            }
        }
    }
    hits
}
