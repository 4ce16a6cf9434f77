//! Overlays that change nothing, or each other.

use crate::commands::lint::finding::Hit;
use crate::commands::lint::shelf::{Offers, Shelf, is_empty};
use crate::commands::lint::subject::{OverlayView, PoolView, Subject};

/// Overlays that apply to no offering.
pub fn match_nothing(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for overlay in &subject.overlays {
        if !is_empty(&reached(subject, overlay)) {
            continue;
        }
        let shelf = &subject.shelf;
        let alone =
            overlay.clauses.iter().find(|clause| is_empty(&shelf.leaves(clause.key, &clause.requirement)));
        let (path, message, remedy) = match alone {
            Some(clause) => {
                let known = shelf.values(clause.key, None);
                let near = clause
                    .values
                    .iter()
                    .find_map(|v| joiner_core::explain::nearest(v, known.iter().copied()));
                let remedy = near
                    .map_or_else(|| "check the values".to_owned(), |near| format!("did you mean `{near}`?"));
                (clause.path.clone(), format!("no instance type has `{}`", clause.text()), remedy)
            }
            None => {
                let message = "no instance type of any pool meets all requirements of the overlay".to_owned();
                ("spec.requirements".to_owned(), message, "loosen the requirements".to_owned())
            }
        };
        hits.push(Hit::new(overlay.object, path, format!("{message}: the overlay changes nothing"), remedy));
    }
    hits
}

/// Offerings an overlay applies to, over all pools or, without pools, over the catalogue.
fn reached(subject: &Subject, overlay: &OverlayView) -> Offers {
    let shelf = &subject.shelf;
    if subject.pools.is_empty() {
        return narrowed(shelf.all(), overlay, None, shelf);
    }
    let mut reached = vec![false; shelf.type_of.len()];
    for pool in &subject.pools {
        for (all, of_pool) in
            reached.iter_mut().zip(narrowed(pool.offers.clone(), overlay, Some(pool), shelf))
        {
            *all |= of_pool;
        }
    }
    reached
}

fn narrowed(mut offers: Offers, overlay: &OverlayView, pool: Option<&PoolView>, shelf: &Shelf) -> Offers {
    for clause in &overlay.clauses {
        let met = match pool.map(|pool| pool.template.get(&clause.key)) {
            Some(Some(said)) => said.intersect(&clause.requirement, &shelf.names, clause.key),
            // A label of one's own that the pool does not define is missing on its machines.
            Some(None) if !shelf.is_well_known(clause.key) && !clause.requirement.may_be_absent => {
                joiner_core::model::Requirement::nothing()
            }
            _ => clause.requirement.clone(),
        };
        if met.is_empty() {
            offers.fill(false);
        }
        shelf.narrow(&mut offers, clause.key, &met);
    }
    offers
}

/// Overlays of equal weight that meet.
pub fn conflicts(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    let reached: Vec<Offers> = subject.overlays.iter().map(|overlay| reached(subject, overlay)).collect();
    for (at, later) in subject.overlays.iter().enumerate() {
        for (before, earlier) in subject.overlays.iter().enumerate().take(at) {
            let (a, b) = (&earlier.overlay.spec, &later.overlay.spec);
            if a.weight.unwrap_or(0) != b.weight.unwrap_or(0) || earlier.name == later.name {
                continue;
            }
            let same_price = (a.price.is_some() || a.price_adjustment.is_some())
                && (b.price.is_some() || b.price_adjustment.is_some());
            let same_resource = a
                .capacity
                .iter()
                .flatten()
                .map(|(name, _)| name)
                .find(|name| b.capacity.as_ref().is_some_and(|capacity| capacity.contains_key(*name)));
            let thing = match (same_price, same_resource) {
                (true, _) => "the price".to_owned(),
                (false, Some(resource)) => format!("`{resource}`"),
                (false, None) => continue,
            };
            let types = |offers: &Offers| -> Vec<bool> {
                let mut types = vec![false; subject.shelf.types.len()];
                for (of, left) in subject.shelf.type_of.iter().zip(offers) {
                    types[*of] |= *left;
                }
                types
            };
            // Prices belong to offerings, capacity to whole types.
            let meet = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && *b);
            let met = match same_price {
                true => meet(&reached[before], &reached[at]),
                false => meet(&types(&reached[before]), &types(&reached[at])),
            };
            if met {
                hits.push(Hit::new(
                    later.object,
                    if b.weight.is_some() { "spec.weight" } else { "spec" },
                    format!("changes {thing} of instance types that NodeOverlay `{}` of the same weight changes too", earlier.name),
                    "give one of them another `weight`, or requirements that do not meet",
                ));
            }
        }
    }
    hits
}

/// Overlays that set nothing.
pub fn without_effect(subject: &Subject) -> Vec<Hit> {
    let idle = subject.overlays.iter().filter(|overlay| {
        let spec = &overlay.overlay.spec;
        spec.price.is_none()
            && spec.price_adjustment.is_none()
            && spec.capacity.iter().flatten().next().is_none()
    });
    idle.map(|overlay| {
        let message = "sets neither `price` nor `priceAdjustment` nor `capacity`";
        Hit::new(overlay.object, "spec", message, "set one of them, or remove the overlay")
    })
    .collect()
}
