//! Instance types: a few sizes and families, not every zone and capacity type of each.

use serde_json::{Value, json};

use super::{Draw, ZONES};

/// Draws 3 to 12 types.
pub(super) fn types(draw: &mut Draw) -> Vec<Value> {
    let count = draw.random.between(3, 12);
    let zones = draw.random.between(1, 3);
    let zones = draw.random.some(&ZONES, zones);
    let mut types: Vec<Value> = Vec::new();
    while (types.len() as u64) < count {
        let cpu = draw.random.pick(&[1, 2, 2, 4, 4, 8, 16]);
        let (family, factor) = draw.random.pick(&[("c", 2), ("s", 4), ("m", 8)]);
        let arch = if draw.random.chance(80) { "amd64" } else { "arm64" };
        let name = if draw.random.chance(70) {
            format!("{family}-{cpu}x-{arch}-linux")
        } else {
            format!("{family}{cpu}.{}", draw.random.pick(&["large", "xlarge", "2xlarge"]))
        };
        if types.iter().all(|present| present["name"] != name.as_str()) {
            types.push(instance_type(draw, &name, cpu, cpu * factor, arch, &zones));
        }
    }
    types
}

fn instance_type(draw: &mut Draw, name: &str, cpu: u64, memory: u64, arch: &str, zones: &[&str]) -> Value {
    let mut resources = json!({
        "cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "ephemeral-storage": "20Gi",
    });
    if draw.random.chance(80) {
        resources["pods"] = draw.random.pick(&["4", "8", "16", "32"]).into();
    }
    let mut tenths_of_a_cent = 25 * cpu + memory;
    if draw.features.devices && draw.random.chance(30) {
        resources["nvidia.com/gpu"] = draw.random.pick(&["1", "2", "4"]).into();
        tenths_of_a_cent += 500;
    }
    let mut offerings = Vec::new();
    while offerings.is_empty() {
        for zone in zones {
            if draw.random.chance(85) {
                let discount = draw.random.pick(&[30, 60, 60, 70]);
                offerings.push(offering("spot", zone, tenths_of_a_cent * discount));
            }
            if draw.random.chance(85) {
                offerings.push(offering("on-demand", zone, tenths_of_a_cent * 100));
            }
            if draw.features.reservations && draw.random.chance(15) {
                let mut reserved = offering("reserved", zone, 1);
                reserved["ReservationCapacity"] = draw.random.between(1, 3).into();
                offerings.push(reserved);
            }
        }
    }
    let systems: &[&str] = if draw.random.chance(85) { &["linux"] } else { &["linux", "windows"] };
    json!({
        "name": name, "architecture": arch, "operatingSystems": systems, "resources": resources, "offerings": offerings,
    })
}

/// Prices are whole hundred-thousandths, so that equal ones are exactly equal.
fn offering(capacity_type: &str, zone: &str, price: u64) -> Value {
    json!({
        "Price": price as f64 / 100_000.0,
        "Available": true,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ],
    })
}
