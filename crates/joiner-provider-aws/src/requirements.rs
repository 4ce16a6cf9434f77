//! The labels of a machine type, as requirements.
//!
//! What a machine lacks is said (`DoesNotExist`), for silence about a well-known label means any value. One label is left open on purpose: the zone's id
//! differs from account to account, so it is known only where subnets are.

use std::collections::BTreeSet;

use joiner_api::instance_type::TypeRequirement;
use joiner_api::names::{
    ARCH_LABEL, AWS_INSTANCE_CATEGORY_LABEL, AWS_INSTANCE_CPU_LABEL, AWS_INSTANCE_FAMILY_LABEL,
    AWS_INSTANCE_GENERATION_LABEL, AWS_INSTANCE_MEMORY_LABEL, AWS_INSTANCE_SIZE_LABEL, AWS_ZONE_ID_LABEL,
    CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL, ON_DEMAND, OS_LABEL, REGION_LABEL, RESERVED, SPOT,
    WINDOWS_BUILD_LABEL, ZONE_LABEL,
};

use crate::class::{Class, Reservation, Zone};
use crate::family::Family;
use crate::labels::{
    AWS_CPU_MANUFACTURER_LABEL, AWS_FLEX_LABEL, AWS_GPU_COUNT_LABEL, AWS_GPU_MANUFACTURER_LABEL,
    AWS_GPU_NAME_LABEL, AwsName,
};
use crate::world::Machine;

/// AWS: `nitro` or `xen`; the empty value on bare metal.
pub const HYPERVISOR_LABEL: &str = "karpenter.k8s.aws/instance-hypervisor";
/// AWS: whether traffic between machines is encrypted.
pub const ENCRYPTION_LABEL: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// AWS: GB of local NVMe disks.
pub const LOCAL_NVME_LABEL: &str = "karpenter.k8s.aws/instance-local-nvme";
/// AWS: sustained clock of the CPUs.
pub const CLOCK_LABEL: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// AWS: bandwidth to volumes in Mbit/s.
pub const EBS_BANDWIDTH_LABEL: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// AWS: network bandwidth in Mbit/s.
pub const NETWORK_BANDWIDTH_LABEL: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// AWS: MiB of memory of one GPU.
pub const GPU_MEMORY_LABEL: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// AWS: model of the accelerators.
pub const ACCELERATOR_NAME_LABEL: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// AWS: maker of the accelerators.
pub const ACCELERATOR_MANUFACTURER_LABEL: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// AWS: number of accelerators.
pub const ACCELERATOR_COUNT_LABEL: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// AWS: `default` or `dedicated`.
pub const TENANCY_LABEL: &str = "karpenter.k8s.aws/instance-tenancy";
/// AWS: whether there are enclaves.
pub const SANDBOX_LABEL: &str = "karpenter.k8s.aws/nitro-sandbox";
/// AWS: id of the capacity reservation.
pub const RESERVATION_ID_LABEL: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// AWS: kind of the capacity reservation.
pub const RESERVATION_TYPE_LABEL: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// AWS: whether the capacity reservation may be taken back.
pub const RESERVATION_INTERRUPTIBLE_LABEL: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";

/// Maker of Neuron devices.
const NEURON_MAKER: &str = "aws";

