//! §2: order, refusals, the ask, relaxation, the queue.

use super::*;

#[test]
fn larger_pods_come_first_then_memory_age_uid_and_name() {
    let mut six = pods("f e d c b a", "x", |_| {});
    cpu(&mut six[0], 1500);
    six[1].requests.insert("memory".to_owned(), 2000);
    six[2].uid = "0".to_owned();
    six[3].uid = "1".to_owned();
    six[4].uid = "1".to_owned();
    six[5].created = Some(7);
    let big = world(six).with(|world| world.types = vec![ty("large", 8000, 0.4)]);
    // No creation time comes before any time; uid 0 before 1; equal uids by name.
    check(&big, &["default large z1 spot: f e d b c a"]);
}

#[test]
fn priority_does_not_matter_at_first() {
    let mut two = pods("a b", "x", |_| {});
    two[1].priority = 100;
    check(&world(two), &["default small z1 spot: a b"]);
}

#[test]
fn bound_and_daemon_pods_are_not_packed() {
    let daemon = pod("d").with(|pod| pod.is_daemon = true);
    let world = world(vec![bound("b", "n1"), daemon]).with(|world| world.nodes = vec![node("n1")]);
    check(&world, &[]);
}

#[track_caller]
fn refused_because(change: impl Fn(&mut Pod), part: &str) {
    let mut p = pod("p");
    change(&mut p);
    let outcome = schedule(&world(vec![p]), &Options::default());
    let reason = &outcome.refused["default/p"];
    assert!(reason.contains(part), "{reason}");
    assert!(outcome.machines.is_empty());
}

#[test]
fn claims_fields_and_given_reasons_are_refused() {
    refused_because(|pod| pod.uses_resource_claims = true, "resource claims");
    refused_because(|pod| pod.uses_match_fields = true, "matchFields");
    refused_because(|pod| pod.refused = Some("claim `x` is missing".to_owned()), "claim `x`");
}

#[test]
fn restricted_keys_are_refused() {
    for key in [
        HOST,
        "karpenter.sh/registered",
        "sub.karpenter.sh/x",
        "karpenter.kwok.sh/kwoknodeclass",
        "karpenter.k8s.aws/instance-family",
    ] {
        refused_because(|pod| select(pod, key, "v"), "restricted");
        refused_because(
            |pod| require(pod, vec![vec![expr(ZONE, "Exists", &[])], vec![expr(key, "Exists", &[])]]),
            "restricted",
        );
    }
    // A domain that only ends in the same letters is free; it then fails as an unknown label.
    refused_because(|pod| select(pod, "xkarpenter.sh/a", "v"), "does not match");
}

#[test]
fn preferred_terms_are_not_checked() {
    let p = pod("p").with(|pod| pod.preferred_terms = vec![(1, vec![expr(HOST, "In", &["n9"])])]);
    check(&world(vec![p]), &["default small z1 spot: p"]);
}

#[test]
fn malformed_keys_operators_and_numbers_are_refused() {
    refused_because(|pod| select(pod, "-bad", "v"), "malformed");
    refused_because(|pod| select(pod, "Up.per/x/y", "v"), "malformed");
    refused_because(|pod| require(pod, vec![vec![expr("a", "Near", &["1"])]]), "unknown");
    for values in [&["x"] as &[&str], &["-1"], &["1", "2"], &[]] {
        refused_because(|pod| require(pod, vec![vec![expr("a", "Gt", values)]]), "one integer");
    }
}

#[test]
fn unknown_capacity_types_are_refused() {
    refused_because(|pod| select(pod, CAPACITY, "cheap"), "capacity type");
    let p = pod("p").with(|pod| require(pod, vec![vec![expr(CAPACITY, "In", &["cheap", "on-demand"])]]));
    check(&world(vec![p]), &["default small z1 on-demand: p"]);
}

