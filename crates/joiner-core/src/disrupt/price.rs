//! What a replacement costs at worst: a machine is launched as whatever can be had of its list, so every entry has to be cheaper than what it replaces.

/// How capacity is sold, in the order in which launches prefer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacityType {
    /// Drawn from a reservation.
    Reserved,
    /// Can be called back.
    Spot,
    /// Everything else.
    OnDemand,
}

/// An offering of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// How it is sold.
    pub capacity_type: CapacityType,
    /// Nano-dollars per hour.
    pub price_nano_usd: i64,
}

/// The most that a launch can cost: the dearest of the capacity type that would be launched. Choices are those that are available and match
/// the machine's requirements; without any there is no price.
pub fn worst_launch_price(choices: impl IntoIterator<Item = Choice>) -> Option<i64> {
    let mut worst: Option<(CapacityType, i64)> = None;
    for Choice { capacity_type, price_nano_usd } in choices {
        worst = match worst {
            Some((preferred, _)) if capacity_type > preferred => worst,
            Some((preferred, price)) if capacity_type == preferred => {
                Some((preferred, price.max(price_nano_usd)))
            }
            _ => Some((capacity_type, price_nano_usd)),
        };
    }
    worst.map(|(_, price)| price)
}

/// Of types with their worst prices those that are cheaper than a bound, in the same order.
pub fn cheaper_than<T: Copy>(types: &[(T, Option<i64>)], bound_nano_usd: i64) -> Vec<T> {
    types
        .iter()
        .filter(|(_, worst)| worst.is_some_and(|worst| worst < bound_nano_usd))
        .map(|(of, _)| *of)
        .collect()
}
