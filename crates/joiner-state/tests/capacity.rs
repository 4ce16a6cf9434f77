//! Overlays, costs, buffers and static pools as the snapshot has them.

mod build;

use build::*;
use joiner_api::instance_type::{Reservation, TypeRequirement};
use joiner_api::quantity::Quantity;
use joiner_api::{CapacityBuffer, CostModel, NodeOverlay};
use joiner_core::model::Catalogue;
use joiner_core::model::resources::lane_of;
use joiner_state::{Cluster, Lowered};
use serde_json::{Value, json};

const FPGA: &str = "example.com/fpga";

fn overlay(name: &str, spec: Value) -> NodeOverlay {
    object(json!({ "metadata": { "name": name }, "spec": spec }))
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).expect("a quantity")
}

/// Two pools, one pod that asks for every resource of interest, two types.
fn with_pools(overlays: &[NodeOverlay]) -> Cluster {
    let mut cluster = cluster();
    let mut large = instance_type("large", 8, 0.4);
    large.offerings[0].capacity_override.insert(FPGA.to_owned(), quantity("3"));
    large.offerings[1].reservation = Some(Reservation { id: "r-1".to_owned(), capacity: 2 });
    large.volume_limits.insert("csi.example.com".to_owned(), 7);
    large.offerings[1].available = false;
    cluster.add_catalogue(None, [large, instance_type("small", 2, 0.1)], &[]);
    for name in ["a", "b"] {
        cluster.add_nodepool(&pool(name)).expect("a valid pool");
    }
    let wants = pod("wants").with(
        "spec.containers.0.resources.requests",
        json!({ "cpu": "1", FPGA: "1", "example.com/lens": "1" }),
    );
    cluster.add_pod(&wants.build()).expect("a valid pod");
    for overlay in overlays {
        cluster.add_node_overlay(overlay).expect("a valid overlay");
    }
    cluster
}

fn catalogue_of<'l>(lowered: &'l Lowered, pool: &str) -> &'l Catalogue {
    let row = lowered.snapshot.pools.iter().find(|row| &*row.name == pool).expect("the pool");
    &lowered.snapshot.catalogues[row.catalogue.at()]
}

#[test]
fn pools_that_see_the_same_share_a_catalogue() {
    let lowered = with_pools(&[]).finish();
    assert_eq!(lowered.snapshot.catalogues.len(), 1);
    let lowered = with_pools(&[overlay("o", json!({ "requirements": [], "price": "1" }))]).finish();
    assert_eq!(lowered.snapshot.catalogues.len(), 2);
    let only_a = json!([{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"] }]);
    let lowered = with_pools(&[overlay("o", json!({ "requirements": only_a, "price": "1" }))]).finish();
    assert_eq!(lowered.snapshot.catalogues.len(), 2);
    assert!(catalogue_of(&lowered, "a").offerings.iter().all(|o| o.price_nano_usd == 1_000_000_000));
    assert_eq!(catalogue_of(&lowered, "b").offerings[0].price_nano_usd, 100_000_000);
}

#[test]
fn offerings_stay_in_order_of_price() {
    let large = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["large"] }]);
    let lowered = with_pools(&[overlay("o", json!({ "requirements": large, "price": "0.01" }))]).finish();
    let prices: Vec<i64> = catalogue_of(&lowered, "a").offerings.iter().map(|o| o.price_nano_usd).collect();
    assert!(prices.is_sorted(), "{prices:?}");
    assert_eq!(prices[0], 10_000_000);
}

/// The original drops what single offerings have of their own when a price is laid over them.
#[test]
fn overlaid_offerings_keep_everything_else() {
    let plain = with_pools(&[]).finish();
    let laid = with_pools(&[overlay("o", json!({ "requirements": [], "priceAdjustment": "+10%" }))]).finish();
    let (before, after) = (catalogue_of(&plain, "a"), catalogue_of(&laid, "a"));
    assert_eq!(before.offerings.len(), after.offerings.len());
    for (before, after) in before.offerings.iter().zip(&after.offerings) {
        assert_eq!(before.allocatable, after.allocatable);
        assert_eq!(before.available, after.available);
        assert_eq!(before.reservation, after.reservation);
        assert_eq!((before.zone, before.capacity_type), (after.zone, after.capacity_type));
        assert_eq!(after.price_nano_usd, (before.price_nano_usd as f64 * 1.1).round() as i64);
    }
    assert_eq!(before.types[0].volume_limits, after.types[0].volume_limits);
    let lane = laid.snapshot.vocabulary.names.known_lane(FPGA).expect("a lane");
    assert!(after.offerings.iter().any(|o| lane_of(&o.allocatable, lane) == 3), "the override is there");
}

#[test]
fn overlaid_capacity_leaves_overrides_alone() {
    let capacity = json!({ FPGA: "1", "example.com/lens": "2" });
    let laid = with_pools(&[overlay("o", json!({ "requirements": [], "capacity": capacity }))]).finish();
    let names = &laid.snapshot.vocabulary.names;
    let (fpga, lens) =
        (names.known_lane(FPGA).expect("a lane"), names.known_lane("example.com/lens").expect("a lane"));
    let catalogue = catalogue_of(&laid, "a");
    let mut seen: Vec<(i64, i64)> = catalogue
        .offerings
        .iter()
        .map(|o| (lane_of(&o.allocatable, fpga), lane_of(&o.allocatable, lens)))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(1, 2), (1, 2), (1, 2), (3, 2)]);
    assert!(catalogue.types.iter().all(|t| lane_of(&t.capacity, lens) == 2));
}

