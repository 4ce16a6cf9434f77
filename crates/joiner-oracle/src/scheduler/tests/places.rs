//! §3: existing nodes, opened machines, new machines.

use super::super::state::{OpenMachine, State};
use super::*;

#[test]
fn existing_nodes_come_first_in_order() {
    let world = world(pods("a b c", "x", |pod| cpu(pod, 1500))).with(|world| {
        world.nodes = vec![
            node("c"),
            node("a").with(|node| node.initialised = false),
            node("d").with(|node| node.cordoned = true),
            node("e").with(|node| node.leaving = true),
        ];
    });
    check(&world, &["default small z1 spot: c", "on a: b", "on c: a"]);
}

#[test]
fn a_node_gives_what_bound_pods_leave() {
    let world = world(vec![pod("p"), bound("b", "n1"), bound("c", "n1")]).with(|world| {
        world.nodes = vec![node("n1"), node("n2")];
    });
    check(&world, &["on n2: p"]);
}

#[test]
fn an_exact_fit_fits_and_zero_needs_nothing() {
    let p = pod("p").with(|pod| {
        cpu(pod, 2000);
        pod.requests.insert("example.com/gpu".to_owned(), 0);
    });
    check(&world(vec![p]).with(|world| world.nodes = vec![node("n1")]), &["on n1: p"]);
}

#[test]
fn a_node_overdrawn_in_one_resource_takes_nothing() {
    let hungry = bound("b", "n1").with(|pod| _ = pod.requests.insert("memory".to_owned(), 9000));
    let p = pod("p").with(|pod| pod.requests = resources(&[("cpu", 100), ("pods", 1)]));
    let world = world(vec![p, hungry]).with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["default small z1 spot: p"]);
}

#[test]
fn the_number_of_pods_is_a_resource() {
    let tiny = node("n1").with(|node| _ = node.allocatable.insert("pods".to_owned(), 1));
    let world = world(pods("a b", "x", |pod| cpu(pod, 100))).with(|world| world.nodes = vec![tiny]);
    check(&world, &["default small z1 spot: b", "on n1: a"]);
}

#[test]
fn taints_keep_pods_away() {
    let world = world(vec![pod("p")]).with(|world| {
        world.nodes = vec![node("n1").with(|node| node.taints = vec![taint("dedicated", "NoSchedule")])];
        world.pools[0].taints = vec![taint("dedicated", "NoExecute")];
    });
    check(&world, &["refused: p"]);
}

#[test]
fn host_ports_exclude_each_other() {
    let port = |ip: &str, number: i32, protocol: &str| Port {
        host_ip: ip.to_owned(),
        port: number,
        protocol: protocol.to_owned(),
    };
    let mut five = pods("a b c d e", "x", |pod| cpu(pod, 100));
    five[0].ports = vec![port("", 80, "TCP")];
    five[1].ports = vec![port("", 80, "UDP")];
    five[2].ports = vec![port("10.0.0.1", 80, "TCP")];
    five[3].ports = vec![port("10.0.0.2", 80, "TCP")];
    five[4].ports = vec![port("0.0.0.0", 81, "TCP")];
    // b differs by protocol; c clashes with a's any-address; d not with c; e has its own port. After c the second machine
    // has fewer pods and is asked first.
    let world = world(five);
    check(&world, &["default small z1 spot: a b", "default small z1 spot: c d e"]);
}

#[test]
fn host_ports_of_bound_pods_count() {
    let port = || vec![Port { host_ip: String::new(), port: 80, protocol: "TCP".to_owned() }];
    let world =
        world(vec![pod("p").with(|pod| pod.ports = port()), bound("b", "n1").with(|pod| pod.ports = port())])
            .with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["default small z1 spot: p"]);
}

#[test]
fn pools_by_weight_then_by_name_descending() {
    let world_of = |pools: Vec<Pool>| world(vec![pod("p")]).with(|world| world.pools = pools);
    check(&world_of(vec![pool("a"), pool("b")]), &["b small z1 spot: p"]);
    check(&world_of(vec![pool("a").with(|pool| pool.weight = 1), pool("b")]), &["a small z1 spot: p"]);
    let picky = pool("b").with(|pool| pool.requirements = vec![expr(ZONE, "In", &["nowhere"])]);
    check(&world_of(vec![pool("a"), picky]), &["a small z1 spot: p"]);
}

#[test]
fn the_machine_with_fewest_pods_is_asked_first() {
    // Anti-affinity opens three machines; the fillers then go to each in turn, oldest first among the never grown, and
    // of the grown the most recently grown first.
    let mut all = pods("a b c", "apart", |pod| {
        cpu(pod, 1200);
        pod.anti_affinity = vec![term(HOST, "apart")];
    });
    all.extend(pods("p q r s", "filler", |pod| cpu(pod, 100)));
    check(
        &world(all),
        &["default small z1 spot: a p", "default small z1 spot: b q", "default small z1 spot: c r s"],
    );
}

#[test]
fn the_stable_sort_orders_as_the_rule_book_says() {
    let machine = |number: usize| OpenMachine {
        number,
        pool: String::new(),
        requirements: Default::default(),
        choices: Vec::new(),
        pods: vec![],
        min_values: BTreeMap::new(),
        held: BTreeSet::new(),
        wide: None,
    };
    let filler = pod("p");
    let mut state = State { machines: (0..4).map(machine).collect(), ..State::default() };
    for machine in &mut state.machines {
        machine.pods.push(&filler);
    }
    // Machines 2, 0 and 3 grow in this order.
    for number in [2, 0, 3] {
        state.sort_machines();
        let grown = state.machines.iter_mut().find(|machine| machine.number == number).expect("a machine");
        grown.pods.push(&filler);
    }
    state.sort_machines();
    assert_eq!(state.machines.iter().map(|machine| machine.number).collect::<Vec<_>>(), [1, 3, 0, 2]);
}

#[test]
fn unfilled_daemons_hold_room_on_a_node() {
    let daemon = |cpu_amount: i128| {
        pod("agent").with(|pod| {
            cpu(pod, cpu_amount);
            pod.is_daemon = true;
        })
    };
    let base = |present: Vec<Pod>| {
        let mut all = vec![pod("p")];
        all.extend(present);
        world(all).with(|world| {
            world.nodes = vec![node("n1")];
            world.daemons = vec![daemon(1500)];
            world.pools.clear();
        })
    };
    check(&base(vec![]), &["refused: p"]);
    // The daemon's own pod is there and small: 2000 − 100 bound − (1500 − 100) lacking leaves 500.
    let small = daemon(100).with(|pod| pod.node_name = Some("n1".to_owned()));
    check(&base(vec![small]), &["refused: p"]);
    // Another daemon pod already takes more than is expected: nothing lacks.
    let big = daemon(900).with(|pod| pod.node_name = Some("n1".to_owned()));
    let roomy = base(vec![big]).with(|world| world.daemons = vec![daemon(800)]);
    check(&roomy, &["on n1: p"]);
    // What it takes too much is not given back either: 1100 are left, not 1200.
    let larger = roomy.with(|world| cpu(&mut world.pods[0], 1150));
    check(&larger, &["refused: p"]);
}

#[test]
fn a_daemon_not_meant_for_the_node_takes_nothing() {
    let daemon = pod("agent").with(|pod| {
        cpu(pod, 2000);
        require(pod, vec![vec![expr("gpu", "Exists", &[])], vec![expr(ZONE, "In", &["z9"])]]);
    });
    let world = world(vec![pod("p")]).with(|world| {
        world.nodes = vec![node("n1")];
        world.daemons = vec![daemon];
    });
    check(&world, &["on n1: p"]);
}
