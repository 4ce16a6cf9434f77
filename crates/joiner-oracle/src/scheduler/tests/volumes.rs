//! §8: volumes.

use super::*;

fn volume(claim: &str, alternatives: Vec<Vec<Expr>>) -> Volume {
    Volume { claim: format!("default/{claim}"), driver: Some("csi.example.com".to_owned()), alternatives }
}

fn zone_in(zone: &str) -> Vec<Expr> {
    vec![expr(ZONE, "In", &[zone])]
}

fn with_volumes(volumes: Vec<Volume>) -> Pod {
    pod("p").with(|pod| pod.volumes = volumes)
}

#[test]
fn a_volume_pins_the_zone() {
    check(&world(vec![with_volumes(vec![volume("c", vec![zone_in("z3")])])]), &["default small z3 spot: p"]);
}

#[test]
fn alternatives_are_tried_in_order() {
    let two = volume("c", vec![zone_in("nowhere"), zone_in("z3"), zone_in("z2")]);
    check(&world(vec![with_volumes(vec![two])]), &["default small z3 spot: p"]);
}

#[test]
fn several_claims_need_a_common_alternative() {
    let one = volume("c", vec![zone_in("z1"), zone_in("z2")]);
    let other = volume("d", vec![zone_in("z3"), zone_in("z2")]);
    check(&world(vec![with_volumes(vec![one.clone(), other])]), &["default small z2 spot: p"]);
    let never = volume("e", vec![zone_in("z3")]);
    check(&world(vec![with_volumes(vec![one, never])]), &["refused: p"]);
}

#[test]
fn an_unconstrained_volume_goes_anywhere() {
    check(&world(vec![with_volumes(vec![volume("c", vec![])])]), &["default small z1 spot: p"]);
    check(&world(vec![with_volumes(vec![volume("c", vec![vec![]])])]), &["default small z1 spot: p"]);
}

#[test]
fn a_volume_binds_real_nodes_too() {
    let nodes = vec![node("n1"), node("n2").with(|node| _ = node.labels.insert(ZONE.into(), "z2".into()))];
    let world =
        world(vec![with_volumes(vec![volume("c", vec![zone_in("z2")])])]).with(|world| world.nodes = nodes);
    check(&world, &["on n2: p"]);
}

#[test]
fn volumes_narrow_the_machine_and_never_the_ask() {
    // Spread over zones with a volume in z3: the domains stay z1, z2, z3, all empty, and z3 is valid.
    let spread_out = |names: &str| {
        pods(names, "x", |pod| {
            pod.spread = vec![spread(ZONE, "x")];
            pod.volumes = vec![volume(&pod.name, vec![zone_in("z3")])];
        })
    };
    check(&world(spread_out("a b")), &["default small z3 spot: a", "refused: b"]);
}

#[test]
fn attach_limits_count_distinct_claims() {
    let limited = node("n1").with(|node| _ = node.volume_limits.insert("csi.example.com".to_owned(), 1));
    let shared = |name: &str, claim: &str| {
        pod(name).with(|pod| {
            cpu(pod, 100);
            pod.volumes = vec![volume(claim, vec![])];
        })
    };
    let all =
        vec![shared("a", "one"), shared("b", "one"), shared("c", "two"), pod("d").with(|pod| cpu(pod, 50))];
    check(
        &world(all).with(|world| world.nodes = vec![limited]),
        &["default small z1 spot: c", "on n1: a b d"],
    );
}

#[test]
fn attach_limits_include_bound_pods() {
    let limited = node("n1").with(|node| _ = node.volume_limits.insert("csi.example.com".to_owned(), 1));
    let there = bound("b", "n1").with(|pod| pod.volumes = vec![volume("one", vec![])]);
    let world = world(vec![with_volumes(vec![volume("two", vec![])]), there])
        .with(|world| world.nodes = vec![limited]);
    check(&world, &["default small z1 spot: p"]);
}

#[test]
fn a_reserved_refusal_ends_the_search_of_alternatives() {
    // z2 has the only reservation, already held; the second alternative z1 is not tried.
    let reserved = Offering { reservation: Some(("r".to_owned(), 1)), ..offering("z2", "reserved", 0.01) };
    let mut two = pods("a b", "x", |pod| pod.anti_affinity = vec![term(HOST, "x")]);
    two[1].volumes = vec![volume("c", vec![zone_in("z2"), zone_in("z1")])];
    let world = world(two).with(|world| {
        world.types.truncate(1);
        world.types[0].offerings.push(reserved);
        world.types[0].requirements.retain(|expr| expr.key != CAPACITY);
    });
    check(&world, &["default small z2 reserved: a", "refused: b"]);
}
