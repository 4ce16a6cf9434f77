//! Keys that are almost well-known ones.

use std::collections::BTreeSet;

use joiner_api::names::{
    self, AWS_WELL_KNOWN_LABELS, HOSTNAME_LABEL, KWOK_WELL_KNOWN_LABELS, WELL_KNOWN_LABELS, domain_of,
};
use joiner_core::explain::distance;
use joiner_manifest::Object;

use crate::commands::lint::finding::{Hit, Severity};
use crate::commands::lint::shelf::stable_key;
use crate::commands::lint::subject::Subject;

/// Letters that may differ.
const TYPOS_MAX: usize = 2;

/// Keys of pools, pods and overlays that are almost well-known ones.
pub fn typos(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (object, loaded) in subject.objects.iter().enumerate() {
        for (path, key) in keys_of(&loaded.object) {
            hits.extend(hit(object, path, key));
        }
    }
    for pod in &subject.pods {
        let mut seen = BTreeSet::new();
        for clause in pod.asks.iter().flatten().filter(|clause| seen.insert(&clause.path)) {
            let path = match clause.path.ends_with(']') && clause.path.contains("nodeSelector[") {
                true => clause.path.clone(),
                false => format!("{}.key", clause.path),
            };
            hits.extend(hit(pod.object, path, &clause.written_key));
        }
        for (path, key) in super::pod_topology::keys(pod) {
            hits.extend(hit(pod.object, path, key));
        }
    }
    hits
}

fn keys_of(object: &Object) -> Vec<(String, &str)> {
    match object {
        Object::NodePool(pool) => {
            let template = &pool.spec.template;
            let requirements = template.spec.requirements.iter().enumerate();
            let keys = requirements
                .map(|(at, r)| (format!("spec.template.spec.requirements[{at}].key"), r.key.as_str()));
            let labels = template.metadata.labels.iter().flatten();
            let labels =
                labels.map(|(key, _)| (format!("spec.template.metadata.labels[{key}]"), key.as_str()));
            keys.chain(labels).collect()
        }
        Object::NodeOverlay(overlay) => {
            let requirements = overlay.spec.requirements.iter().enumerate();
            requirements.map(|(at, r)| (format!("spec.requirements[{at}].key"), r.key.as_str())).collect()
        }
        _ => Vec::new(),
    }
}

fn hit(object: usize, path: String, key: &str) -> Option<Hit> {
    let meant = meant(key)?;
    let refused = names::restriction(stable_key(key), &BTreeSet::new()).is_some();
    let hit = Hit::new(
        object,
        path,
        format!("`{key}` is not a label that nodes get"),
        format!("did you mean `{meant}`?"),
    );
    Some(if refused { hit.with(Severity::Error) } else { hit })
}

/// The well-known key that a misspelt one was to be.
pub fn meant(key: &str) -> Option<&'static str> {
    let known = || {
        let core = WELL_KNOWN_LABELS.iter().chain([&HOSTNAME_LABEL]);
        core.chain(&KWOK_WELL_KNOWN_LABELS).chain(&AWS_WELL_KNOWN_LABELS).copied()
    };
    let (domain, name) = key.split_once('/')?;
    let is_known = known().any(|known| known == stable_key(key))
        || [names::KWOK_NODE_CLASS_LABEL, names::AWS_NODE_CLASS_LABEL].contains(&key);
    if is_known {
        return None;
    }
    let restricted = names::restriction(key, &BTreeSet::new()).is_some();
    known()
        .filter_map(|candidate| {
            let candidate_name = candidate.split_once('/').map_or(candidate, |(_, name)| name);
            let (of_name, of_domain) =
                (distance(name, candidate_name), distance(domain, domain_of(candidate)));
            let misspelt_name = of_domain == 0 && of_name <= TYPOS_MAX.min(candidate_name.len() / 3);
            // `karpenter.sh/instance-family`: the right name in the wrong one of the restricted domains.
            let misplaced = of_name == 0 && (of_domain <= TYPOS_MAX || restricted);
            (misspelt_name || misplaced).then_some((of_name + of_domain, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn typos_and_nothing_else() {
        for (key, expected) in [
            ("karpenter.sh/capacity-typ", Some("karpenter.sh/capacity-type")),
            ("topology.kubernetes.io/zonee", Some("topology.kubernetes.io/zone")),
            ("topology.kubernets.io/zone", Some("topology.kubernetes.io/zone")),
            ("kubernetes.io/ach", Some("kubernetes.io/arch")),
            ("karpenter.sh/instance-family", Some("karpenter.kwok.sh/instance-family")),
            ("karpenter.k8s.aws/instance-famly", Some("karpenter.k8s.aws/instance-family")),
            ("kubernetes.io/role", None),
            ("topology.kubernetes.io/rack", None),
            ("node.kubernetes.io/pool", None),
            ("example.com/zone", None),
            ("team", None),
            ("beta.kubernetes.io/arch", None),
            ("kubernetes.io/arch", None),
            ("karpenter.k8s.aws/ec2nodeclass", None),
        ] {
            assert_eq!(meant(key), expected, "{key}");
        }
    }
}
