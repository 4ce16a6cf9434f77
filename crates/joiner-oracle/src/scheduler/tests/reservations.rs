//! §7: reserved offerings.

use super::*;

/// `small` can also be had from reservation `r1` in z2, almost for free.
fn with_reservation(pods: Vec<Pod>, units: u32) -> World {
    world(pods).with(|world| reserve(&mut world.types[0], "r1", "z2", units))
}

fn reserve(ty: &mut InstanceType, id: &str, zone: &str, units: u32) {
    let reserved =
        Offering { reservation: Some((id.to_owned(), units)), ..offering(zone, "reserved", 0.001) };
    ty.offerings.push(reserved);
    for expr in &mut ty.requirements {
        if expr.key == CAPACITY && !expr.values.contains(&"reserved".to_owned()) {
            expr.values.push("reserved".to_owned());
        }
    }
}

fn apart(names: &str) -> Vec<Pod> {
    pods(names, "x", |pod| pod.anti_affinity = vec![term(HOST, "x")])
}

#[test]
fn a_machine_that_holds_a_reservation_ends_on_it() {
    let world = with_reservation(vec![pod("p")], 1);
    let outcome = schedule(&world, &Options::default());
    assert_eq!(summary(&outcome), ["default small z2 reserved: p"]);
    assert_eq!(outcome.machines[0].type_names, ["small"]);
}

#[test]
fn without_a_free_unit_the_pod_waits() {
    check(&with_reservation(apart("a b"), 1), &["default small z2 reserved: a", "refused: b"]);
    check(
        &with_reservation(apart("a b"), 2),
        &["default small z2 reserved: a", "default small z2 reserved: b"],
    );
}

#[test]
fn no_lighter_pool_is_used_while_waiting() {
    let world = with_reservation(apart("a b"), 1).with(|world| {
        world.pools[0].weight = 10;
        world
            .pools
            .push(pool("light").with(|pool| pool.requirements = vec![expr(CAPACITY, "In", &["spot"])]));
    });
    check(&world, &["default small z2 reserved: a", "refused: b"]);
}

#[test]
fn no_relaxation_while_waiting() {
    let mut two = apart("a b");
    two[1].preferred_terms = vec![(1, vec![expr(CAPACITY, "In", &["reserved"])])];
    require(&mut two[1], vec![vec![expr(ZONE, "In", &["z2"])], vec![expr(ZONE, "In", &["z1"])]]);
    // z1 has no reserved offering and would do, but the first rung ended the attempt.
    check(&with_reservation(two, 1), &["default small z2 reserved: a", "refused: b"]);
}

#[test]
fn a_pod_that_cannot_use_reservations_is_not_held_up() {
    let mut two = apart("a b");
    select(&mut two[1], CAPACITY, "spot");
    check(&with_reservation(two, 1), &["default small z2 reserved: a", "default small z1 spot: b"]);
}

#[test]
fn growing_may_not_lose_every_reservation() {
    // `b` would turn the machine into z1, where nothing is reserved: it gets its own machine.
    let mut two = pods("a b", "x", |pod| cpu(pod, 500));
    select(&mut two[1], ZONE, "z1");
    check(&with_reservation(two, 1), &["default small z2 reserved: a", "default small z1 spot: b"]);
}

#[test]
fn a_machine_holds_every_reservation_it_might_use() {
    // Two reservations of one unit each: the first machine holds both, so the second pod waits; narrowed to z2 it gives
    // one back.
    let build =
        |pods: Vec<Pod>| with_reservation(pods, 1).with(|world| reserve(&mut world.types[0], "r2", "z3", 1));
    check(&build(apart("a b")), &["default small z2 reserved: a", "refused: b"]);
    let mut three = apart("a b");
    three.push(pod("pin").with(|pod| {
        cpu(pod, 500);
        select(pod, ZONE, "z2");
    }));
    check(&build(three), &["default small z2 reserved: a pin", "default small z3 reserved: b"]);
}
