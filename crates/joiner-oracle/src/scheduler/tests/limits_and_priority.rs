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
    // 9 cpu: the first machine may still become `large` (8), so two of three find 1 left. In the next pass it counts as `small` (2), and the
    // second machine holds 2 too, of the 7 that are left; in the one after that the third finds 5.
    let summary = ["default small z1 spot: a", "default small z1 spot: b", "default small z1 spot: c"];
    check(&limited(apart("a b c"), &[("cpu", 9000)]), &summary);
    // Asking for the type narrows at once.
    let small =
        || apart("a b").into_iter().map(|pod| pod.with(|pod| select(pod, TYPE, "small"))).collect::<Vec<_>>();
    check(&limited(small(), &[("cpu", 9000)]), &["default small z1 spot: a", "default small z1 spot: b"]);
}

/// The types that the machines of a world end with.
fn options(world: &World) -> Vec<Vec<String>> {
    schedule(world, &Options::default()).machines.into_iter().map(|machine| machine.type_names).collect()
}

#[test]
fn trimmed_machines_take_back_what_nobody_needed() {
    // 9 cpu: three machines of 2 leave 3, so none can become `large`.
    assert_eq!(options(&limited(apart("a b c"), &[("cpu", 9000)])), [["small"], ["small"], ["small"]]);
    // 11 cpu: the first pass opens one that may be `large`; two of 2 leave 7, and the first needs 6 of them for that.
    assert_eq!(options(&limited(apart("a b"), &[("cpu", 11000)])), [vec!["small", "large"], vec!["small"]]);
}

#[test]
fn a_pass_that_places_nothing_leaves_machines_as_they_were() {
    // One cpu short even if the first machine is the smallest.
    let world = limited(apart("a b"), &[("cpu", 3000)]);
    check(&world, &["default small z1 spot: a", "refused: b"]);
    let world = limited(
        pods("a big", "x", |pod| {
            if pod.name == "big" {
                cpu(pod, 7000);
                select(pod, CAPACITY, "on-demand");
            } else {
                select(pod, CAPACITY, "spot");
            }
        }),
        &[("cpu", 8000)],
    );
    // `big` comes first and takes all.
    check(&world, &["default large z1 on-demand: big", "refused: a"]);
}

#[test]
fn min_values_keep_more_than_what_is_bought() {
    let two_types = |limit| {
        limited(apart("a b"), &[("cpu", limit)]).with(|world| {
            let mut expr = expr(TYPE, "Exists", &[]);
            expr.min_values = Some(2);
            world.pools[0].requirements = vec![expr];
        })
    };
    // Two types each, so each counts as `large`.
    check(&two_types(16000), &["default small z1 spot: a", "default small z1 spot: b"]);
    check(&two_types(15000), &["default small z1 spot: a", "refused: b"]);
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
