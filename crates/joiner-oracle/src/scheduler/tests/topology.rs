//! §5: spread, affinity, anti-affinity, and the choice of values.

use super::*;

fn in_zones(nodes: &[(&str, &str)]) -> Vec<Node> {
    nodes
        .iter()
        .map(|(name, zone)| node(name).with(|node| _ = node.labels.insert(ZONE.into(), (*zone).into())))
        .collect()
}

/// A node nothing fits on any more.
fn full(node: Node) -> Node {
    node.with(|node| _ = node.allocatable.insert("cpu".to_owned(), 0))
}

fn counted(name: &str, node: &str, app: &str) -> Pod {
    bound(name, node).with(|pod| {
        pod.labels = labels(&[("app", app)]);
        pod.requests = resources(&[("pods", 1)]);
    })
}

#[test]
fn spread_takes_the_emptiest_zone_by_name() {
    let spread_out = pods("a b c d", "x", |pod| pod.spread = vec![spread(ZONE, "x")]);
    check(
        &world(spread_out),
        &["default small z1 spot: a d", "default small z2 spot: b", "default small z3 spot: c"],
    );
}

#[test]
fn spread_counts_bound_pods() {
    let world = world(vec![
        pod("p").with(|pod| {
            pod.labels = labels(&[("app", "x")]);
            pod.spread = vec![spread(ZONE, "x")];
        }),
        counted("b1", "n1", "x"),
        counted("b2", "n2", "x"),
    ])
    .with(|world| world.nodes = in_zones(&[("n1", "z1"), ("n2", "z2")]).into_iter().map(full).collect());
    check(&world, &["default small z3 spot: p"]);
}

#[test]
fn terminating_pods_and_other_namespaces_do_not_count() {
    let mut all = pods("p", "x", |pod| pod.spread = vec![spread(ZONE, "x")]);
    all.push(counted("gone", "n1", "x").with(|pod| pod.terminating = true));
    all.push(counted("far", "n1", "x").with(|pod| pod.namespace = "other".to_owned()));
    let world = world(all).with(|world| world.nodes = vec![full(node("n1"))]);
    check(&world, &["default small z1 spot: p"]);
}

#[test]
fn a_pod_that_does_not_match_itself_adds_nothing() {
    // Two pods named y spread over x: nobody counts, so both stay in z1.
    let world = world(pods("a b", "y", |pod| pod.spread = vec![spread(ZONE, "x")]));
    check(&world, &["default small z1 spot: a b"]);
}

#[test]
fn a_nil_selector_matches_nothing_and_an_empty_one_everything() {
    let nil =
        world(pods("a b", "x", |pod| pod.spread = vec![Spread { selector: None, ..spread(ZONE, "x") }]));
    check(&nil, &["default small z1 spot: a b"]);
    let everything = Some(Selector { expressions: Vec::new() });
    let all = world(pods("a b", "x", |pod| {
        pod.spread = vec![Spread { selector: everything.clone(), ..spread(ZONE, "x") }];
    }));
    check(&all, &["default small z1 spot: a", "default small z2 spot: b"]);
}

#[test]
fn max_skew_allows_that_much_more() {
    let skew = |pod: &mut Pod| pod.spread = vec![Spread { max_skew: 2, ..spread(ZONE, "x") }];
    // z1 is at 2 − 0 ≤ 2, and the opened machine is asked before a new one.
    check(&world(pods("a b", "x", skew)), &["default small z1 spot: a b"]);
}

#[test]
fn hostname_spread_only_looks_at_its_own_host() {
    let world = world(pods("a b c", "x", |pod| {
        cpu(pod, 100);
        pod.spread = vec![spread(HOST, "x")];
    }));
    check(&world, &["default small z1 spot: a", "default small z1 spot: b", "default small z1 spot: c"]);
}

#[test]
fn min_domains_above_the_domains_hold_the_minimum_at_zero() {
    let world_with = |min_domains: Option<i32>| {
        world(pods("a b c", "x", |pod| pod.spread = vec![Spread { min_domains, ..spread(ZONE, "x") }]))
            .with(|world| world.pools[0].requirements = vec![expr(ZONE, "In", &["z1", "z2"])])
    };
    check(&world_with(None), &["default small z1 spot: a c", "default small z2 spot: b"]);
    check(&world_with(Some(2)), &["default small z1 spot: a c", "default small z2 spot: b"]);
    check(&world_with(Some(3)), &["default small z1 spot: a", "default small z2 spot: b", "refused: c"]);
}

