//! The packed catalogue: machine types as EC2 describes them, regions with their zones, list prices.
//!
//! `data/catalogue.tsv.zst` is text under zstd, written by `cargo xtask aws-catalogue`: one line per region, an empty line, one line per
//! type. A type's line ends with one letter per region (the set of its zones there) and its list prices. It is unpacked once per process, on first use.

use std::sync::LazyLock;

const PACKED: &[u8] = include_bytes!("../data/catalogue.tsv.zst");
/// By how many bytes the catalogue makes a program larger.
pub const PACKED_BYTES: usize = PACKED.len();
const BAD: &str = "the packed catalogue is checked by the tests of this crate";
/// The letter of the empty set of zones.
const NO_ZONE: u8 = b'0';

static WORLD: LazyLock<World> = LazyLock::new(World::unpack);

/// Everything that is known.
#[derive(Debug)]
pub struct World {
    regions: Vec<Region>,
    machines: Vec<Machine>,
}

/// A region.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// Its name, e.g. `eu-west-1`.
    pub name: String,
    /// Its zones, sorted.
    pub zones: Vec<String>,
    /// Where its prices are from.
    pub prices: RegionPrices,
    at: usize,
}

/// Where the prices of a region are from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RegionPrices {
    /// A list of its own, by number.
    List(usize),
    /// None: so many times the list of us-east-1.
    Times(f64),
}

/// A machine type as EC2 describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The type's name.
    pub name: String,
    /// `amd64` or `arm64`.
    pub architecture: &'static str,
    /// vCPUs it starts with.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// No hypervisor at all.
    pub bare_metal: bool,
    /// `nitro`, `xen`, or nothing for bare metal.
    pub hypervisor: &'static str,
    /// Whether it is sold as spot.
    pub spot: bool,
    /// Whether traffic between such machines is encrypted.
    pub encryption_in_transit: bool,
    /// Whether it has Nitro enclaves.
    pub enclaves: bool,
    /// Whether it can run virtual machines of its own.
    pub nested_virtualization: bool,
    /// Whether its local disks, if any, are NVMe.
    pub local_nvme: bool,
    /// All local disks together, in GB.
    pub local_storage_gb: Option<u64>,
    /// Bandwidth to volumes in Mbit/s, where it is optimised for them by default.
    pub ebs_mbps: Option<u32>,
    /// Sustained clock.
    pub clock_mhz: Option<u32>,
    /// Maker of the CPUs, lower case.
    pub cpu_maker: String,
    /// IPv4 addresses of a network interface.
    pub addresses_per_interface: u32,
    /// Network cards; the first is the default one.
    pub cards: Vec<Card>,
    /// Interfaces that can be EFA.
    pub efa_interfaces: u32,
    /// Network bandwidth in Mbit/s.
    pub bandwidth_mbps: Option<u32>,
    /// Branch interfaces, for pods with security groups of their own.
    pub branch_interfaces: Option<u32>,
    /// GPUs, if they are of one kind.
    pub gpu: Option<Device>,
    /// Accelerators for inference, if they are of one kind.
    pub accelerator: Option<Device>,
    /// Neuron devices, if they are of one kind; `extra` counts cores per device.
    pub neuron: Option<Device>,
    offered: Vec<u8>,
    list_prices: Vec<Option<f64>>,
}

/// A network card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Interfaces it takes.
    pub interfaces: u32,
    /// Whether they can be for EFA alone.
    pub efa: bool,
}

/// GPUs and the like, all of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Model, as labels have it.
    pub name: String,
    /// Maker, as labels have it.
    pub maker: String,
    /// How many; 0 for a share of one.
    pub count: u32,
    /// MiB of memory of a GPU, cores of a Neuron device.
    pub extra: u32,
}

/// What is known, unpacked.
pub fn world() -> &'static World {
    &WORLD
}

impl World {
    /// All regions, by name.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The region of a name.
    pub fn region(&self, name: &str) -> Option<&Region> {
        self.regions.iter().find(|region| region.name == name)
    }

    /// All types, by name.
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The type of a name.
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        let at = self.machines.binary_search_by(|machine| machine.name.as_str().cmp(name)).ok()?;
        self.machines.get(at)
    }

    /// A copy of its own; [`world`] unpacks once for all.
    pub fn unpack() -> Self {
        let text = String::from_utf8(zstd::decode_all(PACKED).expect(BAD)).expect(BAD);
        let mut lines = text.lines();
        let regions: Vec<Region> = lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .enumerate()
            .map(|(at, line)| region(at, line))
            .collect();
        Self { machines: lines.map(machine).collect(), regions }
    }
}

impl Region {
    /// The zones in which a type is to be had.
    pub fn zones_of<'r>(&'r self, machine: &Machine) -> impl Iterator<Item = &'r str> + use<'r> {
        let set = machine.offered.get(self.at).map_or(0, |letter| letter.saturating_sub(NO_ZONE));
        let is_in = move |at: usize| 1u8.checked_shl(at as u32).is_some_and(|bit| set & bit != 0);
        self.zones.iter().enumerate().filter(move |(at, _)| is_in(*at)).map(|(_, zone)| zone.as_str())
    }
}

impl Machine {
    /// The on-demand price in a list.
    pub fn list_price(&self, list: usize) -> Option<f64> {
        self.list_prices.get(list).copied().flatten()
    }

    /// All before the dot.
    pub fn family(&self) -> &str {
        self.name.split_once('.').map_or(self.name.as_str(), |(family, _)| family)
    }
}

