//! `minValues` that can't be reached.

use crate::commands::lint::finding::Hit;
use crate::commands::lint::shelf::is_empty;
use crate::commands::lint::subject::Subject;

/// `minValues` above the number of values the pool's types have.
pub fn unreachable(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in subject.pools.iter().filter(|pool| !is_empty(&pool.judged)) {
        for (clause, written) in pool.clauses.iter().zip(&pool.pool.spec.template.spec.requirements) {
            let Some(wanted) = written.min_values else { continue };
            // A provider's label of which the catalogue does not speak can't be counted; another one that no type has is never met.
            if !subject.shelf.speaks_of(clause.key, &pool.catalogue)
                && subject.shelf.is_well_known(clause.key)
            {
                continue;
            }
            let Some(allowed) = pool.template.get(&clause.key) else { continue };
            // Told as the pool's fault.
            if is_empty(&pool.offers) && is_empty(&pool.leaves(clause.key, allowed, &subject.shelf)) {
                continue;
            }
            let there = subject.shelf.count_values(clause.key, allowed, &pool.judged);
            if i64::try_from(there).unwrap_or(i64::MAX) < wanted {
                hits.push(Hit::new(
                    pool.object,
                    format!("{}.minValues", clause.path),
                    format!(
                        "asks for {wanted} values of `{}`, but the instance types of the pool have {there}",
                        clause.written_key
                    ),
                    format!("lower it to {there}, or widen the requirements"),
                ));
            }
        }
    }
    hits
}