#[test]
fn staying_away_in_every_term_is_refused_up_front() {
    let away = || vec![expr(POOL, "DoesNotExist", &[])];
    refused_because(|pod| require(pod, vec![away(), away()]), "asks for nodes without");
    let one_way = pod("p").with(|pod| require(pod, vec![away(), vec![expr(POOL, "Exists", &[])]]));
    check(&world(vec![one_way]), &["default small z1 spot: p"]);
}

#[test]
fn no_terms_and_empty_terms_match_nothing() {
    check(&world(vec![pod("p").with(|pod| require(pod, vec![]))]), &["refused: p"]);
    check(&world(vec![pod("p").with(|pod| require(pod, vec![vec![]]))]), &["refused: p"]);
    let second = pod("p").with(|pod| require(pod, vec![vec![], vec![expr(ZONE, "In", &["z3"])]]));
    check(&world(vec![second]), &["default small z3 spot: p"]);
}

#[test]
fn required_terms_are_tried_in_turn() {
    let p = pod("p").with(|pod| {
        require(pod, vec![vec![expr(ZONE, "In", &["nowhere"])], vec![expr(ZONE, "In", &["z2"])]]);
    });
    check(&world(vec![p]), &["default small z2 spot: p"]);
}

#[test]
fn the_heaviest_preferred_term_is_part_of_the_ask() {
    let p = pod("p").with(|pod| {
        pod.preferred_terms = vec![
            (1, vec![expr(ZONE, "In", &["z1"])]),
            (9, vec![expr(ZONE, "In", &["z2"])]),
            (9, vec![expr(ZONE, "In", &["z3"])]),
        ];
    });
    check(&world(vec![p.clone()]), &["default small z2 spot: p"]);
    let ignore = Options { respect_preferences: false, ..Options::default() };
    check_with(&world(vec![p]), &ignore, &["default small z1 spot: p"]);
}

#[test]
fn an_impossible_preference_is_dropped_and_the_next_counts() {
    let p = pod("p").with(|pod| {
        pod.preferred_terms =
            vec![(9, vec![expr(ZONE, "In", &["nowhere"])]), (1, vec![expr(ZONE, "In", &["z3"])])];
    });
    check(&world(vec![p]), &["default small z3 spot: p"]);
}

#[test]
fn required_terms_go_before_preferences() {
    // Rung 1 drops the first required term although dropping the preference would have saved it.
    let p = pod("p").with(|pod| {
        require(pod, vec![vec![expr(ZONE, "In", &["z1"])], vec![expr(ZONE, "In", &["z2"])]]);
        pod.preferred_terms = vec![(1, vec![expr(ZONE, "In", &["z2"])])];
    });
    check(&world(vec![p]), &["default small z2 spot: p"]);
}

#[test]
fn preferred_affinity_goes_before_preferred_anti_affinity() {
    // Wanted: next to `db` (on n1 in z1), away from `web` (on n1 too). Both cannot hold; affinity is dropped first, and
    // staying away from `web` in z1 leaves z2.
    let p = pod("p").with(|pod| {
        pod.preferred_affinity = vec![(100, term(ZONE, "db"))];
        pod.preferred_anti_affinity = vec![(1, term(ZONE, "web"))];
    });
    let world =
        world(vec![p, bound("db", "n1"), bound("web", "n1")]).with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["default small z2 spot: p"]);
}

#[test]
fn soft_spread_holds_until_relaxed() {
    let soft = |pod: &mut Pod| pod.spread = vec![Spread { hard: false, ..spread(ZONE, "x") }];
    check(&world(pods("a b", "x", soft)), &["default small z1 spot: a", "default small z2 spot: b"]);
    let one_zone = world(pods("a b", "x", soft)).with(|world| {
        world.pools[0].requirements = vec![expr(ZONE, "In", &["z1"])];
    });
    // One domain only: the skew within it is always 1.
    check(&one_zone, &["default small z1 spot: a b"]);
    let ignore = Options { respect_preferences: false, ..Options::default() };
    check_with(&world(pods("a b", "x", soft)), &ignore, &["default small z1 spot: a b"]);
}

