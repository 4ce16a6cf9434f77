//! The machine types of a region as a class gets them.

use std::sync::Arc;

use joiner_api::instance_type::{InstanceType, Offering, Reservation as Stock, TypeRequirement};
use joiner_api::names::{
    AWS_WELL_KNOWN_LABELS, AWS_ZONE_ID_LABEL, CAPACITY_TYPE_LABEL, ON_DEMAND, REGION_LABEL, RESERVED, SPOT,
    WINDOWS_BUILD_LABEL, ZONE_LABEL,
};

use crate::class::{Class, Reservation, Zone};
use crate::family::Family;
use crate::prices::{Priced, Prices};
use crate::requirements::{
    RESERVATION_ID_LABEL, RESERVATION_INTERRUPTIBLE_LABEL, RESERVATION_TYPE_LABEL, requirements,
};
use crate::resources::{Settings, capacity, overhead};
use crate::world::{Machine, Region, world};

/// A reserved machine is paid for already; the small price keeps their order.
const RESERVED_SHARE: f64 = 1e-7;

/// All types that a region offers, as machines of a class.
pub fn types(region: &Region, class: &Class, settings: Settings, prices: &Prices) -> Vec<InstanceType> {
    let mut terms = Terms::new(class);
    let offered = world().machines().iter().filter_map(|machine| {
        let zones = zones(region, machine, class);
        (!zones.is_empty())
            .then(|| instance_type(machine, region, &zones, class, settings, prices, &mut terms))
    });
    offered.collect()
}

