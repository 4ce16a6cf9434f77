//! What an EC2NodeClass says that changes what its machines are.
//!
//! Read from the object as it is: older versions (`v1beta1`, AWSNodeTemplate) have the same fields in the same places, but keep `kubelet` in the pool
//! ([`Class::with_kubelet`]). Reading is lenient, for a class in a live cluster is what it is; what makes no sense is returned beside the class, and
//! whoever reads files refuses it.

use std::collections::BTreeMap;

use joiner_api::quantity::Quantity;
use serde_json::Value;

use crate::family::{Family, NAMES};

/// Everything of a class that counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Family of its images.
    pub family: Family,
    /// Settings of the kubelet.
    pub kubelet: Kubelet,
    /// Volumes that are attached at launch.
    pub block_devices: Vec<BlockDevice>,
    /// Local disks make one file system for pods.
    pub raid0: bool,
    /// Network interfaces it wants, if it says.
    pub interfaces: Option<Vec<Interface>>,
    /// Machines must be able to run virtual machines.
    pub nested_virtualization: bool,
    /// Timeouts of tracked connections are set, which only Nitro machines take.
    pub tracks_connections: bool,
    /// Zones of its subnets with their ids, if somebody has looked.
    pub subnets: Option<Vec<Zone>>,
    /// Reservations it may draw on.
    pub reservations: Vec<Reservation>,
}

/// Settings of the kubelet that count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kubelet {
    /// Pods at most.
    pub max_pods: Option<u32>,
    /// Pods per vCPU at most; 0 is no bound.
    pub pods_per_core: Option<u32>,
    /// Kept for the kubelet, over the usual amounts.
    pub kube_reserved: BTreeMap<String, Quantity>,
    /// Kept for the system.
    pub system_reserved: BTreeMap<String, Quantity>,
    /// Free memory below which pods are evicted.
    pub memory_available: Option<Threshold>,
    /// Free disk below which pods are evicted.
    pub disk_available: Option<Threshold>,
}

/// A threshold of eviction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// So much.
    Amount(Quantity),
    /// Such a share of what there is, in percent.
    Percent(f64),
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockDevice {
    /// Its device.
    pub device: String,
    /// Whether it is declared the root volume.
    pub is_root: bool,
    /// Its size, unless a snapshot tells.
    pub size: Option<Quantity>,
}

/// A network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Its card.
    pub card: u32,
    /// Its place there.
    pub device: u32,
    /// For EFA alone: no addresses for pods.
    pub efa_only: bool,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Its name in this account.
    pub name: String,
    /// Its name in all accounts.
    pub id: Option<String>,
}

/// A capacity reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its id.
    pub id: String,
    /// The type it is for.
    pub instance_type: String,
    /// The zone it is for.
    pub zone: String,
    /// `default` or `capacity-block`.
    pub kind: String,
    /// Whether AWS may take it back.
    pub interruptible: bool,
    /// Machines that it still has, if somebody has asked. Without this number nothing can be launched from it.
    pub left: Option<u32>,
}

/// Something in a class that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassProblem {
    /// The field.
    pub path: String,
    /// What stands there.
    pub value: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// A class, what makes no sense in it, and what its author should know.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadClass {
    /// The class.
    pub class: Class,
    /// What makes no sense.
    pub problems: Vec<ClassProblem>,
    /// What is not as it looks.
    pub notes: Vec<String>,
}

impl Class {
    /// A class that says nothing.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Reads a class.
    pub fn read(object: &Value) -> ReadClass {
        let mut reader = Reader::default();
        let spec = &object["spec"];
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let class = Self {
            name: text("/metadata/name").to_owned(),
            family: reader.family(spec),
            kubelet: reader.kubelet(&spec["kubelet"], "spec.kubelet"),
            block_devices: list(&spec["blockDeviceMappings"])
                .enumerate()
                .map(|(at, of)| reader.block_device(at, of))
                .collect(),
            raid0: spec["instanceStorePolicy"] == "RAID0",
            interfaces: spec["networkInterfaces"].as_array().map(|of| of.iter().map(interface).collect()),
            nested_virtualization: spec["cpuOptions"]["nestedVirtualization"] == "enabled",
            tracks_connections: spec["connectionTracking"].is_object(),
            subnets: object["status"]["subnets"].as_array().filter(|of| !of.is_empty()).map(|of| zones(of)),
            reservations: list(&object["status"]["capacityReservations"]).map(reservation).collect(),
        };
        ReadClass { class, problems: reader.problems, notes: reader.notes }
    }

    /// The class with the kubelet settings that an older pool has.
    pub fn with_kubelet(&self, kubelet: &Value, path: &str) -> ReadClass {
        let mut reader = Reader::default();
        let class = Self { kubelet: reader.kubelet(kubelet, path), ..self.clone() };
        ReadClass { class, problems: reader.problems, notes: reader.notes }
    }

    /// EFA interfaces that it puts on a card.
    pub(crate) fn efa_only_on(&self, card: u32) -> u32 {
        let on_card = |of: &&Interface| of.efa_only && of.card == card;
        self.interfaces.iter().flatten().filter(on_card).count() as u32
    }
}

#[derive(Default)]
struct Reader {
    problems: Vec<ClassProblem>,
    notes: Vec<String>,
}

