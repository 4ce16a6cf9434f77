//! NodeOverlays: prices and capacities that planning assumes instead of the provider's.
//!
//! Overlays are looked at in order (weight descending, then name descending), each for all pools at once. The first that sets the price of an
//! offering, or the amount of a resource on a type, has it; one that meets an equally heavy one there is left out as a whole, because
//! nothing says which of the two is meant. What an overlay does not name stays as the provider gave it.

use std::collections::BTreeMap;

use joiner_api::NodeOverlay;
use joiner_api::instance_type::{InstanceType, PriceSource};
use joiner_api::quantity::Quantity;

use crate::cluster::{Cluster, cluster_name};
use crate::lower::Lowering;
use crate::problem::Problem;
use crate::selector::{PoolFacts, Selector, TypeFacts};

/// What is kept of a NodeOverlay.
#[derive(Debug)]
pub(crate) struct OverlayInput {
    object: NodeOverlay,
    weight: i32,
    price: Option<Change>,
    capacity: Vec<(String, Quantity)>,
}

/// What becomes of a price.
#[derive(Debug, Clone, Copy)]
enum Change {
    To(f64),
    By(f64),
    Percent(f64),
}

impl Change {
    fn of(self, price: f64) -> f64 {
        let changed = match self {
            Self::To(price) => price,
            Self::By(more) => price + more,
            Self::Percent(share) => price * (1.0 + share / 100.0),
        };
        changed.max(0.0)
    }
}

impl Cluster {
    /// Takes an overlay in, after validating it.
    pub fn add_node_overlay(&mut self, overlay: &NodeOverlay) -> Result<(), Problem> {
        let name = cluster_name("NodeOverlay", &overlay.metadata)?;
        let found = joiner_api::validation::validate_nodeoverlay_with(overlay, &self.well_known);
        Problem::first_of(found, &format!("NodeOverlay {name}"))?;
        let spec = &overlay.spec;
        // Validation has seen these texts; what it lets through is a number.
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        let adjusted = spec.price_adjustment.as_deref().map(|text| match text.strip_suffix('%') {
            Some(share) => Change::Percent(number(share)),
            None => Change::By(number(text)),
        });
        let capacity = spec.capacity.iter().flatten();
        let capacity =
            capacity.filter_map(|(name, text)| Some((name.clone(), Quantity::parse(&text.0).ok()?)));
        let input = OverlayInput {
            weight: spec.weight.unwrap_or(0),
            price: spec.price.as_deref().map(|text| Change::To(number(text))).or(adjusted),
            capacity: capacity.collect(),
            object: overlay.clone(),
        };
        match self.overlays.insert(name.clone(), input) {
            None => self.changes.frame = true,
            Some(before) => {
                self.changes.frame |= before.object.spec != overlay.spec;
                self.note_duplicate("NodeOverlay", &name);
            }
        }
        Ok(())
    }

    /// An overlay is gone.
    pub fn remove_node_overlay(&mut self, name: &str) {
        self.changes.frame |= self.overlays.remove(name).is_some();
    }
}

/// Who has a slot, and the lightest overlay accepted for it so far.
#[derive(Debug, Clone, Copy)]
struct Holder {
    first: usize,
    last: usize,
}

/// What accepted overlays change, by pool and type.
#[derive(Debug, Default)]
pub(crate) struct Overlaid {
    prices: BTreeMap<(usize, usize, usize), Holder>,
    capacities: BTreeMap<(usize, usize, String), Holder>,
}

/// A pool with what it launches from.
pub(crate) struct PoolTypes<'a> {
    pub name: &'a str,
    pub facts: PoolFacts,
    pub types: &'a [InstanceType],
    pub type_facts: &'a [TypeFacts],
}

