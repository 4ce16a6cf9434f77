//! Instance types in the file format of the KWOK provider: capacity, overhead, labels and offerings.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::expressions::one_of;
use super::field::stable_key;
use super::quantity::{Quantity, from_json, resources};
use crate::world::{Expr, InstanceType, Offering, Resources};

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// Well-known keys of the provider itself.
pub(super) const PROVIDER_KEYS: [&str; 4] = [
    "karpenter.kwok.sh/instance-family",
    "karpenter.kwok.sh/instance-size",
    "karpenter.kwok.sh/instance-cpu",
    "karpenter.kwok.sh/instance-memory",
];

/// Well-known keys of Kubernetes and of the pool contract.
pub(super) const CORE_KEYS: [&str; 8] = [
    "karpenter.sh/nodepool",
    "karpenter.sh/capacity-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/windows-build",
];

/// Reads one entry of the list.
pub(super) fn instance_type(entry: &Value) -> Result<InstanceType, String> {
    let name = any_case(entry, "name")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
        .ok_or("an instance type has no `name`")?;
    read(entry, name).map_err(|why| format!("instance type `{name}`: {why}"))
}

fn read(entry: &Value, name: &str) -> Result<InstanceType, String> {
    let amounts = any_case(entry, "resources");
    let mut capacity = resources(amounts)?;
    capacity.entry("pods".to_owned()).or_insert(110);

    let allocatable = allocatable(&capacity);
    let offerings: Vec<Offering> = match any_case(entry, "offerings") {
        None => Vec::new(),
        Some(Value::Array(entries)) => {
            entries.iter().map(|entry| offering(entry, name)).collect::<Result<_, String>>()?
        }
        Some(other) => return Err(format!("`offerings` must be a list, not `{other}`")),
    };

    let printed = |resource: &str| -> Result<String, String> {
        match amounts.and_then(|map| map.get(resource)) {
            None => Ok("0".to_owned()),
            Some(amount) => from_json(amount).map(Quantity::canonical),
        }
    };
    let (cpu, memory) = (printed("cpu")?, printed("memory")?);
    let mut requirements = vec![one_of("node.kubernetes.io/instance-type", [name])];
    if let Some(architecture) = any_case(entry, "architecture").and_then(Value::as_str) {
        requirements.push(one_of("kubernetes.io/arch", [architecture]));
    }
    if let Some(systems) = any_case(entry, "operatingSystems").and_then(Value::as_array) {
        requirements.push(one_of("kubernetes.io/os", systems.iter().filter_map(Value::as_str)));
    }
    for key in [ZONE, CAPACITY_TYPE] {
        let values: BTreeSet<&str> = offerings
            .iter()
            .flat_map(|offering| &offering.requirements)
            .filter(|expr| expr.key == key && expr.operator == "In")
            .flat_map(|expr| expr.values.iter().map(String::as_str))
            .collect();
        requirements.push(if values.is_empty() {
            Expr {
                key: key.to_owned(),
                operator: "DoesNotExist".to_owned(),
                values: vec![],
                min_values: None,
            }
        } else {
            one_of(key, values)
        });
    }
    requirements.push(one_of("karpenter.kwok.sh/instance-family", [family(name)]));
    requirements.push(one_of("karpenter.kwok.sh/instance-size", [size(name).unwrap_or(&cpu)]));
    requirements.push(one_of("karpenter.kwok.sh/instance-cpu", [cpu.as_str()]));
    requirements.push(one_of("karpenter.kwok.sh/instance-memory", [memory.as_str()]));

    let mut volume_limits = BTreeMap::new();
    for (driver, count) in any_case(entry, "volumeLimits").and_then(Value::as_object).into_iter().flatten() {
        let count = count.as_u64().and_then(|count| u32::try_from(count).ok());
        let count = count.ok_or_else(|| format!("`volumeLimits` of `{driver}` must be a whole number"))?;
        volume_limits.insert(driver.clone(), count);
    }
    Ok(InstanceType { name: name.to_owned(), requirements, capacity, allocatable, offerings, volume_limits })
}