impl Reader {
    fn report(&mut self, path: &str, value: &Value, message: &str, remedy: &str) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (message, remedy) = (message.to_owned(), remedy.to_owned());
        self.problems.push(ClassProblem { path: path.to_owned(), value, message, remedy });
    }

    fn family(&mut self, spec: &Value) -> Family {
        let alias = list(&spec["amiSelectorTerms"]).find_map(|term| term["alias"].as_str());
        let named = spec["amiFamily"].as_str();
        match (named.map(Family::parse), alias.and_then(Family::of_alias)) {
            (Some(Some(family)), _) | (None, Some(family)) => family,
            (Some(None), _) => {
                let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                let remedy = format!("name one of {}", names.join(", "));
                self.report(
                    "spec.amiFamily",
                    &spec["amiFamily"],
                    "there is no such family of images",
                    &remedy,
                );
                Family::default()
            }
            (None, None) => Family::default(),
        }
    }

    fn kubelet(&mut self, of: &Value, path: &str) -> Kubelet {
        Kubelet {
            max_pods: self.count(of, path, "maxPods", 1),
            pods_per_core: self.count(of, path, "podsPerCore", 0),
            kube_reserved: self.amounts(of, path, "kubeReserved"),
            system_reserved: self.amounts(of, path, "systemReserved"),
            memory_available: self.threshold(of, path, "memory.available"),
            disk_available: self.threshold(of, path, "nodefs.available"),
        }
    }

    fn count(&mut self, of: &Value, path: &str, field: &str, least: i64) -> Option<u32> {
        let value = &of[field];
        match value {
            Value::Null => None,
            Value::String(text) => {
                self.notes.push(format!(
                    "`{path}.{field}` is `{text}`: expressions are not evaluated here, so it does not count"
                ));
                None
            }
            other => {
                let count = other.as_i64();
                if count.is_none_or(|count| count < least) {
                    let remedy = match least {
                        0 => "give a whole number, 0 for no bound",
                        _ => {
                            "give a whole number of at least 1, or leave the field out for what the network interfaces allow"
                        }
                    };
                    let message =
                        if least == 1 { "no pod could run on such a machine" } else { "expected a count" };
                    self.report(&format!("{path}.{field}"), value, message, remedy);
                }
                count.and_then(|count| u32::try_from(count).ok())
            }
        }
    }

    fn amounts(&mut self, of: &Value, path: &str, field: &str) -> BTreeMap<String, Quantity> {
        let mut amounts = BTreeMap::new();
        for (name, value) in of[field].as_object().into_iter().flatten() {
            let path = format!("{path}.{field}.{name}");
            match quantity(value) {
                Some(amount) if amount.signum() < 0 => {
                    self.report(&path, value, "a negative amount cannot be kept back", "give 0 or more");
                }
                Some(amount) => {
                    amounts.insert(name.clone(), amount);
                }
                None => self.notes.push(format!(
                    "`{path}` is `{}`: expressions are not evaluated here, so the usual amount counts",
                    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                )),
            }
        }
        amounts
    }

    fn threshold(&mut self, of: &Value, path: &str, signal: &str) -> Option<Threshold> {
        let value = &of["evictionHard"][signal];
        let text = value.as_str().filter(|text| !text.is_empty())?;
        let read = match text.strip_suffix('%') {
            Some(share) => {
                share.parse().ok().filter(|share: &f64| (0.0..=100.0).contains(share)).map(Threshold::Percent)
            }
            None => Quantity::parse(text).ok().filter(|amount| amount.signum() >= 0).map(Threshold::Amount),
        };
        if read.is_none() {
            let path = format!("{path}.evictionHard[{signal}]");
            self.report(&path, value, "expected an amount or a share", "write e.g. `200Mi` or `5%`");
        }
        read
    }

    fn block_device(&mut self, at: usize, of: &Value) -> BlockDevice {
        let written = &of["ebs"]["volumeSize"];
        let size = quantity(written).filter(|size| size.signum() > 0);
        if size.is_none() && !written.is_null() {
            let path = format!("spec.blockDeviceMappings[{at}].ebs.volumeSize");
            self.report(&path, written, "expected a size", "write e.g. `100Gi`");
        }
        BlockDevice {
            device: of["deviceName"].as_str().unwrap_or_default().to_owned(),
            is_root: of["rootVolume"] == true,
            size,
        }
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn interface(of: &Value) -> Interface {
    let number = |key: &str| of[key].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    Interface {
        card: number("networkCardIndex"),
        device: number("deviceIndex"),
        efa_only: of["interfaceType"] == "efa-only",
    }
}

/// Zones of subnets, sorted, each once.
fn zones(subnets: &[Value]) -> Vec<Zone> {
    let text = |of: &Value, key: &str| of[key].as_str().map(str::to_owned);
    let named: BTreeMap<String, Option<String>> =
        subnets.iter().filter_map(|of| Some((text(of, "zone")?, text(of, "zoneID")))).collect();
    named.into_iter().map(|(name, id)| Zone { name, id }).collect()
}

fn reservation(of: &Value) -> Reservation {
    let text = |key: &str| of[key].as_str().unwrap_or_default().to_owned();
    Reservation {
        id: text("id"),
        instance_type: text("instanceType"),
        zone: text("availabilityZone"),
        kind: Some(text("reservationType")).filter(|kind| !kind.is_empty()).unwrap_or("default".to_owned()),
        interruptible: of["interruptible"] == true,
        left: None,
    }
}
