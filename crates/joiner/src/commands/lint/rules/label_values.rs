//! Values that no instance type has, and labels of which the catalogue does not speak.

use std::collections::BTreeSet;

use joiner_api::names::{
    ARCH_LABEL, AWS_WELL_KNOWN_LABELS, CAPACITY_TYPE_LABEL, CAPACITY_TYPES, KWOK_WELL_KNOWN_LABELS, OS_LABEL,
    ZONE_LABEL,
};
use joiner_core::explain::nearest;

use crate::commands::lint::finding::{Hit, Severity};
use crate::commands::lint::pods::obstacles;
use crate::commands::lint::shelf::{Clause, Offers, Shelf, is_empty};
use crate::commands::lint::subject::Subject;

/// Keys whose values every catalogue knows.
const CLOSED: [&str; 3] = [ARCH_LABEL, CAPACITY_TYPE_LABEL, OS_LABEL];
/// Keys of which even an excluded value should exist: nobody excludes by habit here.
const CHECKED_WHEN_EXCLUDED: [&str; 4] = [ARCH_LABEL, CAPACITY_TYPE_LABEL, OS_LABEL, ZONE_LABEL];

/// Values of well-known labels that no type has.
pub fn unknown(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    let shelf = &subject.shelf;
    for pool in &subject.pools {
        for clause in pool.all_clauses() {
            // A requirement that leaves nothing at all is told once, as the pool's fault.
            let fatal =
                is_empty(&pool.offers) && is_empty(&pool.leaves(clause.key, &clause.requirement, shelf));
            if !fatal {
                hits.extend(values(pool.object, clause, Some(&pool.catalogue), shelf));
            }
        }
    }
    for pod in &subject.pods {
        if obstacles(subject, pod).is_some() {
            continue;
        }
        let mut seen = BTreeSet::new();
        for clause in pod.asks.iter().flatten().filter(|clause| seen.insert(&clause.path)) {
            hits.extend(values(pod.object, clause, None, shelf));
        }
    }
    hits
}

/// Values that none of some offerings has.
fn values(object: usize, clause: &Clause, of: Option<&Offers>, shelf: &Shelf) -> Vec<Hit> {
    let key = shelf.names.key_text(clause.key);
    let mut known = shelf.values(clause.key, of);
    let excluded = clause.operator == "NotIn" && CHECKED_WHEN_EXCLUDED.contains(&key);
    if known.is_empty() || !(clause.lists_values() || excluded) {
        return Vec::new();
    }
    if key == CAPACITY_TYPE_LABEL {
        known.extend(CAPACITY_TYPES);
    }
    let is_label = is_map_entry(&clause.path);
    let mut hits = Vec::new();
    for (at, value) in clause.values.iter().enumerate() {
        if known.contains(&value.as_str()) {
            continue;
        }
        let near = nearest(value, known.iter().copied());
        let path = if is_label { clause.path.clone() } else { format!("{}.values[{at}]", clause.path) };
        let remedy = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if shelf.is_incomplete => {
                "check it, or give a list that has it with --instance-types".to_owned()
            }
            None => format!("known: {}", super::pool_types::listed(&known)),
        };
        let hit = Hit::new(object, path, format!("no instance type has `{key}` `{value}`"), remedy);
        let mild = near.is_none() && shelf.is_incomplete && !CLOSED.contains(&key);
        hits.push(if mild { hit.with(Severity::Note) } else { hit });
    }
    hits
}

/// Whether a path ends in the key of a map (`labels[a/b]`), not in the index of a list.
fn is_map_entry(path: &str) -> bool {
    path.rsplit_once('[')
        .is_some_and(|(_, last)| !last.trim_end_matches(']').bytes().all(|b| b.is_ascii_digit()))
}

/// Labels of a provider that the catalogue does not speak of.
pub fn not_judged(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        for clause in &pool.clauses {
            let key = subject.shelf.names.key_text(clause.key);
            let of_provider = KWOK_WELL_KNOWN_LABELS.contains(&key) || AWS_WELL_KNOWN_LABELS.contains(&key);
            if of_provider && !subject.shelf.speaks_of(clause.key, &pool.catalogue) {
                hits.push(Hit::new(
                    pool.object,
                    format!("{}.key", clause.path),
                    format!("the list of instance types says nothing about `{key}`, so it is taken as met by all of them"),
                    "give a list that has the label with --instance-types, or narrow by another label",
                ));
            }
        }
    }
    hits
}
