//! Capacity, overhead and labels against what Karpenter's AWS provider computes (`tests/data/instance-types.jsonl`), to the byte.

use std::collections::BTreeMap;

use joiner_api::instance_type::{InstanceType, Operator, ResourceList};
use joiner_provider_aws::catalogue::{Terms, instance_type};
use joiner_provider_aws::class::{Class, Zone};
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::world;
use serde_json::{Map, Value, json};

/// Recorded with expressions in `kubelet`, which are not evaluated here.
const WITH_EXPRESSIONS: usize = 20;
const LINES: usize = 237;

fn built(line: &Value) -> InstanceType {
    let mut object = json!({"metadata": {"name": "default"}, "spec": line["spec"]});
    object["status"] = json!({
        "subnets": [
            {"zone": "us-west-2a", "zoneID": "usw2-az1"}, {"zone": "us-west-2b", "zoneID": "usw2-az2"},
        ],
        "capacityReservations": line["capacityReservations"],
    });
    let class = Class::read(&object).class;
    let mut settings = Settings::default();
    if let Some(enis) = line["reservedENIs"].as_u64() {
        settings.reserved_enis = u32::try_from(enis).unwrap();
    }
    if let Some(share) = line["vmMemoryOverheadPercent"].as_f64() {
        settings.vm_memory_overhead = share;
    }
    let zones: Vec<Zone> = class.subnets.clone().unwrap();
    let machine = world().machine(line["type"].as_str().unwrap()).unwrap();
    let region = world().region("us-west-2").unwrap();
    let prices = Prices::default();
    instance_type(machine, region, &zones, &class, settings, &prices, &mut Terms::new(&class))
}

/// Amounts as recorded: cpu in millicores, the rest whole, zeros left out.
fn recorded(list: &ResourceList) -> Value {
    let amounts = list.iter().map(|(name, amount)| match name.as_str() {
        "cpu" => (name, amount.milli_saturating()),
        _ => (name, amount.value_saturating()),
    });
    let kept: Map<String, Value> = amounts
        .filter(|(_, amount)| *amount != 0)
        .map(|(name, amount)| (name.clone(), amount.into()))
        .collect();
    kept.into()
}

/// What pods get, never below nothing.
fn at_least_nothing(recorded: &Value) -> Value {
    let amounts = recorded.as_object().unwrap().iter().filter(|(_, amount)| amount.as_i64().unwrap() > 0);
    amounts.map(|(name, amount)| (name.clone(), amount.clone())).collect::<Map<_, _>>().into()
}

#[test]
fn machines_are_what_karpenter_makes_of_them() {
    let lines: Vec<Value> = include_str!("data/instance-types.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), LINES);
    let (mut faults, mut with_labels, mut aside) = (Vec::new(), 0, 0);
    for (at, line) in lines.iter().enumerate() {
        if line.get("nodeClassCEL").is_some() {
            aside += 1;
            continue;
        }
        let of = built(line);
        let place = format!("line {}: {} of {}", at + 1, line["type"], line["spec"]);
        let mut compare = |what: &str, found: Value, expected: Value| {
            if found != expected {
                faults.push(format!("{place}: {what} is {found}, expected {expected}"));
            }
        };
        compare("capacity", recorded(&of.capacity), line["capacity"].clone());
        compare("kubeReserved", recorded(&of.overhead.kube_reserved), line["kubeReserved"].clone());
        compare("systemReserved", recorded(&of.overhead.system_reserved), line["systemReserved"].clone());
        compare(
            "evictionThreshold",
            recorded(&of.overhead.eviction_threshold),
            line["evictionThreshold"].clone(),
        );
        compare("allocatable", recorded(&of.allocatable()), at_least_nothing(&line["allocatable"]));
        let Some(requirements) = line["requirements"].as_object() else { continue };
        with_labels += 1;
        let found: BTreeMap<&str, Value> = of
            .requirements
            .iter()
            .map(|said| {
                let value = match said.operator {
                    Operator::In => {
                        let mut values = said.values.clone();
                        values.sort();
                        json!(values)
                    }
                    other => json!(other.as_str()),
                };
                (said.key.as_str(), value)
            })
            .collect();
        compare("labels", json!(found), Value::Object(requirements.clone()));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(20)].join("\n"));
    assert_eq!((aside, with_labels), (WITH_EXPRESSIONS, 69));
}

/// A generous bound, for machines that do something else beside; `cargo bench -p joiner-provider-aws` has the figure.
#[test]
fn a_region_is_built_for_a_class_in_no_time() {
    let region = world().region("us-east-1").unwrap();
    let class = Class::named("default");
    let build = || {
        let start = std::time::Instant::now();
        let types =
            joiner_provider_aws::catalogue::types(region, &class, Settings::default(), &Prices::default());
        assert_eq!(types.len(), 1366);
        start.elapsed()
    };
    let best = (0..10).map(|_| build()).min().unwrap();
    assert!(best < std::time::Duration::from_millis(100), "{best:?}");
}
