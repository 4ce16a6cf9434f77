//! §4: which types stay, minValues, daemons, the cheapest offering.

use super::*;

#[test]
fn machines_grow_until_no_type_fits() {
    check(&world(pods("a b c", "x", |_| {})), &["default large z1 spot: a b c"]);
    let nine = pods("a b c d e f g h i", "x", |_| {});
    check(&world(nine), &["default large z1 spot: a b c d e f g h", "default small z1 spot: i"]);
}

#[test]
fn options_list_types_by_price_then_name() {
    let same = world(vec![pod("p")]).with(|world| {
        world.types =
            vec![ty("b", 2000, 0.1), ty("c", 2000, 0.05), ty("a", 2000, 0.1), ty("tiny", 500, 0.01)];
    });
    let outcome = schedule(&same, &Options::default());
    assert_eq!(outcome.machines[0].type_names, ["c", "a", "b"]);
    assert_eq!(outcome.machines[0].cheapest, ("c".into(), "z1".into(), "spot".into(), 0.05));
}

#[test]
fn ties_go_by_type_zone_and_capacity_type() {
    let tied = world(vec![pod("p")]).with(|world| {
        world.types = vec![ty("b", 2000, 0.1), ty("a", 2000, 0.1)];
        for ty in &mut world.types {
            ty.offerings = vec![
                offering("z2", "on-demand", 0.3),
                offering("z2", "spot", 0.3),
                offering("z1", "spot", 0.3),
                offering("z1", "on-demand", 0.3),
            ];
        }
    });
    check(&tied, &["default a z1 on-demand: p"]);
}

#[test]
fn unavailable_offerings_do_not_count() {
    let world = world(vec![pod("p")]).with(|world| {
        for offering in &mut world.types[0].offerings {
            offering.available = offering.price > 0.15;
        }
    });
    check(&world, &["default small z1 on-demand: p"]);
}

#[test]
fn type_and_offering_must_both_intersect() {
    let world = world(vec![pod("p").with(|pod| {
        select(pod, ZONE, "z2");
        select(pod, CAPACITY, "spot");
    })])
    .with(|world| {
        world.types[0].offerings = vec![offering("z1", "spot", 0.1), offering("z2", "on-demand", 0.2)]
    });
    check(&world, &["default large z2 spot: p"]);
}

#[test]
fn a_machine_is_narrowed_by_each_pod() {
    let mut two = pods("a b", "x", |pod| cpu(pod, 500));
    select(&mut two[0], ZONE, "z2");
    select(&mut two[1], CAPACITY, "on-demand");
    check(&world(two), &["default small z2 on-demand: a b"]);
}

#[test]
fn extended_resources_need_a_type_that_has_them() {
    let gpu = pod("p").with(|pod| _ = pod.requests.insert("example.com/gpu".to_owned(), 1));
    check(&world(vec![gpu.clone()]), &["refused: p"]);
    let world = world(vec![gpu]).with(|world| {
        world.types[1].allocatable.insert("example.com/gpu".to_owned(), 1);
    });
    check(&world, &["default large z1 spot: p"]);
}

fn min_values(world: &mut World, key: &str, number: u32) {
    world.pools[0].requirements = vec![Expr { min_values: Some(number), ..expr(key, "Exists", &[]) }];
}

#[test]
fn min_values_are_counted_over_what_is_left() {
    let two_types = |pod: Pod| world(vec![pod]).with(|world| min_values(world, TYPE, 2));
    check(&two_types(pod("p")), &["default small z1 spot: p"]);
    check(&two_types(pod("p").with(|pod| cpu(pod, 3000))), &["refused: p"]);
    // Growing may not fall below: the second pod would leave only `large`.
    let two = world(pods("a b", "x", |pod| cpu(pod, 1500))).with(|world| min_values(world, TYPE, 2));
    check(&two, &["default small z1 spot: a", "default small z1 spot: b"]);
}

#[test]
fn min_values_count_within_the_machines_requirement() {
    let pinned = pod("p").with(|pod| select(pod, ZONE, "z1"));
    let world = world(vec![pinned]).with(|world| min_values(world, ZONE, 2));
    check(&world, &["refused: p"]);
}

