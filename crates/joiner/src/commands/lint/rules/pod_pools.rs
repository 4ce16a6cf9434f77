//! Pods that no pool takes.

use joiner_api::names::PROVISIONER_NAME_LABEL;
use joiner_core::explain::{nearest, nearest_key};

use super::label_keys::meant;
use crate::commands::lint::finding::Hit;
use crate::commands::lint::pods::{ClauseAt, Obstacle, PodView, obstacles};
use crate::commands::lint::shelf::Clause;
use crate::commands::lint::subject::Subject;

/// Pools named in one finding.
const POOLS_SHOWN: usize = 3;

/// Pods kept out by taints alone.
pub fn tolerates_none(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in &subject.pods {
        let Some(found) = obstacles(subject, pod) else { continue };
        let taints: Vec<String> = found
            .iter()
            .filter_map(|(pool, obstacle)| match obstacle {
                Obstacle::Taint(taint) => Some(format!("nodepool/{pool}: `{taint}`")),
                _ => None,
            })
            .collect();
        if taints.len() == found.len() {
            let path = match pod.spec.tolerations {
                Some(_) => format!("{}.tolerations", pod.path),
                None => pod.path.to_owned(),
            };
            let message =
                format!("every pool has a taint it does not tolerate ({}){}", shown(&taints), pod.and_more());
            hits.push(Hit::new(pod.object, path, message, "add a toleration, or a pool without taints"));
        }
    }
    hits
}

/// Pods whose selector or affinity is in the way somewhere.
pub fn selects_none(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in &subject.pods {
        let Some(found) = obstacles(subject, pod) else { continue };
        let Some(at) = decisive(&found) else { continue };
        let Some(clause) = pod.clause(at) else { continue };
        // Told as a typo in the key, or as an old name.
        if meant(&clause.written_key).is_some() || clause.written_key == PROVISIONER_NAME_LABEL {
            continue;
        }
        let everywhere = found.iter().all(|(_, obstacle)| *obstacle == Obstacle::Undefined(at));
        let message = if everywhere {
            format!(
                "asks for `{}`, but no pool puts the label `{}` on its nodes",
                clause.text(),
                clause.written_key
            )
        } else {
            let reasons: Vec<String> = found
                .iter()
                .map(|(pool, obstacle)| format!("nodepool/{pool}: {}", reason(obstacle, pod)))
                .collect();
            format!("no pool can make a node for it: {}", shown(&reasons))
        };
        hits.push(Hit::new(
            pod.object,
            clause.path.as_str(),
            format!("{message}{}", pod.and_more()),
            remedy(subject, clause, everywhere),
        ));
    }
    hits
}

/// The clause most pools stumble over; the first of equals.
fn decisive(found: &[(&str, Obstacle)]) -> Option<ClauseAt> {
    let clauses: Vec<ClauseAt> = found
        .iter()
        .filter_map(|(_, obstacle)| match obstacle {
            Obstacle::Taint(_) => None,
            Obstacle::Undefined(at) | Obstacle::Contradiction(at, _) | Obstacle::NoType(at) => Some(*at),
        })
        .collect();
    let count = |at: &ClauseAt| clauses.iter().filter(|other| *other == at).count();
    clauses.iter().rev().max_by_key(|at| count(at)).copied()
}

fn reason(obstacle: &Obstacle, pod: &PodView) -> String {
    let asked = |at: &ClauseAt| pod.clause(*at).map(Clause::text).unwrap_or_default();
    match obstacle {
        Obstacle::Taint(taint) => format!("does not tolerate `{taint}`"),
        Obstacle::Undefined(at) => format!("does not define the label of `{}`", asked(at)),
        Obstacle::Contradiction(at, said) => format!("has `{said}`, not `{}`", asked(at)),
        Obstacle::NoType(at) => format!("has no instance type with `{}`", asked(at)),
    }
}

fn remedy(subject: &Subject, clause: &Clause, everywhere: bool) -> String {
    let shelf = &subject.shelf;
    let own_keys =
        subject.pools.iter().flat_map(|pool| pool.all_clauses()).map(|clause| clause.written_key.as_str());
    if everywhere {
        return match nearest_key(&clause.written_key, own_keys) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add the label to a pool's template, or take it off the pod".to_owned(),
        };
    }
    let on_key =
        subject.pools.iter().flat_map(|pool| pool.all_clauses()).filter(|other| other.key == clause.key);
    let mut known: Vec<&str> = on_key.flat_map(|other| &other.values).map(String::as_str).collect();
    if shelf.names.key_text(clause.key) == joiner_api::names::NODEPOOL_LABEL {
        known.extend(subject.pools.iter().map(|pool| pool.name));
    } else {
        known.extend(subject.pools.iter().flat_map(|pool| shelf.values(clause.key, Some(&pool.offers))));
    }
    let unknown = clause.values.iter().filter(|value| !known.contains(&value.as_str()));
    match unknown.into_iter().find_map(|value| nearest(value, known.iter().copied())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "change what the pod asks for, or let a pool offer it".to_owned(),
    }
}

fn shown(list: &[String]) -> String {
    match list.len().saturating_sub(POOLS_SHOWN) {
        0 => list.join("; "),
        more => format!("{}; and {more} more", list[..POOLS_SHOWN].join("; ")),
    }
}
