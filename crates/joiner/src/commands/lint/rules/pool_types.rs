//! Pools that can't launch anything: requirements that no instance type meets, or that exclude each other.

use std::collections::BTreeMap;

use joiner_core::explain::nearest;
use joiner_core::model::KeyId;

use crate::commands::lint::finding::{Hit, Severity};
use crate::commands::lint::shelf::{Clause, Offers, Shelf, and_into, is_empty};
use crate::commands::lint::subject::{PoolView, Subject};

/// Values shown of many.
const SHOWN: usize = 8;

/// Pools that match no instance type.
pub fn matches_none(subject: &Subject) -> Vec<Hit> {
    let shelf = &subject.shelf;
    let empty =
        subject.pools.iter().filter(|pool| is_empty(&pool.offers) && contradiction(pool, shelf).is_none());
    empty.filter_map(|pool| culprit(pool, shelf)).collect()
}

/// Pools whose requirements and labels exclude each other.
pub fn contradictions(subject: &Subject) -> Vec<Hit> {
    let found = subject.pools.iter().filter_map(|pool| Some((pool, contradiction(pool, &subject.shelf)?)));
    found
        .map(|(pool, (first, second))| {
            Hit::new(
                pool.object,
                second.path.as_str(),
                format!(
                    "`{}` and `{}` exclude each other: the pool launches nothing",
                    first.text(),
                    second.text()
                ),
                "keep one of them, or put alternatives into the values of one requirement",
            )
        })
        .collect()
}

/// The first clause after which a key allows nothing, with one that it excludes.
fn contradiction<'p>(pool: &'p PoolView, shelf: &Shelf) -> Option<(&'p Clause, &'p Clause)> {
    let mut said: BTreeMap<KeyId, (&Clause, joiner_core::model::Requirement)> = BTreeMap::new();
    for clause in pool.all_clauses() {
        match said.get_mut(&clause.key) {
            Some((first, have)) => {
                *have = have.intersect(&clause.requirement, &shelf.names, clause.key);
                if have.is_empty() {
                    return Some((first, clause));
                }
            }
            None => {
                said.insert(clause.key, (clause, clause.requirement.clone()));
            }
        }
    }
    None
}

/// The requirement to blame, or the two, or the one that takes the last type away.
fn culprit(pool: &PoolView, shelf: &Shelf) -> Option<Hit> {
    let clauses: Vec<(&Clause, Offers)> = pool
        .all_clauses()
        .map(|clause| (clause, pool.leaves(clause.key, &clause.requirement, shelf)))
        .collect();
    if let Some((clause, _)) = clauses.iter().find(|(_, left)| is_empty(left)) {
        return Some(alone(pool, clause, shelf));
    }
    for (at, (second, second_left)) in clauses.iter().enumerate() {
        for (first, first_left) in &clauses[..at] {
            let mut both = first_left.clone();
            and_into(&mut both, second_left);
            if is_empty(&both) {
                return Some(pair(pool, first, first_left, second, shelf));
            }
        }
    }
    let mut left = pool.catalogue.clone();
    for (clause, leaves) in &clauses {
        let before = shelf.types_in(&left).len();
        and_into(&mut left, leaves);
        if is_empty(&left) {
            return Some(Hit::new(
                pool.object,
                clause.path.as_str(),
                format!(
                    "`{}` leaves none of the {before} instance types that the requirements before it leave",
                    clause.text()
                ),
                "loosen one of the requirements",
            ));
        }
    }
    None
}

fn alone(pool: &PoolView, clause: &Clause, shelf: &Shelf) -> Hit {
    let known = shelf.values(clause.key, Some(&pool.catalogue));
    let near = clause
        .values
        .iter()
        .find_map(|value| nearest(value, known.iter().copied()))
        .filter(|_| clause.lists_values());
    let path = if clause.values.is_empty() || clause.path.contains("labels[") {
        clause.path.clone()
    } else {
        format!("{}.values", clause.path)
    };
    let message = format!("no instance type has `{}`: the pool launches nothing", clause.text());
    let hit = |remedy: String| Hit::new(pool.object, path.as_str(), message.clone(), remedy);
    match near {
        Some(near) => hit(format!("did you mean `{near}`?")),
        None if shelf.is_incomplete => {
            hit("check the value, or give a list that has such types with --instance-types".to_owned())
                .with(Severity::Warning)
        }
        None => hit(format!("known: {}", listed(&known))),
    }
}

fn pair(pool: &PoolView, first: &Clause, left: &Offers, second: &Clause, shelf: &Shelf) -> Hit {
    let has = listed(&shelf.values(second.key, Some(left)));
    Hit::new(
        pool.object,
        second.path.as_str(),
        format!(
            "`{}` and `{}` leave no instance type together: with the first, `{}` is {has}",
            first.text(),
            second.text(),
            second.written_key
        ),
        "loosen one of the two",
    )
}

/// A few values of many.
pub fn listed(values: &[&str]) -> String {
    if values.is_empty() {
        return "never set".to_owned();
    }
    let shown: Vec<String> = values.iter().take(SHOWN).map(|value| format!("`{value}`")).collect();
    match values.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