/// All labels of a type's machines, in these zones of a region.
pub fn requirements(
    machine: &Machine,
    class: &Class,
    region: &str,
    zones: &[Zone],
    reservations: &[&Reservation],
) -> Vec<TypeRequirement> {
    let mut list = Vec::with_capacity(36);
    let mut say = |key: &str, value: Option<String>| {
        list.push(match value {
            Some(value) => TypeRequirement::one_of(key, [value]),
            None => TypeRequirement::absent(key),
        });
    };
    let text = |text: &str| Some(text.to_owned());
    say(INSTANCE_TYPE_LABEL, text(&machine.name));
    say(ARCH_LABEL, text(machine.architecture));
    say(OS_LABEL, class.family.os_on(machine.architecture).map(str::to_owned));
    say(REGION_LABEL, text(region));
    say(
        WINDOWS_BUILD_LABEL,
        match class.family {
            Family::Windows(build) => text(build),
            _ => None,
        },
    );
    let name = AwsName::parse(&machine.name);
    say(AWS_INSTANCE_CATEGORY_LABEL, name.map(|name| name.category.to_owned()));
    say(AWS_INSTANCE_FAMILY_LABEL, text(machine.family()));
    say(AWS_INSTANCE_GENERATION_LABEL, name.map(|name| name.generation.to_owned()));
    say(AWS_INSTANCE_SIZE_LABEL, machine.name.split_once('.').map(|(_, size)| size.to_owned()));
    say(AWS_FLEX_LABEL, Some(name.is_some_and(|name| name.is_flex()).to_string()));
    say(AWS_INSTANCE_CPU_LABEL, Some(machine.vcpus.to_string()));
    say(AWS_INSTANCE_MEMORY_LABEL, Some(machine.memory_mib.to_string()));
    say(AWS_CPU_MANUFACTURER_LABEL, text(&machine.cpu_maker));
    say(CLOCK_LABEL, machine.clock_mhz.map(|mhz| mhz.to_string()));
    say(HYPERVISOR_LABEL, text(machine.hypervisor));
    say(ENCRYPTION_LABEL, Some(machine.encryption_in_transit.to_string()));
    say(SANDBOX_LABEL, Some(machine.enclaves.to_string()));
    say(EBS_BANDWIDTH_LABEL, machine.ebs_mbps.map(|mbps| mbps.to_string()));
    say(NETWORK_BANDWIDTH_LABEL, machine.bandwidth_mbps.map(|mbps| mbps.to_string()));
    let nvme = machine.local_storage_gb.filter(|_| machine.local_nvme);
    say(LOCAL_NVME_LABEL, nvme.map(|gb| gb.to_string()));
    let gpu = machine.gpu.as_ref();
    say(AWS_GPU_NAME_LABEL, gpu.map(|gpu| gpu.name.clone()));
    say(AWS_GPU_MANUFACTURER_LABEL, gpu.map(|gpu| gpu.maker.clone()));
    say(AWS_GPU_COUNT_LABEL, gpu.map(|gpu| gpu.count.to_string()));
    say(GPU_MEMORY_LABEL, gpu.map(|gpu| gpu.extra.to_string()));
    let accelerator = match (&machine.neuron, &machine.accelerator) {
        (Some(neuron), _) => Some((neuron, NEURON_MAKER)),
        (None, Some(other)) => Some((other, other.maker.as_str())),
        (None, None) => None,
    };
    say(ACCELERATOR_NAME_LABEL, accelerator.map(|(of, _)| of.name.clone()));
    say(ACCELERATOR_MANUFACTURER_LABEL, accelerator.map(|(_, maker)| maker.to_owned()));
    say(ACCELERATOR_COUNT_LABEL, accelerator.map(|(of, _)| of.count.to_string()));

    let mut say_all = |key: &str, values: BTreeSet<&str>| {
        list.push(match values.is_empty() {
            true => TypeRequirement::absent(key),
            false => TypeRequirement::one_of(key, values),
        });
    };
    say_all(RESERVATION_ID_LABEL, reservations.iter().map(|of| of.id.as_str()).collect());
    say_all(RESERVATION_TYPE_LABEL, reservations.iter().map(|of| of.kind.as_str()).collect());
    let word = |of: &&Reservation| if of.interruptible { "true" } else { "false" };
    say_all(RESERVATION_INTERRUPTIBLE_LABEL, reservations.iter().map(word).collect());
    say_all(TENANCY_LABEL, BTreeSet::from(["dedicated", "default"]));
    let spot = machine.spot.then_some(SPOT);
    let reserved = (!reservations.is_empty()).then_some(RESERVED);
    say_all(CAPACITY_TYPE_LABEL, [Some(ON_DEMAND), spot, reserved].into_iter().flatten().collect());
    say_all(ZONE_LABEL, zones.iter().map(|zone| zone.name.as_str()).collect());
    let ids: BTreeSet<&str> = zones.iter().filter_map(|zone| zone.id.as_deref()).collect();
    if !ids.is_empty() {
        say_all(AWS_ZONE_ID_LABEL, ids);
    }
    list
}