/// The keys that become well-known with types of AWS, sorted.
pub fn well_known_labels() -> Vec<String> {
    let mut keys: Vec<String> = AWS_WELL_KNOWN_LABELS.iter().map(|key| (*key).to_owned()).collect();
    keys.extend([REGION_LABEL, WINDOWS_BUILD_LABEL, ZONE_LABEL, CAPACITY_TYPE_LABEL].map(str::to_owned));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// One type in these zones.
pub fn instance_type(
    machine: &Machine,
    region: &Region,
    zones: &[Zone],
    class: &Class,
    settings: Settings,
    prices: &Prices,
    terms: &mut Terms,
) -> InstanceType {
    let fits_zone = |of: &&Reservation| zones.iter().any(|zone| zone.name == of.zone);
    let reservations: Vec<&Reservation> =
        class.reservations.iter().filter(|of| of.instance_type == machine.name).filter(fits_zone).collect();
    let capacity = capacity(machine, class, settings);
    let overhead = Arc::new(overhead(machine, class, settings, &capacity));
    let can_be_had = fits(machine, class);
    let windows = class.family.is_windows();
    let mut offerings = Vec::with_capacity(2 * zones.len() + reservations.len());
    for zone in zones {
        for spot in [true, false] {
            if spot && !machine.spot {
                continue;
            }
            let priced = prices.of(machine, region, &zone.name, spot, windows);
            offerings.push(offering(terms.of(zone, spot), priced, can_be_had));
        }
    }
    for reservation in &reservations {
        let Some(left) = reservation.left else { continue };
        let on_demand = prices.of(machine, region, &reservation.zone, false, windows);
        let zone = zones.iter().find(|zone| zone.name == reservation.zone);
        let said = reserved_terms(reservation, zone);
        let priced = on_demand.map(|of| Priced { price: of.price * RESERVED_SHARE, source: of.source });
        // Whoever has a reservation need not know what it costs.
        let price = priced.map_or(0.0, |of| of.price);
        offerings.push(Offering {
            available: can_be_had && left > 0,
            price,
            reservation: Some(Stock { id: reservation.id.clone(), capacity: left }),
            ..offering(said, priced, can_be_had)
        });
    }
    InstanceType {
        name: machine.name.clone(),
        requirements: requirements(machine, class, &region.name, zones, &reservations),
        offerings,
        capacity,
        overhead,
        volume_limits: Default::default(),
    }
}

/// Requirements of offerings, shared: there are two per zone.
#[derive(Debug)]
pub struct Terms {
    of_zones: Vec<(Zone, [Arc<[TypeRequirement]>; 2])>,
    /// Where some offerings draw on reservations, the others say that they do not.
    beside_reservations: bool,
}

impl Terms {
    /// Of the offerings of a class.
    pub fn new(class: &Class) -> Self {
        Self { of_zones: Vec::new(), beside_reservations: !class.reservations.is_empty() }
    }

    fn of(&mut self, zone: &Zone, spot: bool) -> Arc<[TypeRequirement]> {
        let at = match self.of_zones.iter().position(|(have, _)| have == zone) {
            Some(at) => at,
            None => {
                let both = [ON_DEMAND, SPOT].map(|of| terms(of, zone, self.beside_reservations).into());
                self.of_zones.push((zone.clone(), both));
                self.of_zones.len() - 1
            }
        };
        self.of_zones[at].1[usize::from(spot)].clone()
    }
}

fn terms(capacity_type: &str, zone: &Zone, beside_reservations: bool) -> Vec<TypeRequirement> {
    let mut list = vec![
        TypeRequirement::one_of(CAPACITY_TYPE_LABEL, [capacity_type]),
        TypeRequirement::one_of(ZONE_LABEL, [zone.name.as_str()]),
    ];
    list.extend(zone.id.iter().map(|id| TypeRequirement::one_of(AWS_ZONE_ID_LABEL, [id.as_str()])));
    if beside_reservations {
        let keys = [RESERVATION_ID_LABEL, RESERVATION_TYPE_LABEL, RESERVATION_INTERRUPTIBLE_LABEL];
        list.extend(keys.map(TypeRequirement::absent));
    }
    list
}

fn reserved_terms(of: &Reservation, zone: Option<&Zone>) -> Arc<[TypeRequirement]> {
    let mut list = vec![
        TypeRequirement::one_of(CAPACITY_TYPE_LABEL, [RESERVED]),
        TypeRequirement::one_of(ZONE_LABEL, [of.zone.as_str()]),
        TypeRequirement::one_of(RESERVATION_ID_LABEL, [of.id.as_str()]),
        TypeRequirement::one_of(RESERVATION_TYPE_LABEL, [of.kind.as_str()]),
        TypeRequirement::one_of(RESERVATION_INTERRUPTIBLE_LABEL, [of.interruptible.to_string()]),
    ];
    let id = zone.and_then(|zone| zone.id.as_deref());
    list.extend(id.map(|id| TypeRequirement::one_of(AWS_ZONE_ID_LABEL, [id])));
    list.into()
}

fn offering(requirements: Arc<[TypeRequirement]>, priced: Option<Priced>, can_be_had: bool) -> Offering {
    Offering {
        requirements,
        price: priced.map_or(f64::INFINITY, |of| of.price),
        // Without a price nobody can say what is cheap.
        available: can_be_had && priced.is_some(),
        reservation: None,
        capacity_override: Default::default(),
        price_source: priced.map(|of| of.source).unwrap_or_default(),
    }
}

/// Zones in which a class can have a type.
fn zones(region: &Region, machine: &Machine, class: &Class) -> Vec<Zone> {
    let offered = region.zones_of(machine);
    match &class.subnets {
        None => offered.map(|name| Zone { name: name.to_owned(), id: None }).collect(),
        Some(subnets) => {
            offered.filter_map(|name| subnets.iter().find(|zone| zone.name == name).cloned()).collect()
        }
    }
}

/// Whether machines of the type can be launched for the class at all.
fn fits(machine: &Machine, class: &Class) -> bool {
    let image_boots = match class.family {
        // Graviton of the first generation lacks what Amazon Linux 2023 needs.
        Family::Al2023 => machine.family() != "a1",
        family => family.os_on(machine.architecture).is_some(),
    };
    image_boots
        && (!class.nested_virtualization || machine.nested_virtualization)
        && (!class.tracks_connections || machine.hypervisor != "xen")
        && class.interfaces.as_ref().is_none_or(|_| interfaces_fit(machine, class))
}

/// Whether there are cards for all interfaces, with room, and EFA where it is wanted.
fn interfaces_fit(machine: &Machine, class: &Class) -> bool {
    let wanted = || class.interfaces.iter().flatten();
    let efa = wanted().filter(|of| of.efa_only).count();
    wanted().all(|of| {
        machine.cards.get(of.card as usize).is_some_and(|card| {
            let on_card = wanted().filter(|other| other.card == of.card).count();
            on_card <= card.interfaces as usize && of.device < card.interfaces && (!of.efa_only || card.efa)
        })
    }) && efa <= machine.efa_interfaces as usize
}