#[test]
fn the_last_constraint_takes_the_place_of_a_dropped_one() {
    use super::super::pods::ladder;
    let soft = |key: &str| Spread { hard: false, ..spread(key, "x") };
    let p = pod("p").with(|pod| pod.spread = vec![soft("a"), spread("b", "x"), soft("c"), spread("d", "x")]);
    let keys: Vec<Vec<String>> = ladder(&p, true, false)
        .iter()
        .map(|rung| rung.pod.spread.iter().map(|spread| spread.key.clone()).collect())
        .collect();
    assert_eq!(keys, [vec!["a", "b", "c", "d"], vec!["d", "b", "c"], vec!["d", "b"]]);
}

#[test]
fn soft_taints_are_hard_until_the_last_rung() {
    let soft = |world: &mut World| {
        world.pools = vec![
            pool("tainted").with(|pool| {
                pool.weight = 10;
                pool.taints = vec![taint("slow", "PreferNoSchedule")];
            }),
            pool("plain"),
        ];
    };
    check(&world(vec![pod("p")]).with(soft), &["plain small z1 spot: p"]);
    let only = world(vec![pod("p")]).with(|world| {
        soft(world);
        world.pools.truncate(1);
    });
    check(&only, &["tainted small z1 spot: p"]);
    let tolerant = pod("p").with(|pod| pod.tolerations = vec![tolerate("slow")]);
    check(&world(vec![tolerant]).with(soft), &["tainted small z1 spot: p"]);
}

#[test]
fn a_soft_taint_of_a_node_alone_allows_the_last_rung() {
    let world = world(vec![pod("p")]).with(|world| {
        world.pools.clear();
        world.nodes = vec![node("n1").with(|node| node.taints = vec![taint("slow", "PreferNoSchedule")])];
    });
    check(&world, &["on n1: p"]);
}

#[test]
fn a_pod_that_waits_for_another_is_tried_again() {
    // `a` comes first but needs `z` in its zone; z exists only after a's first try.
    let mut two = vec![pod("a"), pod("z")];
    two[0].affinity = vec![term(ZONE, "z")];
    check(&world(two), &["default small z1 spot: z a"]);
}

#[test]
fn every_turn_starts_at_the_first_rung() {
    // In the first turn `a` finds no place on any rung; in the second its preference (z2) counts again.
    let mut two = vec![pod("a"), pod("z")];
    two[0].affinity = vec![term("karpenter.sh/nodepool", "z")];
    two[0].preferred_terms = vec![(1, vec![expr(ZONE, "In", &["z2"])])];
    check(&world(two), &["default small z2 spot: z a"]);
}

#[test]
fn tolerations_match_by_key_value_effect_and_number() {
    use super::super::pods::is_tolerated;
    let toleration = |key: Option<&str>, operator: &str, value: &str, effect: Option<&str>| Toleration {
        key: key.map(str::to_owned),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.map(str::to_owned),
    };
    let five = Taint { key: "a".to_owned(), value: "5".to_owned(), effect: "NoSchedule".to_owned() };
    let tolerated = |toleration: Toleration| is_tolerated(&five, &[toleration]);
    assert!(tolerated(toleration(Some("a"), "Equal", "5", None)));
    assert!(tolerated(toleration(Some("a"), "", "5", Some("NoSchedule"))));
    assert!(!tolerated(toleration(Some("a"), "Equal", "6", None)));
    assert!(!tolerated(toleration(Some("a"), "Exists", "", Some("NoExecute"))));
    assert!(tolerated(toleration(None, "Exists", "", None)));
    assert!(!tolerated(toleration(None, "Equal", "5", None)));
    assert!(tolerated(toleration(Some("a"), "Gt", "4", None)));
    assert!(!tolerated(toleration(Some("a"), "Gt", "5", None)));
    assert!(tolerated(toleration(Some("a"), "Lt", "6", None)));
    assert!(!tolerated(toleration(Some("a"), "Gt", "04", None)));
}
