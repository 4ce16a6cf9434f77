//! A node group as planning sees it: a pool that sells one type under one offering, and its machines that are still to come. Pure.

use std::collections::BTreeMap;

use joiner_api::NodePool;
use joiner_api::instance_type::{InstanceType, Offering, PriceSource, ResourceList, TypeRequirement};
use joiner_api::names::{
    CAPACITY_TYPE_LABEL, HOSTNAME_LABEL, INSTANCE_TYPE_LABEL, NODES_RESOURCE, ZONE_LABEL,
};
use joiner_api::nodepool::{NodeClassReference, NodePoolSpec};
use joiner_api::quantity::Quantity;
use joiner_provider::{NodeGroup, NodeGroupKey, OfferingKey, Scope};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

/// What a group of unknown price is taken to cost per hour: about what clouds ask for general machines.
const USD_PER_CPU: f64 = 0.03;
const USD_PER_GIB: f64 = 0.004;

/// What stands where pools name their node class. No object has this kind.
pub fn class_of(key: &NodeGroupKey) -> NodeClassReference {
    NodeClassReference { group: "joiner.sh".to_owned(), kind: "NodeGroup".to_owned(), name: key.to_string() }
}

/// The name of the type that a group sells.
fn type_name(key: &NodeGroupKey, template: &Node) -> String {
    let labels = template.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(INSTANCE_TYPE_LABEL)).cloned().unwrap_or_else(|| key.to_string())
}

/// The one type of a group; `available` = it may be asked for now.
pub fn type_of(key: &NodeGroupKey, group: &NodeGroup, available: bool) -> InstanceType {
    let name = type_name(key, &group.template);
    let one_of = |(key, value): (&String, &String)| TypeRequirement::one_of(key.as_str(), [value.as_str()]);
    let mut requirements = vec![TypeRequirement::one_of(INSTANCE_TYPE_LABEL, [name.as_str()])];
    requirements.extend(labels(group).iter().map(one_of));
    let terms = group.template.metadata.labels.iter().flatten();
    let terms = terms.filter(|(key, _)| matches!(key.as_str(), ZONE_LABEL | CAPACITY_TYPE_LABEL));
    let capacity = room(&group.template);
    let (price, price_source) = match group.price {
        Some(price) => (price, PriceSource::Stated),
        None => (estimate(&capacity), PriceSource::Estimate),
    };
    InstanceType {
        name,
        requirements,
        offerings: vec![Offering {
            requirements: terms.map(one_of).collect(),
            price,
            available,
            reservation: None,
            capacity_override: ResourceList::new(),
            price_source,
        }],
        capacity,
        overhead: Default::default(),
        volume_limits: BTreeMap::new(),
    }
}

/// What pods may use of a machine, as an amount from which nothing is kept back.
fn room(template: &Node) -> ResourceList {
    let status = template.status.as_ref();
    let amounts = status.and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    let read = |(name, text): (&String, &Text)| Some((name.clone(), Quantity::parse(&text.0).ok()?));
    let mut room: ResourceList = amounts.into_iter().flatten().filter_map(read).collect();
    // Types keep huge pages back from memory; a Node has done so already.
    let pages: Quantity =
        room.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, amount)| *amount).sum();
    if let Some(memory) = room.get_mut("memory") {
        *memory += pages;
    }
    room
}

fn estimate(capacity: &ResourceList) -> f64 {
    let amount = |name: &str| capacity.get(name).map_or(0.0, |of| of.nano_saturating() as f64 / 1e9);
    amount("cpu") * USD_PER_CPU + amount("memory") / f64::from(1 << 30) * USD_PER_GIB
}

/// Labels that all machines of a group carry: each has a hostname of its own, and type, place and terms are those of what it sells.
fn labels(group: &NodeGroup) -> BTreeMap<String, String> {
    let mut labels = group.template.metadata.labels.clone().unwrap_or_default();
    for key in [HOSTNAME_LABEL, INSTANCE_TYPE_LABEL, ZONE_LABEL, CAPACITY_TYPE_LABEL] {
        labels.remove(key);
    }
    labels
}

/// The pool that stands for a group: it may grow as far as the group has room.
pub fn pool_of(key: &NodeGroupKey, group: &NodeGroup) -> NodePool {
    let mut spec = NodePoolSpec::default();
    spec.template.spec.node_class_ref = class_of(key);
    spec.template.metadata.labels = Some(labels(group));
    spec.template.spec.taints = group.template.spec.as_ref().and_then(|spec| spec.taints.clone());
    spec.limits = Some(BTreeMap::from([(NODES_RESOURCE.to_owned(), Text(group.room().to_string()))]));
    NodePool::new(&key.to_string(), spec)
}

/// What is left alone when a group cannot grow.
pub fn scope_of(key: &NodeGroupKey, group: &NodeGroup) -> Scope {
    Scope::Offering { class: Some(class_of(key)), offering: offering_of(key, group) }
}

/// The offering of a group.
pub fn offering_of(key: &NodeGroupKey, group: &NodeGroup) -> OfferingKey {
    let label = |key: &str| group.template.metadata.labels.as_ref()?.get(key).cloned();
    OfferingKey {
        instance_type: type_name(key, &group.template),
        zone: label(ZONE_LABEL),
        capacity_type: label(CAPACITY_TYPE_LABEL),
        reservation: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_group_sells_what_its_template_has() {
        let template: Node = serde_json::from_value(json!({
            "metadata": {"name": "any", "labels": {"kubernetes.io/hostname": "any", "team": "shop",
                "topology.kubernetes.io/zone": "zone-a", "node.kubernetes.io/instance-type": "m-4"}},
            "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "10Gi", "hugepages-2Mi": "2Gi", "pods": "30"}}}))
        .unwrap();
        let (min, max, target) = (0, 7, 3);
        let group = NodeGroup {
            name: "web".to_owned(),
            min,
            max,
            target,
            template: template.into(),
            price: None,
            members: Vec::new(),
        };
        let key = NodeGroupKey { provider: "cloud".to_owned(), name: "web".to_owned() };
        let sold = type_of(&key, &group, true);
        assert_eq!(sold.name, "m-4");
        assert_eq!(sold.allocatable()["memory"].to_string(), "10Gi", "huge pages are kept back once");
        assert_eq!(sold.requirement("team").and_then(TypeRequirement::single_value), Some("shop"));
        assert!(sold.requirement(HOSTNAME_LABEL).is_none());
        let offering = &sold.offerings[0];
        assert_eq!((offering.zone(), offering.price_source), (Some("zone-a"), PriceSource::Estimate));
        assert!((offering.price - (4.0 * 0.03 + 12.0 * 0.004)).abs() < 1e-9, "{}", offering.price);
        assert_eq!(OfferingKey::of(&sold, offering), offering_of(&key, &group));
        let pool = pool_of(&key, &group);
        let labels = pool.spec.template.metadata.labels.unwrap();
        assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("team".to_owned(), "shop".to_owned())]);
        assert_eq!(pool.spec.limits.unwrap()[NODES_RESOURCE].0, "4");
        assert_eq!(pool.spec.template.spec.taints.unwrap()[0].key, "dedicated");
    }
}
