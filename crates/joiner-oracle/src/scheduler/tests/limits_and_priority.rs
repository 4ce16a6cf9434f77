//! §6 and §9: limits, and the repetition by priority.

use super::*;

fn limited(pods: Vec<Pod>, limits: &[(&str, i128)]) -> World {
    world(pods).with(|world| world.pools[0].limits = resources(limits))
}

fn apart(names: &str) -> Vec<Pod> {
    pods(names, "x", |pod| pod.anti_affinity = vec![term(HOST, "x")])
}

#[test]
fn nodes_are_counted_within_the_run() {
    check(&limited(apart("a b"), &[("nodes", 1)]), &["default small z1 spot: a", "refused: b"]);
    check(&limited(apart("a"), &[("nodes", 0)]), &["refused: a"]);
}

#[test]
fn existing_nodes_use_up_limits_unless_they_leave() {
    let of_pool = |leaving: bool| {
        node("n1").with(|node| {
            node.labels.insert(POOL.to_owned(), "default".to_owned());
            node.taints = vec![taint("no", "NoSchedule")];
            node.leaving = leaving;
        })
    };
    let with_node =
        |leaving| limited(apart("a"), &[("nodes", 1)]).with(|world| world.nodes = vec![of_pool(leaving)]);
    check(&with_node(false), &["refused: a"]);
    check(&with_node(true), &["default small z1 spot: a"]);
}

#[test]
fn types_above_what_is_left_are_dropped() {
    // 7 cpu left: only `small`, so three pods need two machines.
    check(
        &limited(pods("a b c", "x", |_| {}), &[("cpu", 7000)]),
        &["default small z1 spot: a b", "default small z1 spot: c"],
    );
}

#[test]
fn a_machine_holds_its_largest_type_until_it_narrows() {
    // 9 cpu: the first machine may still become `large` (8), so a second one finds 1 left.
    check(&limited(apart("a b"), &[("cpu", 9000)]), &["default small z1 spot: a", "refused: b"]);
    // Asking for the type narrows at once.
    let small =
        || apart("a b").into_iter().map(|pod| pod.with(|pod| select(pod, TYPE, "small"))).collect::<Vec<_>>();
    check(&limited(small(), &[("cpu", 9000)]), &["default small z1 spot: a", "default small z1 spot: b"]);
}

#[test]
fn narrowing_gives_back_what_was_held() {
    // `a` opens a machine of 8 or 2 cpu; `pin` (no room elsewhere) narrows it to small; the turn after, `b` finds 7 left.
    let mut all = apart("a b");
    all.push(pod("pin").with(|pod| {
        cpu(pod, 900);
        select(pod, TYPE, "small");
    }));
    check(&limited(all, &[("cpu", 9000)]), &["default small z1 spot: a pin", "default small z1 spot: b"]);
}

#[test]
fn a_limit_below_zero_drops_all() {
    let world = limited(apart("a"), &[("example.com/gpu", -1)]);
    check(&world, &["refused: a"]);
    check(&limited(apart("a"), &[("example.com/gpu", 0)]), &["default small z1 spot: a"]);
}

#[test]
fn the_next_pool_steps_in() {
    let world = limited(apart("a b"), &[("nodes", 1)]).with(|world| world.pools.push(pool("a-spare")));
    check(&world, &["default small z1 spot: a", "a-spare small z1 spot: b"]);
}

#[test]
fn a_wronged_priority_repeats_the_run() {
    let mut two = apart("a b");
    two[1].priority = 10;
    check(&limited(two, &[("nodes", 1)]), &["default small z1 spot: b", "refused: a"]);
}

#[test]
fn priority_does_not_help_where_the_limit_is_not_the_reason() {
    let mut two = apart("a b");
    two[1].priority = 10;
    select(&mut two[1], "team", "nowhere");
    check(&limited(two, &[("nodes", 1)]), &["default small z1 spot: a", "refused: b"]);
}

#[test]
fn equal_priorities_do_not_repeat_the_run() {
    let mut three = apart("a b");
    for pod in &mut three {
        pod.priority = 10;
    }
    check(&limited(three, &[("nodes", 1)]), &["default small z1 spot: a", "refused: b"]);
}
