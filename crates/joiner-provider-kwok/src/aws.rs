//! The shipped list of real machines: 848 Linux types of AWS us-west-2 with their prices.
//!
//! The table is embedded as text, one line per type, and expanded on use. What is equal for all types stands here
//! instead of in the table: four zones, the spot price as a share of the on-demand price, the disk. `data/README.md`
//! tells where the figures come from.

use joiner_api::instance_type::{Offering, ResourceList};
use joiner_api::names::{ON_DEMAND, SPOT};
use joiner_api::quantity::Quantity;

use crate::entry::{Entry, constant};
use crate::hypothetical::offering;

const TABLE: &str = include_str!("../data/aws-us-west-2.tsv");
/// The zones of every type.
pub const ZONES: [&str; 4] = ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"];
/// The spot price of every type as a share of its on-demand price.
pub const SPOT_FACTOR: f64 = 0.7;
const EPHEMERAL_STORAGE: &str = "20Gi";
const BAD_ROW: &str = "the embedded table is checked by the tests of this crate";

/// The list, sorted by name.
pub fn entries() -> Vec<Entry> {
    let disk = constant(EPHEMERAL_STORAGE);
    TABLE.lines().skip(1).map(|line| entry(line, disk)).collect()
}

/// Reads one line of the table: name, architecture, cpu, memory, pods, on-demand price and, where the machine has
/// one, the accelerator as `resource=count`.
fn entry(line: &str, disk: Quantity) -> Entry {
    let mut columns = line.split('\t');
    let mut column = || columns.next().expect(BAD_ROW);
    let (name, architecture, cpu, memory, pods) = (column(), column(), column(), column(), column());
    let on_demand: f64 = column().parse().expect(BAD_ROW);
    let mut resources = ResourceList::from([
        ("cpu".to_owned(), constant(cpu)),
        ("ephemeral-storage".to_owned(), disk),
        ("memory".to_owned(), constant(memory)),
        ("pods".to_owned(), constant(pods)),
    ]);
    if let Some(accelerator) = columns.next() {
        let (resource, count) = accelerator.split_once('=').expect(BAD_ROW);
        resources.insert(resource.to_owned(), constant(count));
    }
    Entry {
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        operating_systems: vec!["linux".to_owned()],
        resources,
        offerings: offerings(on_demand),
        volume_limits: Default::default(),
    }
}

fn offerings(on_demand: f64) -> Vec<Offering> {
    ZONES
        .into_iter()
        .flat_map(|zone| {
            [offering(zone, SPOT, on_demand * SPOT_FACTOR), offering(zone, ON_DEMAND, on_demand)]
        })
        .collect()
}