/// What pods may use of a machine.
pub(super) fn allocatable(capacity: &Resources) -> Resources {
    let mut allocatable = capacity.clone();
    for (resource, reserved) in [("cpu", 100), ("memory", 10 * 1024 * 1024)] {
        *allocatable.entry(resource.to_owned()).or_insert(0) -= reserved;
    }
    // Huge pages are carved out of memory.
    let huge: i128 =
        capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, amount)| amount).sum();
    if huge > 0 {
        let memory = allocatable.entry("memory".to_owned()).or_insert(0);
        *memory = (*memory - huge).max(0);
    }
    allocatable
}

fn offering(entry: &Value, type_name: &str) -> Result<Offering, String> {
    let price = any_case(entry, "price")
        .and_then(Value::as_f64)
        .filter(|price| price.is_finite() && *price >= 0.0)
        .ok_or("an offering has no usable `Price`")?;
    let mut requirements = Vec::new();
    if let Some(listed) = any_case(entry, "requirements").and_then(Value::as_array) {
        for requirement in listed {
            let key =
                any_case(requirement, "key").and_then(Value::as_str).ok_or("a requirement has no `key`")?;
            let operator = any_case(requirement, "operator").and_then(Value::as_str).unwrap_or("In");
            let values = any_case(requirement, "values").and_then(Value::as_array);
            requirements.push(Expr {
                key: stable_key(key).to_owned(),
                operator: operator.to_owned(),
                values: values.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
                min_values: None,
            });
        }
    }
    // The older flat shape names both beside the price.
    for (field, key) in [("capacityType", CAPACITY_TYPE), ("zone", ZONE)] {
        if let Some(value) = any_case(entry, field).and_then(Value::as_str) {
            requirements.push(one_of(key, [value]));
        }
    }
    let single = |wanted: &dyn Fn(&str) -> bool| {
        requirements
            .iter()
            .find(|expr| expr.operator == "In" && expr.values.len() == 1 && wanted(&expr.key))
            .map(|expr| expr.values[0].clone())
    };
    let reserved = single(&|key| key == CAPACITY_TYPE).as_deref() == Some("reserved");
    let reservation = match any_case(entry, "reservationCapacity").and_then(Value::as_u64) {
        Some(units) if reserved => {
            let id = single(&|key| key.ends_with("/reservation-id") || key.ends_with("-reservation-id"));
            let zone = single(&|key| key == ZONE).unwrap_or_default();
            let id = id.unwrap_or_else(|| format!("{type_name}/{zone}"));
            Some((id, u32::try_from(units).unwrap_or(u32::MAX)))
        }
        _ => None,
    };
    let available = any_case(entry, "available").and_then(Value::as_bool).unwrap_or(true);
    Ok(Offering { requirements, price, available, reservation })
}

/// Keys of these files come in any case.
fn any_case<'v>(entry: &'v Value, key: &str) -> Option<&'v Value> {
    entry
        .as_object()?
        .iter()
        .find(|(name, value)| name.eq_ignore_ascii_case(key) && !value.is_null())
        .map(|(_, value)| value)
}

/// Text before the first `.` or `-`, or else the first character.
fn family(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(end) => &name[..end],
        None => name.chars().next().map_or("", |first| &name[..first.len_utf8()]),
    }
}

/// The part after the dot of a name such as `m5.2xlarge`.
fn size(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let word = !family.is_empty() && family.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let known = ["nano", "micro", "small", "medium", "large", "metal"].contains(&size)
        || size.strip_suffix("xlarge").is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()));
    (word && known).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_and_size_come_from_the_name() {
        assert_eq!((family("m5.2xlarge"), size("m5.2xlarge")), ("m5", Some("2xlarge")));
        assert_eq!((family("m5.xlarge"), size("m5.xlarge")), ("m5", Some("xlarge")));
        assert_eq!((family("c-4x-amd64-linux"), size("c-4x-amd64-linux")), ("c", None));
        assert_eq!((family("u7i.metal-24xl"), size("u7i.metal-24xl")), ("u7i", None));
        assert_eq!((family("big"), size("big")), ("b", None));
    }
}
