//! Catalogues: instance types and offerings, sorted so that the cheapest of a set is its first.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_api::instance_type::{InstanceType, PriceSource, ResourceList, TypeRequirement};
use joiner_api::names::{CAPACITY_TYPE_LABEL, ZONE_LABEL};
use joiner_core::model::{
    self, Catalogue, CatalogueIdx, OfferingIdx, Operator, Requirement, Reservation, ReservationIdx, TypeIdx,
};

use crate::cluster::Cluster;
use crate::costs::is_commitment;
use crate::digest::stable_key;
use crate::lower::{Lowering, TypeDetails};
use crate::nodes::min_into;
use crate::overlays::PoolTypes;
use crate::requests::in_lane_units;
use crate::selector::TypeFacts;

/// What a price that makes no sense counts as: more than any price that does.
pub(crate) const NO_PRICE: i64 = i64::MAX / 1024;

/// A price in whole nano-dollars.
pub(crate) fn nano_usd(price: f64) -> i64 {
    let nano = (price * 1e9).round();
    if nano.is_finite() && nano >= 0.0 && nano < NO_PRICE as f64 { nano as i64 } else { NO_PRICE }
}

/// A stable sort of large things that needs no second list of them: their numbers are sorted, then each goes where it belongs.
fn sort_in_place<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order: Vec<u32> = (0..items.len() as u32).collect();
    order.sort_by(|a, b| compare(&items[*a as usize], &items[*b as usize]));
    // Around each cycle once: what is displaced goes along until its own place comes.
    for start in 0..items.len() {
        let mut place = start;
        loop {
            let from = std::mem::replace(&mut order[place], place as u32) as usize;
            if from == start || from == place {
                break;
            }
            items.swap(place, from);
            place = from;
        }
    }
}

impl Cluster {
    /// The instance types of a pool as planning sees them, where overlays or costs change what its provider offers.
    pub fn changed_types_of(&mut self, pool: &str) -> Option<Arc<[InstanceType]>> {
        if self.overlays.is_empty() && self.cost_models.is_empty() {
            return None;
        }
        let given = self.catalogues.len();
        self.snapshot();
        let frame = self.held.as_ref()?.frame();
        let at = *frame.pool_index.get(pool)?;
        let catalogue = (*frame.pool_catalogues.get(at)?)?;
        frame.catalogue_types.get(catalogue.at()).filter(|_| catalogue.at() >= given).cloned()
    }
}

