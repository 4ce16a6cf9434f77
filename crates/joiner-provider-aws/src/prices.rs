//! What a machine costs, and how well that is known.
//!
//! In this order: prices somebody gave ([`crate::price_file`]); the region's own list; an estimate. An estimate of an on-demand price is
//! the list of us-east-1 times a factor of the region, one of spot a share of the on-demand price. Machines with Windows cost more by their licence, which is
//! estimated too.

use std::collections::BTreeMap;

use joiner_api::instance_type::PriceSource;
use joiner_api::names::{ON_DEMAND, SPOT};

use crate::price_file::PriceRow;
use crate::world::{Machine, Region, RegionPrices};

/// Spot machines are taken to cost this share of the on-demand price where nothing is known.
pub const SPOT_FACTOR: f64 = 0.7;
/// What the licence of Windows is taken to cost per vCPU and hour.
pub const WINDOWS_PER_VCPU: f64 = 0.046;
/// The list that estimates start from.
const BASE_LIST: usize = 0;

/// A price per hour, and where it is from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Priced {
    /// Dollars per hour.
    pub price: f64,
    /// Where it is from.
    pub source: PriceSource,
}

/// Prices that somebody gave, over those that are known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prices {
    /// By type and capacity type.
    given: BTreeMap<(String, String), Vec<PriceRow>>,
}

impl Prices {
    /// Prices from files.
    pub fn new(rows: impl IntoIterator<Item = PriceRow>) -> Self {
        let mut given: BTreeMap<(String, String), Vec<PriceRow>> = BTreeMap::new();
        for row in rows {
            given.entry((row.instance_type.clone(), row.capacity_type.clone())).or_default().push(row);
        }
        Self { given }
    }

    /// Types with a price that somebody gave.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.given.keys().map(|(of, _)| of.as_str())
    }

    /// The price of a type in a zone, if anything is known.
    pub fn of(
        &self,
        machine: &Machine,
        region: &Region,
        zone: &str,
        spot: bool,
        windows: bool,
    ) -> Option<Priced> {
        if let Some(price) = self.given(machine, region, zone, if spot { SPOT } else { ON_DEMAND }) {
            return Some(Priced { price, source: PriceSource::File });
        }
        if spot {
            let on_demand = self.of(machine, region, zone, false, windows)?;
            return Some(Priced { price: on_demand.price * SPOT_FACTOR, source: PriceSource::Estimate });
        }
        let (price, source) = match region.prices {
            RegionPrices::List(list) => (machine.list_price(list)?, PriceSource::List),
            RegionPrices::Times(factor) => (machine.list_price(BASE_LIST)? * factor, PriceSource::Estimate),
        };
        Some(match windows {
            false => Priced { price, source },
            true => Priced {
                price: price + WINDOWS_PER_VCPU * f64::from(machine.vcpus),
                source: PriceSource::Estimate,
            },
        })
    }

    /// The row that says most about where: its zone, else its region, else anywhere.
    fn given(&self, machine: &Machine, region: &Region, zone: &str, capacity_type: &str) -> Option<f64> {
        if self.given.is_empty() {
            return None;
        }
        let rows = self.given.get(&(machine.name.clone(), capacity_type.to_owned()))?;
        let fits = |row: &&PriceRow| {
            row.zone.as_deref().is_none_or(|of| of == zone)
                && row.region.as_deref().is_none_or(|of| of == region.name)
        };
        let best = rows.iter().filter(fits).max_by_key(|row| (row.zone.is_some(), row.region.is_some()))?;
        Some(best.price)
    }
}