#[test]
fn min_values_of_a_type_with_several_values_are_narrowed_too() {
    let both_systems = |pod: Pod| {
        world(vec![pod]).with(|world| {
            for ty in &mut world.types {
                ty.requirements.retain(|expr| expr.key != "kubernetes.io/os");
                ty.requirements.push(expr("kubernetes.io/os", "In", &["linux", "windows"]));
            }
            min_values(world, "kubernetes.io/os", 2);
        })
    };
    check(&both_systems(pod("p")), &["default small z1 spot: p"]);
    check(&both_systems(pod("p").with(|pod| select(pod, "kubernetes.io/os", "linux"))), &["refused: p"]);
}

#[test]
fn best_effort_lowers_on_opening_and_enforces_when_growing() {
    let best_effort = Options { strict_min_values: false, ..Options::default() };
    let one = world(vec![pod("p").with(|pod| cpu(pod, 3000))]).with(|world| min_values(world, TYPE, 2));
    check_with(&one, &best_effort, &["default large z1 spot: p"]);
    // Opened with both types the number 2 stands; with only `large` it was lowered to 1.
    let mut all = pods("a b", "x", |pod| cpu(pod, 1500));
    all.push(pod("big").with(|pod| cpu(pod, 6000)));
    let mixed = world(all).with(|world| min_values(world, TYPE, 2));
    check_with(&mixed, &best_effort, &["default large z1 spot: big a", "default small z1 spot: b"]);
}

fn daemon(change: impl FnOnce(&mut Pod)) -> Pod {
    pod("agent").with(|pod| {
        pod.is_daemon = true;
        change(pod);
    })
}

#[test]
fn daemons_take_room_on_new_machines() {
    let world = world(vec![pod("p").with(|pod| cpu(pod, 1500))])
        .with(|world| world.daemons = vec![daemon(|pod| cpu(pod, 600))]);
    check(&world, &["default large z1 spot: p"]);
}

#[test]
fn daemons_count_per_type_and_each_term_afresh() {
    // The agent runs on `large` (second term) and nowhere else; on `large` it leaves 1 cpu only.
    let large_only = daemon(|pod| {
        cpu(pod, 7000);
        require(pod, vec![vec![expr(TYPE, "In", &["huge"])], vec![expr(TYPE, "In", &["large"])]]);
    });
    let world = world(pods("a b c", "x", |_| {})).with(|world| world.daemons = vec![large_only]);
    check(&world, &["default small z1 spot: a b", "default small z1 spot: c"]);
}

#[test]
fn daemons_must_tolerate_hard_taints_only() {
    let world_with = |effect: &str| {
        world(vec![pod("p").with(|pod| {
            cpu(pod, 1500);
            pod.tolerations = vec![tolerate("dedicated")];
        })])
        .with(|world| {
            world.daemons = vec![daemon(|pod| cpu(pod, 600))];
            world.pools[0].taints = vec![taint("dedicated", effect)];
        })
    };
    check(&world_with("NoSchedule"), &["default small z1 spot: p"]);
    check(&world_with("PreferNoSchedule"), &["default large z1 spot: p"]);
}

#[test]
fn daemons_may_select_the_lifecycle_labels_of_templates() {
    let world = world(vec![pod("p").with(|pod| cpu(pod, 1500))]).with(|world| {
        world.daemons = vec![daemon(|pod| {
            cpu(pod, 600);
            select(pod, "karpenter.sh/initialized", "true");
            select(pod, "karpenter.sh/registered", "true");
        })];
    });
    check(&world, &["default large z1 spot: p"]);
}

#[test]
fn ports_of_daemons_are_taken_type_by_type() {
    let port = || vec![Port { host_ip: String::new(), port: 80, protocol: "TCP".to_owned() }];
    let world = world(vec![pod("p").with(|pod| pod.ports = port())]).with(|world| {
        world.daemons = vec![daemon(|pod| {
            cpu(pod, 1);
            pod.ports = port();
            select(pod, TYPE, "small");
        })];
    });
    check(&world, &["default large z1 spot: p"]);
}