fn region(at: usize, line: &str) -> Region {
    let mut columns = line.split('\t');
    let name = columns.next().expect(BAD).to_owned();
    let zones = columns.next().expect(BAD).split(',').map(|letter| format!("{name}{letter}")).collect();
    let prices = match columns.next().and_then(|text| text.split_once(' ')).expect(BAD) {
        ("list", number) => RegionPrices::List(number.parse().expect(BAD)),
        (_, factor) => RegionPrices::Times(factor.parse().expect(BAD)),
    };
    Region { name, zones, prices, at }
}

fn machine(line: &str) -> Machine {
    let mut columns = line.split('\t');
    // What stands at the end of a line and is empty was left out.
    let mut text = || columns.next().unwrap_or_default();
    let name = text().to_owned();
    let architecture = if text() == "arm64" { "arm64" } else { "amd64" };
    let (vcpus, memory_mib) = (number(text()), text().parse().expect(BAD));
    let flags = text();
    let (local, ebs, clock) = (text(), text(), text());
    let cpu_maker = text().to_owned();
    let addresses_per_interface = number(text());
    let cards = text().split(',').map(|card| {
        let interfaces = card.trim_end_matches('e');
        Card { interfaces: number(interfaces), efa: interfaces.len() < card.len() }
    });
    Machine {
        architecture,
        vcpus,
        memory_mib,
        bare_metal: flags.contains('m'),
        hypervisor: match () {
            () if flags.contains('n') => "nitro",
            () if flags.contains('x') => "xen",
            () => "",
        },
        spot: flags.contains('s'),
        encryption_in_transit: flags.contains('e'),
        enclaves: flags.contains('c'),
        nested_virtualization: flags.contains('v'),
        local_nvme: flags.contains('d'),
        local_storage_gb: (!local.is_empty()).then(|| local.parse().expect(BAD)),
        ebs_mbps: maybe(ebs),
        clock_mhz: maybe(clock),
        cpu_maker,
        addresses_per_interface,
        cards: cards.collect(),
        efa_interfaces: maybe(text()).unwrap_or(0),
        bandwidth_mbps: maybe(text()),
        branch_interfaces: maybe(text()),
        gpu: device(text()),
        accelerator: device(text()),
        neuron: device(text()),
        offered: text().as_bytes().to_vec(),
        list_prices: columns.map(|price| (!price.is_empty()).then(|| price.parse().expect(BAD))).collect(),
        name,
    }
}

fn device(text: &str) -> Option<Device> {
    let mut parts = text.split('|');
    let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
    let mut part = || parts.next().unwrap_or_default();
    Some(Device { name, maker: part().to_owned(), count: number(part()), extra: maybe(part()).unwrap_or(0) })
}

fn number(text: &str) -> u32 {
    text.parse().expect(BAD)
}

fn maybe(text: &str) -> Option<u32> {
    (!text.is_empty()).then(|| number(text))
}

/// The region of an AWS zone, known or not: `eu-central-1` of `eu-central-1b`, `us-west-2` of the local zone `us-west-2-lax-1a`.
pub fn region_of_zone(zone: &str) -> Option<&str> {
    let mut end = 0;
    for (at, part) in zone.split('-').enumerate() {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let letters = part.len() - digits;
        let is_last = end + part.len() == zone.len();
        match (at, digits) {
            (0, 0) if part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_lowercase()) => {}
            (1.., 0) if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase()) => {}
            (2.., 1) if is_last && letters == 1 && part.ends_with(|c: char| c.is_ascii_lowercase()) => {
                return zone.get(..end + 1);
            }
            (2.., 1) if !is_last && letters == 0 => {
                // A local zone or one of a carrier: more names, a number, a letter or nothing.
                let ends_well = zone.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
                return zone.get(..end + 1).filter(|_| ends_well);
            }
            _ => return None,
        }
        end += part.len() + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_unpacked() {
        const { assert!(PACKED_BYTES < 600_000, "too many bytes for a program") };
        let world = world();
        assert_eq!((world.regions().len(), world.machines().len()), (32, 1386));
        assert!(world.machines().windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, none twice");
        assert!(world.regions().iter().all(|region| (2..=6).contains(&region.zones.len())));
        let ireland = world.region("eu-west-1").unwrap();
        assert_eq!(ireland.zones, ["eu-west-1a", "eu-west-1b", "eu-west-1c"]);
        assert_eq!(ireland.prices, RegionPrices::Times(1.115));
        let machine = world.machine("p5.48xlarge").unwrap();
        assert_eq!((machine.vcpus, machine.memory_mib, machine.cards.len()), (192, 2_097_152, 32));
        assert_eq!(machine.gpu.as_ref().map(|gpu| (gpu.name.as_str(), gpu.count)), Some(("h100", 8)));
        assert_eq!(world.machine("c6a.large").and_then(|of| of.list_price(0)), Some(0.0765));
        let offered = |region: &str| {
            world
                .machines()
                .iter()
                .filter(|of| world.region(region).unwrap().zones_of(of).next().is_some())
                .count()
        };
        assert_eq!((offered("eu-west-1"), offered("us-west-2"), offered("us-gov-east-1")), (1181, 1345, 499));
    }

    #[test]
    fn regions_of_zones() {
        for (zone, expected) in [
            ("us-west-2a", Some("us-west-2")),
            ("eu-central-1b", Some("eu-central-1")),
            ("us-gov-west-1a", Some("us-gov-west-1")),
            ("us-west-2-lax-1a", Some("us-west-2")),
            ("us-east-1-wl1-bos-wlz-1", Some("us-east-1")),
            ("xx-nowhere-1a", Some("xx-nowhere-1")),
            ("test-zone-a", None),
            ("test-zone-1a", None),
            ("us-west-2", None),
            ("us-west-22a", None),
            ("us-2a", None),
            ("a", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(region_of_zone(zone), expected, "{zone}");
        }
    }
}
