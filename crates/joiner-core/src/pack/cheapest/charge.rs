//! What a node costs beyond its price, unless the user says.
//!
//! Two machines of half the size cost as much as one at most clouds, and hold as much. But every node also has agents
//! to run, an address, a licence, and somebody to look after it. Without a charge packings would scatter pods over as many
//! small machines as save a cent.

use crate::decide::Options;
use crate::model::Snapshot;
use crate::model::names::CPU;
use crate::model::resources::lane_of;

/// How much of a CPU's price a node is charged with.
const CPUS: f64 = 0.4;

/// The charge that holds for a decision, in nano-dollars per hour.
pub(crate) fn charge_of(snapshot: &Snapshot, options: &Options) -> f64 {
    options.node_charge_nano_usd.map_or_else(|| by_catalogue(snapshot), |charge| charge as f64)
}

/// The charge in nano-dollars per hour: what 0.4 CPUs cost where a CPU costs least. It follows the catalogue, so a plan stays the
/// same in every currency.
pub(super) fn by_catalogue(snapshot: &Snapshot) -> f64 {
    let offerings = snapshot.catalogues.iter().flat_map(|catalogue| {
        let priced =
            catalogue.offerings.iter().filter(|offering| offering.available && offering.price_nano_usd > 0);
        priced.map(|offering| {
            let millis = lane_of(&catalogue.types[offering.instance_type.at()].capacity, CPU);
            offering.price_nano_usd as f64 / (millis.max(1000) as f64 / 1000.0)
        })
    });
    let least = offerings.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least * CPUS } else { 0.0 }
}