impl Lowering<'_> {
    /// Fills in one catalogue per given one, in that order, then those that overlays and costs make for single pools.
    pub(crate) fn lower_catalogues(&mut self) {
        let cluster = self.cluster;
        self.frame.catalogue_types = cluster.catalogues.iter().map(|c| c.types.clone()).collect();
        self.choose_catalogues();
        let all_types = std::mem::take(&mut self.frame.catalogue_types);
        let mut reservations: BTreeMap<&str, u32> = BTreeMap::new();
        for offering in all_types.iter().flat_map(|types| types.iter()).flat_map(|t| &t.offerings) {
            if let Some(reservation) = &offering.reservation {
                let left = reservations.entry(&reservation.id).or_insert(reservation.capacity);
                *left = (*left).min(reservation.capacity);
            }
        }
        self.frame.snapshot.reservations = reservations
            .iter()
            .map(|(id, capacity)| Reservation {
                id: (*id).into(),
                capacity: *capacity,
                commitment: is_commitment(id),
            })
            .collect();
        let ids: Vec<&str> = reservations.into_keys().collect();
        for (at, types) in all_types.iter().enumerate() {
            // Of a changed copy everything odd was said already.
            let notes = self.frame.notes.len();
            let (catalogue, details) = self.lower_catalogue(types, &ids);
            if at >= cluster.catalogues.len() {
                self.frame.notes.truncate(notes);
            }
            self.frame.snapshot.catalogues.push(Arc::new(catalogue));
            self.frame.type_details.push(details);
        }
        self.frame.catalogue_types = all_types;
    }

    /// Which catalogue each pool launches from: its class's, or one with prices and capacities of its own.
    fn choose_catalogues(&mut self) {
        let cluster = self.cluster;
        let order = self.frame.pool_order.clone();
        let given: Vec<Option<usize>> = order.iter().map(|name| self.catalogue_of_pool(name)).collect();
        self.frame.pool_catalogues = given.iter().map(|at| at.map(CatalogueIdx::new)).collect();
        if cluster.overlays.is_empty() && cluster.cost_models.is_empty() {
            return;
        }
        let vocabulary = &mut self.frame.snapshot.vocabulary;
        let facts: Vec<Vec<TypeFacts>> = cluster
            .catalogues
            .iter()
            .map(|input| input.types.iter().map(|of| TypeFacts::new(vocabulary, of)).collect())
            .collect();
        let mut pools = Vec::new();
        for (name, at) in order.iter().zip(&given) {
            let (types, type_facts) =
                at.map_or((&[][..], &[][..]), |at| (&cluster.catalogues[at].types[..], &facts[at][..]));
            pools.push(PoolTypes { name, facts: self.pool_facts(name), types, type_facts });
        }
        let overlaid = self.resolve_overlays(&pools);
        let costs = self.costs();
        for (at, pool) in pools.iter().enumerate() {
            let mut types = pool.types.to_vec();
            let overlay_changes = self.apply_overlays(&overlaid, at, &mut types);
            let cost_changes = self.apply_costs(&costs, pool, &mut types);
            if !overlay_changes && !cost_changes {
                continue;
            }
            // Pools that see the same share a catalogue.
            let made = &self.frame.catalogue_types[cluster.catalogues.len()..];
            let known = made.iter().position(|have| **have == *types);
            let index = known.map_or(self.frame.catalogue_types.len(), |at| cluster.catalogues.len() + at);
            if known.is_none() {
                self.frame.catalogue_types.push(types.into());
            }
            self.frame.pool_catalogues[at] = Some(CatalogueIdx::new(index));
        }
    }

    fn lower_catalogue(
        &mut self,
        types: &[InstanceType],
        reservations: &[&str],
    ) -> (Catalogue, Vec<TypeDetails>) {
        let mut sorted: Vec<&InstanceType> = types.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let before = sorted.len();
        sorted.dedup_by(|a, b| a.name == b.name);
        if sorted.len() < before {
            self.frame.notes.push(format!(
                "{} instance types were given more than once; the first counts",
                before - sorted.len()
            ));
        }
        sorted.retain(|t| {
            let usable = !t.capacity.is_empty();
            if !usable {
                self.frame.notes.push(format!("instance type `{}` has no capacity and is left out", t.name));
            }
            usable
        });
        let zone_key = self.frame.snapshot.vocabulary.names.key(ZONE_LABEL);
        let capacity_key = self.frame.snapshot.vocabulary.names.key(CAPACITY_TYPE_LABEL);
        // Thousands of offerings: a list that grows as it goes would for a moment take three times what it needs.
        let mut catalogue = Catalogue {
            types: Vec::with_capacity(sorted.len()),
            offerings: Vec::with_capacity(sorted.iter().map(|input| input.offerings.len()).sum()),
        };
        let mut details = Vec::with_capacity(sorted.len());
        for (at, input) in sorted.iter().enumerate() {
            let requirements = self.type_set(&input.requirements);
            catalogue.types.push(model::InstanceType {
                name: input.name.as_str().into(),
                requirements,
                capacity: self.quantities(&input.capacity),
                volume_limits: input.volume_limits.iter().map(|(d, n)| (d.as_str().into(), *n)).collect(),
            });
            let plain = self.quantities(&input.allocatable());
            let mut least = plain.clone();
            for offering in &input.offerings {
                let requirements = self.type_set(&offering.requirements);
                let allocatable = if offering.capacity_override.is_empty() {
                    plain.clone()
                } else {
                    let own = self.quantities(&input.allocatable_for(offering));
                    min_into(&mut least, &own);
                    own
                };
                let names = &mut self.frame.snapshot.vocabulary.names;
                catalogue.offerings.push(model::Offering {
                    instance_type: TypeIdx::new(at),
                    requirements,
                    price: offering.price,
                    price_nano_usd: nano_usd(offering.price),
                    price_source: match offering.price_source {
                        PriceSource::Stated => model::PriceSource::Stated,
                        PriceSource::List => model::PriceSource::List,
                        PriceSource::Estimate => model::PriceSource::Estimate,
                        PriceSource::File => model::PriceSource::File,
                    },
                    available: offering.available,
                    allocatable,
                    reservation: offering
                        .reservation
                        .as_ref()
                        .and_then(|r| reservations.binary_search(&r.id.as_str()).ok())
                        .map(ReservationIdx::new),
                    zone: offering.zone().map(|zone| names.value(zone_key, zone)),
                    capacity_type: offering.capacity_type().map(|value| names.value(capacity_key, value)),
                });
            }
            details.push(TypeDetails { offerings: Vec::new(), least });
        }
        let names = &self.frame.snapshot.vocabulary.names;
        sort_in_place(&mut catalogue.offerings, |a, b| {
            let texts = |o: &model::Offering| {
                (
                    o.zone.map(|zone| names.value_text(zone_key, zone)),
                    o.capacity_type.map(|value| names.value_text(capacity_key, value)),
                )
            };
            // Types are sorted by name, so their positions compare as their names do.
            (a.price_nano_usd, a.instance_type, texts(a)).cmp(&(b.price_nano_usd, b.instance_type, texts(b)))
        });
        for (at, offering) in catalogue.offerings.iter().enumerate() {
            details[offering.instance_type.at()].offerings.push(OfferingIdx::new(at));
        }
        (catalogue, details)
    }

    fn type_set(&mut self, requirements: &[TypeRequirement]) -> model::ReqId {
        let vocabulary = &mut self.frame.snapshot.vocabulary;
        let mut list = Vec::with_capacity(requirements.len());
        for requirement in requirements {
            let key = vocabulary.names.key(stable_key(&requirement.key));
            let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
            let made = match Operator::parse(requirement.operator.as_str()) {
                Some(operator) => Requirement::from_expression(&mut vocabulary.names, key, operator, &values),
                None => Requirement::nothing(),
            };
            list.push((key, made));
        }
        vocabulary.set(list)
    }

    /// A resource list in lanes; resources nobody asks for are left out.
    pub(crate) fn quantities(&self, list: &ResourceList) -> model::ResVec {
        let names = &self.frame.snapshot.vocabulary.names;
        let mut out = model::ResVec::from_elem(0, names.lane_count());
        for (name, quantity) in list {
            if let Some(lane) = names.known_lane(name) {
                out[lane] = in_lane_units(name, quantity);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorting_in_place_is_a_stable_sort(keys in proptest::collection::vec(0u8..6, 0..40)) {
            let mut items: Vec<(u8, usize)> = keys.into_iter().enumerate().map(|(at, key)| (key, at)).collect();
            let mut sorted = items.clone();
            sorted.sort_by_key(|(key, _)| *key);
            sort_in_place(&mut items, |a, b| a.0.cmp(&b.0));
            prop_assert_eq!(items, sorted);
        }
    }
}
