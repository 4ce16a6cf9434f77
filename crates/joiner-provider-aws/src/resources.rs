//! What a machine of a class holds, and what it keeps for itself.
//!
//! The rules are those of Karpenter's AWS provider; `docs/concepts/aws-catalogue.md` works one type out by hand.

use joiner_api::instance_type::{Overhead, ResourceList};
use joiner_api::quantity::Quantity;

use crate::class::{Class, Threshold};
use crate::world::Machine;

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// Memory that arm64 machines set aside before anybody sees it.
const ARM_SET_ASIDE_MIB: u64 = 64;
/// Pods where the network does not bound them.
const USUAL_PODS: u64 = 110;
/// Memory the kubelet keeps per pod, and besides.
const MIB_PER_POD: u64 = 11;
const MIB_BESIDES: u64 = 255;
/// Free memory below which pods are evicted.
const EVICTION_MIB: i64 = 100;
/// Free disk below which pods are evicted, in percent.
const EVICTION_DISK_PERCENT: f64 = 10.0;

/// What holds for all classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Network interfaces that are not for pods.
    pub reserved_enis: u32,
    /// The share of memory that hypervisor and firmware keep, 0.075 for 7.5 %.
    pub vm_memory_overhead: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { reserved_enis: 0, vm_memory_overhead: 0.075 }
    }
}

/// The whole machine.
pub fn capacity(machine: &Machine, class: &Class, settings: Settings) -> ResourceList {
    let count = |n: u64| Quantity::from_value(i64::try_from(n).unwrap_or(i64::MAX));
    let mut capacity = ResourceList::from([
        ("cpu".to_owned(), count(machine.vcpus.into())),
        ("memory".to_owned(), Quantity::from_bytes(memory_mib(machine, settings).saturating_mul(MIB))),
        ("ephemeral-storage".to_owned(), disk(machine, class)),
        ("pods".to_owned(), count(pods(machine, class, settings.reserved_enis))),
    ]);
    let mut add = |name: &str, amount: u64| {
        if amount > 0 {
            capacity.insert(name.to_owned(), count(amount));
        }
    };
    if let Some(gpu) = &machine.gpu {
        match gpu.maker.as_str() {
            "nvidia" => add("nvidia.com/gpu", gpu.count.into()),
            "amd" => add("amd.com/gpu", gpu.count.into()),
            "habana" => add("habana.ai/gaudi", gpu.count.into()),
            _ => {}
        }
    }
    if let Some(neuron) = &machine.neuron {
        add("aws.amazon.com/neuron", neuron.count.into());
        add("aws.amazon.com/neuroncore", u64::from(neuron.count) * u64::from(neuron.extra));
    }
    let efa = match &class.interfaces {
        Some(interfaces) => interfaces.iter().filter(|of| of.efa_only).count() as u64,
        None => machine.efa_interfaces.into(),
    };
    add("vpc.amazonaws.com/efa", efa);
    add("vpc.amazonaws.com/pod-eni", machine.branch_interfaces.unwrap_or(0).into());
    if class.family.os_on(machine.architecture) == Some("windows") {
        add("vpc.amazonaws.com/PrivateIPv4Address", machine.addresses_per_interface.saturating_sub(1).into());
    }
    capacity
}

/// What pods do not get of it.
pub fn overhead(machine: &Machine, class: &Class, settings: Settings, capacity: &ResourceList) -> Overhead {
    let amount = |name: &str| capacity.get(name).copied().unwrap_or_default();
    Overhead {
        kube_reserved: kube_reserved(machine, class, settings),
        system_reserved: class.kubelet.system_reserved.clone(),
        eviction_threshold: ResourceList::from([
            (
                "memory".to_owned(),
                match class.kubelet.memory_available {
                    Some(threshold) => threshold_of(threshold, amount("memory")),
                    None => Quantity::from_bytes(EVICTION_MIB * MIB),
                },
            ),
            (
                "ephemeral-storage".to_owned(),
                threshold_of(
                    class.kubelet.disk_available.unwrap_or(Threshold::Percent(EVICTION_DISK_PERCENT)),
                    amount("ephemeral-storage"),
                ),
            ),
        ]),
    }
}