impl Lowering<'_> {
    /// Finds which overlay has the last word on what.
    pub(crate) fn resolve_overlays(&mut self, pools: &[PoolTypes]) -> Overlaid {
        let mut order: Vec<(&String, &OverlayInput)> = self.cluster.overlays.iter().collect();
        order.sort_by(|(a_name, a), (b_name, b)| (b.weight, b_name).cmp(&(a.weight, a_name)));
        let mut done = Overlaid::default();
        for (at, (name, overlay)) in order.iter().enumerate() {
            let selector =
                Selector::new(&mut self.frame.snapshot.vocabulary, &overlay.object.spec.requirements);
            let names = &self.frame.snapshot.vocabulary.names;
            let mut picked: Vec<(usize, usize, Vec<usize>)> = Vec::new();
            for (pool_at, pool) in pools.iter().enumerate() {
                for (type_at, (of, facts)) in pool.types.iter().zip(pool.type_facts).enumerate() {
                    let hits =
                        (0..of.offerings.len()).filter(|o| selector.picks(names, &pool.facts, facts, *o));
                    let hits: Vec<usize> = hits.collect();
                    if !hits.is_empty() {
                        picked.push((pool_at, type_at, hits));
                    }
                }
            }
            if picked.is_empty() {
                self.frame.notes.push(format!("NodeOverlay `{name}` picks no offering of any pool"));
                continue;
            }
            if let Some((other, slot)) = done.conflict(pools, &picked, overlay, |other| order[other].1.weight)
            {
                self.frame.notes.push(format!(
                    "NodeOverlay `{name}` is left out (Conflict): `{}` has the same weight {} and sets {slot} too; give one of them another weight",
                    order[other].0, overlay.weight
                ));
                continue;
            }
            for (pool, of, offerings) in picked {
                if overlay.price.is_some() {
                    for offering in offerings {
                        take(&mut done.prices, (pool, of, offering), at);
                    }
                }
                for (resource, _) in &overlay.capacity {
                    take(&mut done.capacities, (pool, of, resource.clone()), at);
                }
            }
        }
        done
    }

    /// Puts what overlays set into the types of one pool; true if anything changed.
    pub(crate) fn apply_overlays(&self, done: &Overlaid, pool: usize, types: &mut [InstanceType]) -> bool {
        let mut order: Vec<(&String, &OverlayInput)> = self.cluster.overlays.iter().collect();
        order.sort_by(|(a_name, a), (b_name, b)| (b.weight, b_name).cmp(&(a.weight, a_name)));
        let mut changed = false;
        for ((_, of, offering), holder) in done.prices.range((pool, 0, 0)..(pool + 1, 0, 0)) {
            if let Some(change) = order[holder.first].1.price {
                let offering = &mut types[*of].offerings[*offering];
                offering.price = change.of(offering.price);
                if matches!(change, Change::To(_)) {
                    offering.price_source = PriceSource::Stated;
                }
                changed = true;
            }
        }
        let range = (pool, 0, String::new())..(pool + 1, 0, String::new());
        for ((_, of, resource), holder) in done.capacities.range(range) {
            let amounts = &order[holder.first].1.capacity;
            if let Some((_, amount)) = amounts.iter().find(|(name, _)| name == resource) {
                types[*of].capacity.insert(resource.clone(), *amount);
                changed = true;
            }
        }
        changed
    }
}

impl Overlaid {
    /// An accepted overlay of the same weight on the same thing, and what that thing is.
    fn conflict(
        &self,
        pools: &[PoolTypes],
        picked: &[(usize, usize, Vec<usize>)],
        overlay: &OverlayInput,
        weight: impl Fn(usize) -> i32,
    ) -> Option<(usize, String)> {
        let same =
            |holder: Option<&Holder>| holder.map(|h| h.last).filter(|at| weight(*at) == overlay.weight);
        let all = picked.iter().flat_map(|(pool, of, offerings)| {
            let (of_pool, of_type) = (pools[*pool].name, &pools[*pool].types[*of]);
            let prices = offerings.iter().filter(|_| overlay.price.is_some());
            let price = prices.filter_map(|offering| {
                let other = same(self.prices.get(&(*pool, *of, *offering)))?;
                let terms = &of_type.offerings[*offering];
                let text = |value: Option<&str>| value.unwrap_or("-").to_owned();
                let (zone, kind) = (text(terms.zone()), text(terms.capacity_type()));
                Some((other, format!("the price of `{}` ({zone}, {kind}) in pool `{of_pool}`", of_type.name)))
            });
            let capacity = overlay.capacity.iter().filter_map(|(resource, _)| {
                let other = same(self.capacities.get(&(*pool, *of, resource.clone())))?;
                Some((other, format!("`{resource}` of `{}` in pool `{of_pool}`", of_type.name)))
            });
            price.chain(capacity).collect::<Vec<_>>()
        });
        // The first by name: the order in which types were given must not show.
        all.min_by(|(_, a), (_, b)| a.cmp(b))
    }
}

fn take<K: Ord>(slots: &mut BTreeMap<K, Holder>, slot: K, at: usize) {
    slots.entry(slot).and_modify(|holder| holder.last = at).or_insert(Holder { first: at, last: at });
}
