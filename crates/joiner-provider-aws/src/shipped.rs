//! The shipped list of real machines: 848 Linux types of AWS us-west-2 with their prices.
//!
//! The table is embedded as text, one line per type, and expanded on use. What is equal for all types stands here
//! instead of in the table: four zones, the spot price as a share of the on-demand price, the disk. `data/README.md`
//! tells where the figures come from.

use joiner_api::instance_type::{Offering, ResourceList};
use joiner_api::names::{ON_DEMAND, SPOT};
use joiner_api::quantity::Quantity;

const TABLE: &str = include_str!("../data/aws-us-west-2.tsv");
/// The region of the list.
pub const REGION: &str = "us-west-2";
/// The zones of every type.
pub const ZONES: [&str; 4] = ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"];
/// The spot price of every type as a share of its on-demand price.
pub const SPOT_FACTOR: f64 = 0.7;
const EPHEMERAL_STORAGE: &str = "20Gi";
const BAD_ROW: &str = "the embedded table is checked by the tests of this crate";

/// A machine type as the list describes it. All of them run Linux.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The type's name.
    pub name: String,
    /// Processor architecture, as Kubernetes calls it.
    pub architecture: String,
    /// The whole machine, `pods` included.
    pub resources: ResourceList,
    /// The terms on which it can be had.
    pub offerings: Vec<Offering>,
}

/// The list, sorted by name.
pub fn machines() -> Vec<Machine> {
    let disk = constant(EPHEMERAL_STORAGE);
    TABLE.lines().skip(1).map(|line| machine(line, disk)).collect()
}

/// Reads one line of the table: name, architecture, cpu, memory, pods, on-demand price and, where the machine has
/// one, the accelerator as `resource=count`.
fn machine(line: &str, disk: Quantity) -> Machine {
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
    Machine {
        name: name.to_owned(),
        architecture: architecture.to_owned(),
        resources,
        offerings: offerings(on_demand),
    }
}

fn offerings(on_demand: f64) -> Vec<Offering> {
    ZONES
        .into_iter()
        .flat_map(|zone| {
            [
                Offering::in_zone(zone, SPOT, on_demand * SPOT_FACTOR),
                Offering::in_zone(zone, ON_DEMAND, on_demand),
            ]
        })
        .collect()
}

/// Reads a quantity that is written in this crate's own source.
fn constant(text: &str) -> Quantity {
    Quantity::parse(text).expect(BAD_ROW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_can_be_read() {
        let machines = machines();
        assert_eq!(machines.len(), 848);
        assert!(machines.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, no name twice");
        let first = &machines[0];
        assert_eq!((first.name.as_str(), first.offerings.len()), ("a1.2xlarge", 8));
        let spot = &first.offerings[0];
        assert_eq!((spot.zone(), spot.capacity_type()), (Some("us-west-2a"), Some("spot")));
        assert_eq!(spot.price, first.offerings[1].price * SPOT_FACTOR);
    }
}
