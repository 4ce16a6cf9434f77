//! Limits that let nothing through, or that count nothing.

use joiner_api::instance_type::InstanceType;
use joiner_api::names::NODES_RESOURCE;
use joiner_api::quantity::Quantity;
use joiner_core::explain::nearest;

use crate::commands::lint::finding::{Hit, Severity};
use crate::commands::lint::shelf::is_empty;
use crate::commands::lint::subject::{PoolView, Subject};

fn limits<'p>(pool: &'p PoolView) -> impl Iterator<Item = (&'p str, Quantity)> {
    let limits = pool.pool.spec.limits.iter().flatten();
    limits.filter_map(|(name, text)| Some((name.as_str(), Quantity::parse(&text.0).ok()?)))
}

fn has(instance_type: &InstanceType, resource: &str) -> Quantity {
    instance_type.capacity.get(resource).copied().unwrap_or(Quantity::ZERO)
}

fn path(resource: &str) -> String {
    format!("spec.limits[{resource}]")
}

/// Limits under which not even the smallest type fits.
pub fn too_small(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in subject.pools.iter().filter(|pool| !is_empty(&pool.judged)) {
        let types = subject.shelf.types_in(&pool.judged);
        let before = hits.len();
        for (resource, limit) in limits(pool) {
            hits.extend(too_small_alone(pool, resource, limit, &types));
        }
        let fits = |of: &&InstanceType| {
            limits(pool).all(|(resource, limit)| resource == NODES_RESOURCE || has(of, resource) <= limit)
        };
        if hits.len() == before && !types.iter().any(fits) {
            hits.push(Hit::new(
                pool.object,
                "spec.limits",
                format!(
                    "each limit has room for some of the pool's {} instance types, all together for none",
                    types.len()
                ),
                "raise the limits until one type fits under all of them",
            ));
        }
    }
    hits
}

fn too_small_alone(pool: &PoolView, resource: &str, limit: Quantity, types: &[&InstanceType]) -> Option<Hit> {
    let off = limit.signum() <= 0;
    if resource == NODES_RESOURCE {
        return (limit < Quantity::from_value(1)).then(|| {
            Hit::new(
                pool.object,
                path(resource),
                format!("a limit of {limit} nodes: the pool launches nothing"),
                "raise it, or take the pool away if it is switched off for good",
            )
            .with(if off { Severity::Warning } else { Severity::Error })
        });
    }
    let smallest = types.iter().min_by_key(|of| (has(of, resource), &of.name))?;
    let needs = has(smallest, resource);
    if needs <= limit {
        return None;
    }
    let hit = if off {
        Hit::new(
            pool.object,
            path(resource),
            format!("a limit of {limit} {resource}: the pool launches nothing"),
            "raise it, or take the pool away if it is switched off for good",
        )
        .with(Severity::Warning)
    } else {
        Hit::new(
            pool.object,
            path(resource),
            format!(
                "the limit of {limit} {resource} is below the smallest instance type of the pool: `{}` has {needs}",
                smallest.name
            ),
            format!("raise it to {needs} or more, or let the pool use smaller types"),
        )
    };
    Some(hit)
}

/// Limits on resources that no type of the pool has.
pub fn without_effect(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in subject.pools.iter().filter(|pool| !is_empty(&pool.judged)) {
        let types = subject.shelf.types_in(&pool.judged);
        for (resource, _) in limits(pool) {
            let overlaid = subject.overlays.iter().any(|overlay| {
                overlay.overlay.spec.capacity.iter().flatten().any(|(name, _)| name == resource)
            });
            let counted = types.iter().any(|of| has(of, resource).signum() > 0);
            if resource == NODES_RESOURCE || overlaid || counted {
                continue;
            }
            let known = subject.shelf.types.iter().flat_map(|of| of.capacity.keys().map(String::as_str));
            let exists = known.clone().any(|name| name == resource);
            let near = nearest(resource, known.chain([NODES_RESOURCE])).filter(|_| !exists);
            let remedy = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "remove it, or check the name of the resource".to_owned(),
            };
            let hit = Hit::new(
                pool.object,
                path(resource),
                format!("no instance type of the pool has `{resource}`, so the limit counts nothing"),
                remedy,
            );
            let mild = subject.shelf.is_incomplete && !exists && near.is_none();
            hits.push(if mild { hit.with(Severity::Note) } else { hit });
        }
    }
    hits
}

/// Static pools whose limit keeps them short.
pub fn replicas(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        let Some(replicas) = pool.pool.spec.replicas else { continue };
        for (resource, limit) in limits(pool) {
            if resource == NODES_RESOURCE && limit < Quantity::from_value(replicas) {
                hits.push(Hit::new(
                    pool.object,
                    "spec.replicas",
                    format!(
                        "{replicas} replicas, but `limits.nodes` is {limit}: the pool stays short of them"
                    ),
                    "raise `limits.nodes` or lower `replicas`",
                ));
            }
        }
    }
    hits
}