#[test]
fn domains_are_those_the_pod_can_use() {
    // A second pool offers z9, but its taint keeps the pod out: z9 does not hold the minimum at zero.
    let far = |taints: Vec<Taint>| {
        world(pods("a b c d", "x", |pod| pod.spread = vec![spread(ZONE, "x")])).with(|world| {
            world.pools[0].requirements = vec![expr(ZONE, "In", &["z1", "z2"])];
            world.pools.push(pool("a-far").with(|pool| {
                pool.requirements = vec![expr(ZONE, "In", &["z3"])];
                pool.taints = taints.clone();
                pool.limits = resources(&[("nodes", 0)]);
            }));
        })
    };
    check(
        &far(vec![taint("no", "NoSchedule")]),
        &["default small z1 spot: a c", "default small z2 spot: b d"],
    );
    check(&far(vec![]), &["default small z1 spot: a", "default small z2 spot: b", "refused: c d"]);
}

#[test]
fn domains_respect_the_strict_ask_not_the_preference() {
    let strict = world(pods("a b c", "x", |pod| {
        pod.spread = vec![spread(ZONE, "x")];
        require(pod, vec![vec![expr(ZONE, "In", &["z1", "z2"])]]);
    }));
    check(&strict, &["default small z1 spot: a c", "default small z2 spot: b"]);
    // Preferring z1: a goes there; for b the other zones count, so the preference gives way.
    let preferred = world(pods("a b", "x", |pod| {
        pod.spread = vec![spread(ZONE, "x")];
        pod.preferred_terms = vec![(1, vec![expr(ZONE, "In", &["z1"])])];
    }));
    check(&preferred, &["default small z1 spot: a", "default small z2 spot: b"]);
}

#[test]
fn the_node_filter_leaves_out_nodes_the_pod_cannot_use() {
    let build = |honor_affinity: bool| {
        let mut all = pods("p", "x", |pod| {
            pod.spread = vec![Spread { honor_affinity, ..spread(ZONE, "x") }];
            select(pod, "team", "a");
        });
        all.push(counted("b1", "n1", "x"));
        world(all).with(|world| {
            world.nodes = vec![full(node("n1"))];
            world.pools[0].labels = labels(&[("team", "a")]);
            world.pools[0].requirements = vec![expr(ZONE, "In", &["z1", "z2"])];
        })
    };
    // n1 lacks team=a: with Honor its pod does not count.
    check(&build(true), &["default small z1 spot: p"]);
    check(&build(false), &["default small z2 spot: p"]);
}

#[test]
fn the_taint_policy_leaves_out_tainted_nodes_when_asked() {
    let build = |honor_taints: bool| {
        let mut all = pods("p", "x", |pod| pod.spread = vec![Spread { honor_taints, ..spread(ZONE, "x") }]);
        all.push(counted("b1", "n1", "x"));
        world(all).with(|world| {
            world.nodes = vec![full(node("n1").with(|node| node.taints = vec![taint("no", "NoSchedule")]))];
        })
    };
    check(&build(false), &["default small z2 spot: p"]);
    check(&build(true), &["default small z1 spot: p"]);
}

#[test]
fn a_node_without_the_key_is_refused_for_spread() {
    let world = world(pods("p", "x", |pod| pod.spread = vec![spread("rack", "x")]))
        .with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["refused: p"]);
}

#[test]
fn a_custom_key_spreads_over_labels_and_in_requirements() {
    let world = world(pods("a b c", "x", |pod| pod.spread = vec![spread("rack", "x")])).with(|world| {
        world.pools = vec![
            pool("one").with(|pool| pool.labels = labels(&[("rack", "r1")])),
            pool("two").with(|pool| pool.requirements = vec![expr("rack", "In", &["r2", "r3"])]),
        ];
    });
    // Pools by name descending: `two` gives r2, then r3; only then is r1 of `one` the emptiest.
    check(&world, &["two small z1 spot: a", "two small z1 spot: b", "one small z1 spot: c"]);
}