fn memory_mib(machine: &Machine, settings: Settings) -> i64 {
    let set_aside = if machine.architecture == "arm64" { ARM_SET_ASIDE_MIB } else { 0 };
    let mib = machine.memory_mib.saturating_sub(set_aside);
    let lost = ((mib << 20) as f64 * settings.vm_memory_overhead / 1024.0 / 1024.0).ceil();
    i64::try_from(mib).unwrap_or(i64::MAX).saturating_sub(lost as i64).max(0)
}

/// Space for pods' files: local disks, else the volume they lie on.
fn disk(machine: &Machine, class: &Class) -> Quantity {
    if class.raid0
        && let Some(gb) = machine.local_storage_gb
    {
        return Quantity::from_value(i64::try_from(gb).unwrap_or(i64::MAX).saturating_mul(1_000_000_000));
    }
    let devices = &class.block_devices;
    let root = devices.iter().find(|of| of.is_root).and_then(|of| of.size);
    let named = match class.family {
        // The last one, whatever it is: nobody knows where such images keep pods' files.
        crate::family::Family::Custom => devices.last().and_then(|of| of.size),
        family => devices
            .iter()
            .find(|of| of.device == family.pod_device() && of.size.is_some())
            .and_then(|of| of.size),
    };
    root.or(named).unwrap_or_else(|| class.family.usual_disk())
}

/// Pods that network interfaces have addresses for.
fn pods_by_interfaces(machine: &Machine, class: &Class, reserved_enis: u32) -> u64 {
    let on_card = machine.cards.first().map_or(0, |card| card.interfaces);
    let usable = on_card.saturating_sub(reserved_enis).saturating_sub(class.efa_only_on(0));
    match usable {
        0 => 0,
        _ => u64::from(usable) * u64::from(machine.addresses_per_interface.saturating_sub(1)) + 2,
    }
}

fn pods(machine: &Machine, class: &Class, reserved_enis: u32) -> u64 {
    let pods = match class.kubelet.max_pods {
        Some(max) => max.into(),
        None if class.family.pods_have_addresses() => pods_by_interfaces(machine, class, reserved_enis),
        None => USUAL_PODS,
    };
    match class.kubelet.pods_per_core {
        Some(per_core @ 1..) if class.family.knows_pods_per_core() => {
            pods.min(u64::from(per_core) * u64::from(machine.vcpus))
        }
        _ => pods,
    }
}

fn kube_reserved(machine: &Machine, class: &Class, settings: Settings) -> ResourceList {
    let pods = if class.family.reserves_by_interfaces() {
        // Interfaces that are kept from pods change nothing here.
        pods_by_interfaces(machine, class, 0)
    } else {
        pods(machine, class, settings.reserved_enis)
    };
    let mib = i64::try_from(MIB_PER_POD * pods + MIB_BESIDES).unwrap_or(i64::MAX);
    let mut kept = ResourceList::from([
        ("cpu".to_owned(), Quantity::from_milli(kube_reserved_milli(machine.vcpus))),
        ("memory".to_owned(), Quantity::from_bytes(mib.saturating_mul(MIB))),
        ("ephemeral-storage".to_owned(), Quantity::from_bytes(GIB)),
    ]);
    kept.extend(class.kubelet.kube_reserved.iter().map(|(name, amount)| (name.clone(), *amount)));
    kept
}

/// 6 % of the first core, 1 % of the second, 0.5 % of the third and fourth, 0.25 % of all others; each part rounded down.
fn kube_reserved_milli(vcpus: u32) -> i64 {
    let mut left = i64::from(vcpus) * 1000;
    let mut kept = 0;
    for (cores, share_of_400) in [(1, 24), (1, 4), (2, 2), (i64::MAX / 1000, 1)] {
        let part = left.min(cores * 1000);
        kept += part * share_of_400 / 400;
        left -= part;
    }
    kept
}

fn threshold_of(threshold: Threshold, of: Quantity) -> Quantity {
    match threshold {
        Threshold::Amount(amount) => amount,
        // All of it is how the kubelet is told to evict never.
        Threshold::Percent(share) if share >= 100.0 => Quantity::ZERO,
        Threshold::Percent(share) => {
            Quantity::from_bytes((of.value_saturating() as f64 / 100.0 * share).ceil() as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_kept_in_steps() {
        for (vcpus, milli) in [(1, 60), (2, 70), (3, 75), (4, 80), (8, 90), (48, 190), (96, 310), (192, 550)]
        {
            assert_eq!(kube_reserved_milli(vcpus), milli, "{vcpus}");
        }
    }
}