#[test]
fn a_key_that_only_the_offering_defines_is_defined() {
    let mut cluster = cluster();
    let mut special = instance_type("special", 2, 0.1);
    let block = TypeRequirement::one_of("example.com/block", ["b-7"]);
    let own = special.offerings[1].requirements.iter().cloned();
    special.offerings[1].requirements = own.chain([block]).collect();
    cluster.add_catalogue(None, [special], &[]);
    cluster.add_nodepool(&pool("a")).expect("valid");
    let block = json!([{ "key": "example.com/block", "operator": "In", "values": ["b-7"] }]);
    cluster.add_node_overlay(&overlay("o", json!({ "requirements": block, "price": "0" }))).expect("valid");
    let lowered = cluster.finish();
    let prices: Vec<i64> = catalogue_of(&lowered, "a").offerings.iter().map(|o| o.price_nano_usd).collect();
    assert_eq!(prices, [0, 100_000_000]);
}

#[test]
fn an_overlay_that_is_none_is_refused() {
    let mut cluster = cluster();
    let bad = overlay("bad", json!({ "requirements": [], "priceAdjustment": "10%" }));
    let problem = cluster.add_node_overlay(&bad).expect_err("no sign");
    assert_eq!((problem.object.as_str(), problem.path.as_str()), ("NodeOverlay bad", "spec.priceAdjustment"));
    assert!(problem.remedy.contains("with its sign"), "{problem}");
}

#[test]
fn commitments_are_offerings_with_units() {
    let mut cluster = with_pools(&[]);
    let small = json!([{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"] }]);
    let model: CostModel = object(json!({ "metadata": { "name": "m" }, "spec": { "commitments": [
        { "name": "paid", "requirements": small, "nodes": 3, "pricePerHour": 0.05 },
    ] } }));
    cluster.add_cost_model(&model).expect("a valid model");
    let lowered = cluster.finish();
    let rows: Vec<_> =
        lowered.snapshot.reservations.iter().map(|r| (&*r.id, r.capacity, r.commitment)).collect();
    assert_eq!(rows, [("commitment/paid", 3, true), ("r-1", 2, false)]);
    let catalogue = catalogue_of(&lowered, "a");
    assert_eq!(catalogue.offerings.len(), 6);
    assert_eq!(catalogue.offerings[0].price_nano_usd, 50_000_000);
    assert!(catalogue.offerings[0].reservation.is_some());
}

#[test]
fn two_models_may_not_share_a_commitment() {
    let mut cluster = cluster();
    for name in ["one", "two"] {
        let model: CostModel = object(json!({ "metadata": { "name": name }, "spec": { "commitments": [
            { "name": "paid", "requirements": [], "nodes": 3, "pricePerHour": 0 },
        ] } }));
        let added = cluster.add_cost_model(&model);
        assert_eq!(added.is_ok(), name == "one");
    }
}

#[test]
fn virtual_pods_share_no_class_with_real_ones() {
    let mut cluster = cluster();
    let spec = json!({ "priority": i32::MIN, "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }] });
    let template = json!({ "metadata": { "labels": { "app": "x" } }, "spec": spec });
    cluster
        .add_pod_template(&object(
            json!({ "metadata": { "name": "t", "namespace": "default" }, "template": template }),
        ))
        .expect("valid");
    let twin = json!({ "metadata": { "name": "twin", "namespace": "default", "labels": { "app": "x" } }, "spec": spec });
    cluster.add_pod(&object(twin)).expect("valid");
    let buffer: CapacityBuffer = object(json!({
        "metadata": { "name": "b", "namespace": "default" },
        "spec": { "podTemplateRef": { "name": "t" }, "replicas": 2 },
    }));
    cluster.add_capacity_buffer(&buffer).expect("valid");
    let lowered = cluster.finish();
    let snapshot = &lowered.snapshot;
    assert_eq!(lowered.buffers[0].pods.len(), 2);
    for pod in &lowered.buffers[0].pods {
        let row = &snapshot.pods[pod.at()];
        assert!(row.name.starts_with("default/buffer:b-"), "{}", row.name);
        assert!(snapshot.classes[row.class.at()].filler);
        assert_eq!(snapshot.classes[row.class.at()].priority, i32::MIN);
    }
    assert!(!class(snapshot, "default/twin").filler);
}

#[test]
fn more_virtual_pods_than_pods_are_allowed() {
    let mut cluster = Cluster::new(joiner_state::Options { max_pods: 10, ..Default::default() });
    let template = json!({ "spec": { "containers": [{ "name": "main" }] } });
    cluster
        .add_pod_template(&object(json!({ "metadata": { "name": "t" }, "template": template })))
        .expect("valid");
    let buffer: CapacityBuffer = object(json!({
        "metadata": { "name": "b" }, "spec": { "podTemplateRef": { "name": "t" }, "replicas": 2_000_000_000 },
    }));
    cluster.add_capacity_buffer(&buffer).expect("valid");
    let lowered = cluster.finish();
    let not_ready = lowered.buffers[0].not_ready.as_ref().expect("not ready");
    assert!(not_ready.message.contains("more than 10 pods"), "{}", not_ready.message);
}