#[test]
fn spread_by_capacity_type_pins_the_offering() {
    let world = world(pods("a b", "x", |pod| pod.spread = vec![spread(CAPACITY, "x")]));
    check(&world, &["default small z1 spot: a", "default small z1 on-demand: b"]);
}

#[test]
fn spread_over_pools_opens_one_in_each() {
    let world = world(pods("a b", "x", |pod| pod.spread = vec![spread(POOL, "x")]))
        .with(|world| world.pools = vec![pool("one"), pool("two")]);
    check(&world, &["two small z1 spot: a", "one small z1 spot: b"]);
}

#[test]
fn several_keys_vary_the_last_by_name_fastest() {
    // Keys: capacity type (karpenter.sh/…) before zone (topology…). a: z1 at the lowest price. b must leave both: on-demand z2.
    let world = world(pods("a b c", "x", |pod| pod.spread = vec![spread(ZONE, "x"), spread(CAPACITY, "x")]));
    check(&world, &["default small z1 spot: a", "default small z2 on-demand: b", "default small z3 spot: c"]);
}

#[test]
fn a_value_without_offering_is_passed_over() {
    let world = world(pods("a", "x", |pod| pod.spread = vec![spread(ZONE, "x")])).with(|world| {
        for ty in &mut world.types {
            ty.offerings.retain(|offering| !offering.requirements[0].values.contains(&"z1".to_owned()));
        }
    });
    check(&world, &["default small z2 spot: a"]);
}

#[test]
fn a_machine_counts_once_its_value_is_single() {
    // `first` (selected by the spread, not its owner) stands on a machine open to all zones: not counted, so `p` is
    // content with z1 there. Then the machine is in z1 with both, and `q` goes to z2.
    let mut all = pods("p q", "x", |pod| {
        cpu(pod, 500);
        pod.spread = vec![spread(ZONE, "x")];
    });
    all.push(pod("first").with(|pod| pod.labels = labels(&[("app", "x")])));
    check(&world(all), &["default small z1 spot: first p", "default small z2 spot: q"]);
}

#[test]
fn affinity_follows_the_other_pod() {
    let mut all = pods("p", "web", |pod| pod.affinity = vec![term(ZONE, "db")]);
    all.push(bound("db", "n2"));
    let world = world(all).with(|world| {
        world.nodes = in_zones(&[("n1", "z1"), ("n2", "z2")]).into_iter().map(full).collect();
    });
    check(&world, &["default small z2 spot: p"]);
}

#[test]
fn affinity_to_itself_starts_anywhere_and_then_stays() {
    let world = world(pods("a b c", "x", |pod| {
        cpu(pod, 2000);
        pod.affinity = vec![term(ZONE, "x")];
    }))
    .with(|world| world.types.truncate(1));
    check(&world, &["default small z1 spot: a", "default small z1 spot: b", "default small z1 spot: c"]);
}

#[test]
fn affinity_to_itself_starts_nowhere_else_once_somebody_stands() {
    let build = |matching: &str| {
        let mut all = pods("p", "x", |pod| {
            pod.affinity = vec![term(ZONE, "x")];
            select(pod, ZONE, "z1");
        });
        all.push(counted("there", "n2", matching));
        world(all).with(|world| world.nodes = in_zones(&[("n2", "z2")]))
    };
    check(&build("x"), &["refused: p"]);
    check(&build("y"), &["default small z1 spot: p"]);
}

#[test]
fn affinity_to_nobody_is_refused() {
    check(&world(pods("p", "web", |pod| pod.affinity = vec![term(ZONE, "db")])), &["refused: p"]);
}

#[test]
fn affinity_needs_one_pod_that_matches_all_terms() {
    let both = |pod: &mut Pod| {
        pod.affinity = vec![
            term(ZONE, "db"),
            AffinityTerm {
                selector: Some(Selector { expressions: vec![expr("tier", "In", &["gold"])] }),
                ..term(ZONE, "db")
            },
        ];
    };
    let mut split = pods("p", "web", both);
    split.push(counted("db", "n1", "db"));
    split.push(counted("other", "n1", "y").with(|pod| _ = pod.labels.insert("tier".into(), "gold".into())));
    check(&world(split.clone()).with(|world| world.nodes = vec![node("n1")]), &["refused: p"]);
    split[1].labels.insert("tier".to_owned(), "gold".to_owned());
    check(&world(split).with(|world| world.nodes = vec![node("n1")]), &["on n1: p"]);
}

#[test]
fn affinity_by_hostname_shares_the_machine() {
    let mut all = pods("p", "web", |pod| pod.affinity = vec![term(HOST, "db")]);
    all.extend(pods("a b", "db", |pod| cpu(pod, 4000)));
    // The two large ones fill a machine: no room for p, and no other host has them.
    check(&world(all), &["default large z1 spot: a b", "refused: p"]);
    let mut smaller = pods("p", "web", |pod| pod.affinity = vec![term(HOST, "db")]);
    smaller.extend(pods("a b", "db", |pod| cpu(pod, 3000)));
    check(&world(smaller), &["default large z1 spot: a b p"]);
}

#[test]
fn anti_affinity_takes_one_zone_each() {
    let world = world(pods("a b c d", "x", |pod| pod.anti_affinity = vec![term(ZONE, "x")]));
    check(
        &world,
        &["default small z1 spot: a", "default small z2 spot: b", "default small z3 spot: c", "refused: d"],
    );
}

#[test]
fn anti_affinity_does_not_mind_nodes_without_the_key() {
    let world = world(pods("a b", "x", |pod| {
        cpu(pod, 100);
        pod.anti_affinity = vec![term("rack", "x")];
    }))
    .with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["on n1: a b"]);
}

#[test]
fn anti_affinity_without_the_key_passes_on_new_machines_too() {
    let world = world(pods("a b", "x", |pod| pod.anti_affinity = vec![term("rack", "x")]));
    check(&world, &["default small z1 spot: a b"]);
}

#[test]
fn bound_pods_keep_others_away() {
    let mut all = pods("p", "web", |_| {});
    all.push(bound("loner", "n1").with(|pod| {
        pod.requests = resources(&[("pods", 1)]);
        pod.anti_affinity = vec![term(ZONE, "web")];
    }));
    let world = world(all).with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["default small z2 spot: p"]);
}

#[test]
fn pods_placed_in_the_run_keep_others_away() {
    let mut all = pods("p", "web", |_| {});
    all.extend(pods("loner", "y", |pod| {
        cpu(pod, 1500);
        pod.anti_affinity = vec![term(ZONE, "web")];
    }));
    check(&world(all), &["default small z1 spot: loner", "default small z2 spot: p"]);
}

#[test]
fn a_pod_selected_by_a_group_pins_its_machine() {
    // `web` comes first (larger) and is selected by loner's anti-affinity: its machine is pinned to z1, so loner knows
    // that z2 is free.
    let mut all = pods("web", "web", |pod| cpu(pod, 1800));
    all.extend(pods("loner", "y", |pod| pod.anti_affinity = vec![term(ZONE, "web")]));
    check(&world(all), &["default small z1 spot: web", "default small z2 spot: loner"]);
}

#[test]
fn selected_pods_prefer_values_already_occupied() {
    // Three targets of an affinity group: the first stands in z2 by its own wish, the others follow although z1 comes
    // first by name. Each fills a machine.
    let mut all = pods("t1 t2 t3", "db", |pod| cpu(pod, 8000));
    select(&mut all[0], ZONE, "z2");
    all.extend(pods("web", "web", |pod| pod.affinity = vec![term(ZONE, "db")]));
    check(
        &world(all),
        &[
            "default large z2 spot: t1",
            "default large z2 spot: t2",
            "default large z2 spot: t3",
            "default small z2 spot: web",
        ],
    );
}

#[test]
fn namespaces_of_a_term() {
    let build = |change: &dyn Fn(&mut AffinityTerm)| {
        let mut all = pods("p", "web", |pod| {
            let mut away = term(ZONE, "db");
            change(&mut away);
            pod.anti_affinity = vec![away];
        });
        all.push(counted("db", "n1", "db").with(|pod| pod.namespace = "other".to_owned()));
        world(all).with(|world| world.nodes = vec![full(node("n1"))])
    };
    let by_team = |team: &str| Some(Selector { expressions: vec![expr("team", "In", &[team])] });
    let free = ["default small z1 spot: p"];
    let away = ["default small z2 spot: p"];
    check(&build(&|_| {}), &free);
    check(&build(&|term| term.namespaces = vec!["other".to_owned()]), &away);
    check(&build(&|term| term.namespace_selector = by_team("side")), &away);
    check(&build(&|term| term.namespace_selector = by_team("main")), &free);
    check(&build(&|term| term.namespace_selector = Some(Selector { expressions: Vec::new() })), &away);
    check(
        &build(&|term| {
            term.namespaces = vec!["other".to_owned()];
            term.namespace_selector = by_team("main");
        }),
        &away,
    );
}

#[test]
fn hostname_falls_back_to_the_node_name() {
    let bare = node("n1").with(|node| _ = node.labels.remove(HOST));
    let world = world(pods("a b", "x", |pod| pod.anti_affinity = vec![term(HOST, "x")]))
        .with(|world| world.nodes = vec![bare]);
    check(&world, &["default small z1 spot: b", "on n1: a"]);
}

#[test]
fn preferred_anti_affinity_holds_while_it_can() {
    let world = world(pods("a b c d", "x", |pod| {
        cpu(pod, 500);
        pod.preferred_anti_affinity = vec![(1, term(ZONE, "x"))];
    }));
    check(&world, &["default small z1 spot: a d", "default small z2 spot: b", "default small z3 spot: c"]);
}

#[test]
fn a_label_that_must_exist_but_has_no_name_suits_no_rule() {
    let build = |operator: &str, values: &[&str]| {
        world(pods("a b", "x", |pod| {
            cpu(pod, 100);
            pod.anti_affinity = vec![term("rack", "x")];
        }))
        .with(|world| world.pools[0].requirements = vec![expr("rack", operator, values)])
    };
    check(&build("Exists", &[]), &["refused: a b"]);
    // `NotIn` alone leaves the machine without the label.
    check(&build("NotIn", &["r1"]), &["default small z1 spot: a b"]);
    check(&build("In", &["r1", "r2"]), &["default small z1 spot: a", "default small z1 spot: b"]);
}

#[test]
fn the_ask_can_name_what_the_pool_leaves_open() {
    let world = world(pods("a b c", "x", |pod| {
        pod.spread = vec![spread("rack", "x")];
        require(pod, vec![vec![expr("rack", "In", &["r1", "r2"])]]);
    }))
    .with(|world| world.pools[0].requirements = vec![expr("rack", "Exists", &[])]);
    check(&world, &["default small z1 spot: a c", "default small z1 spot: b"]);
}

#[test]
fn the_filter_goes_by_the_pod_as_written_not_by_its_rung() {
    // The pod lands by its second term, but n1, which matches the first, still counts: z1 has one.
    let mut all = pods("p", "x", |pod| {
        pod.spread = vec![spread(ZONE, "x")];
        require(
            pod,
            vec![
                vec![expr("kind", "In", &["old"])],
                vec![expr("kind", "NotIn", &["old"]), expr(ZONE, "In", &["z1", "z2"])],
            ],
        );
    });
    all.push(counted("b1", "n1", "x"));
    let old = full(node("n1").with(|node| _ = node.labels.insert("kind".into(), "old".into())));
    check(&world(all).with(|world| world.nodes = vec![old]), &["default small z2 spot: p"]);
}

#[test]
fn a_future_machine_passes_the_filter_with_well_known_keys_open() {
    // `first` is alone on a machine that does not name the os; q's filter (os linux) still counts it in z1.
    let mut all = pods("q", "x", |pod| {
        pod.spread = vec![spread(ZONE, "x")];
        select(pod, "kubernetes.io/os", "linux");
    });
    all.push(pod("first").with(|pod| {
        cpu(pod, 8000);
        pod.labels = labels(&[("app", "x")]);
        select(pod, ZONE, "z1");
    }));
    check(&world(all), &["default large z1 spot: first", "default small z2 spot: q"]);
}
