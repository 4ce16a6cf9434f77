//! §1: the algebra, and the two sides.

use super::super::requirement::{Requirement, Side, conjunction, go_integer};
use super::*;

fn of(operator: &str, values: &[&str]) -> Requirement {
    Requirement::from_expr(&expr("k", operator, values))
}

#[test]
fn operators_allow_and_miss_as_in_the_table() {
    type Row =
        (&'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str], bool);
    let rows: [Row; 8] = [
        ("In", &["a", "b"], &["a", "b"], &["c", "1"], false),
        ("NotIn", &["a"], &["b", "1"], &["a"], true),
        ("Exists", &[], &["a", "1", ""], &[], false),
        ("DoesNotExist", &[], &[], &["a", "1"], true),
        ("Gt", &["5"], &["6", "06", "+6"], &["5", "4", "a", ""], false),
        ("Lt", &["5"], &["4", "-1", "04"], &["5", "6", "x"], false),
        ("Gte", &["5"], &["5", "05", "6"], &["4", "5.0"], false),
        ("Lte", &["5"], &["5", "0"], &["6", "five"], false),
    ];
    for (operator, values, allowed, forbidden, may_be_missing) in rows {
        let requirement = of(operator, values);
        for value in allowed {
            assert!(requirement.allows(value), "{operator} {values:?} allows {value}");
        }
        for value in forbidden {
            assert!(!requirement.allows(value), "{operator} {values:?} forbids {value}");
        }
        assert_eq!(requirement.may_be_missing, may_be_missing, "{operator}");
    }
}

#[test]
fn integers_are_read_as_go_reads_them() {
    assert_eq!(go_integer("05"), Some(5));
    assert_eq!(go_integer("+5"), Some(5));
    assert_eq!(go_integer("-1"), Some(-1));
    for text in ["", "+", "5.0", " 5", "5 ", "1_000", "0x5", "9223372036854775808", "++5"] {
        assert_eq!(go_integer(text), None, "{text:?}");
    }
}

#[test]
fn values_compare_as_text() {
    assert!(of("In", &["05"]).and(&of("In", &["5"])).is_empty());
    assert!(!of("In", &["05"]).and(&of("Gt", &["4"])).is_empty());
}

#[test]
fn contradictions_are_empty_and_not_missing() {
    assert!(of("In", &["a"]).and(&of("In", &["b"])).is_empty());
    assert!(of("In", &["a"]).and(&of("NotIn", &["a"])).is_empty());
    assert!(of("Exists", &[]).and(&of("DoesNotExist", &[])).is_empty());
    assert!(of("Gt", &["5"]).and(&of("Lt", &["6"])).is_empty());
    assert!(!of("NotIn", &["a"]).and(&of("DoesNotExist", &[])).is_empty());
    assert!(of("Gt", &["9223372036854775807"]).is_empty());
}

#[test]
fn excluding_single_texts_never_empties_a_range() {
    let one_number = of("Gte", &["5"]).and(&of("Lte", &["5"])).and(&of("NotIn", &["5"]));
    assert!(!one_number.is_empty());
    assert!(one_number.allows("05"));
}

#[test]
fn exists_and_not_in_still_must_exist() {
    let both = of("Exists", &[]).and(&of("NotIn", &["a"]));
    assert!(!both.may_be_missing);
    assert!(!Side::RealNode.compatible(&Default::default(), &[("k".to_owned(), both)].into()));
}

#[test]
fn sides_differ_in_keys_nobody_defined() {
    let known = well_known();
    let template = Side::Template { well_known: &known };
    let nothing = Default::default();
    let zone = conjunction(&[expr(ZONE, "In", &["z1"])]);
    let no_zone = conjunction(&[expr(ZONE, "DoesNotExist", &[])]);
    let team = conjunction(&[expr("team", "In", &["a"])]);
    let not_team = conjunction(&[expr("team", "NotIn", &["a"])]);
    assert!(template.compatible(&nothing, &zone) && !Side::RealNode.compatible(&nothing, &zone));
    assert!(template.compatible(&nothing, &no_zone) && Side::RealNode.compatible(&nothing, &no_zone));
    assert!(!template.compatible(&nothing, &team) && !Side::RealNode.compatible(&nothing, &team));
    assert!(template.compatible(&nothing, &not_team) && Side::RealNode.compatible(&nothing, &not_team));
}

#[test]
fn intersection_is_commutative_associative_and_idempotent() {
    let all = [
        of("In", &["1", "a"]),
        of("In", &["7"]),
        of("NotIn", &["1", "7"]),
        of("Exists", &[]),
        of("DoesNotExist", &[]),
        of("Gt", &["3"]),
        of("Lte", &["7"]),
        Requirement::anything_or_missing(),
    ];
    for a in &all {
        assert_eq!(a.and(a), *a);
        for b in &all {
            assert_eq!(a.and(b), b.and(a));
            for c in &all {
                assert_eq!(a.and(b).and(c), a.and(&b.and(c)));
            }
        }
    }
}

#[test]
fn a_custom_label_must_come_from_the_pool() {
    let asks = || pod("p").with(|pod| select(pod, "team", "a"));
    check(&world(vec![asks()]), &["refused: p"]);
    let labelled = world(vec![asks()]).with(|world| world.pools[0].labels = labels(&[("team", "a")]));
    check(&labelled, &["default small z1 spot: p"]);
    let open =
        world(vec![asks()]).with(|world| world.pools[0].requirements = vec![expr("team", "Exists", &[])]);
    check(&open, &["default small z1 spot: p"]);
    let other = world(vec![asks()]).with(|world| world.pools[0].labels = labels(&[("team", "b")]));
    check(&other, &["refused: p"]);
}

#[test]
fn two_wishes_for_one_open_label_need_two_machines() {
    let mut two = vec![pod("a"), pod("b")];
    select(&mut two[0], "team", "a");
    select(&mut two[1], "team", "b");
    let world = world(two).with(|world| world.pools[0].requirements = vec![expr("team", "Exists", &[])]);
    check(&world, &["default small z1 spot: a", "default small z1 spot: b"]);
}

#[test]
fn placing_on_a_real_node_never_gives_it_a_label() {
    let mut two = vec![pod("a"), pod("b")];
    require(&mut two[0], vec![vec![expr("team", "NotIn", &["x"])]]);
    require(&mut two[1], vec![vec![expr("team", "In", &["y"])]]);
    let world = world(two).with(|world| world.nodes = vec![node("n1")]);
    check(&world, &["on n1: a", "refused: b"]);
}

#[test]
fn a_contradictory_pod_is_refused() {
    let p = pod("p").with(|pod| {
        select(pod, ZONE, "z1");
        require(pod, vec![vec![expr(ZONE, "In", &["z2"])]]);
    });
    check(&world(vec![p]).with(|world| world.nodes = vec![node("n1")]), &["refused: p"]);
}

#[test]
fn old_names_are_read_as_the_stable_ones() {
    let p = pod("p").with(|pod| select(pod, "failure-domain.beta.kubernetes.io/zone", "z2"));
    check(&world(vec![p.clone()]), &["default small z2 spot: p"]);
    let old_node =
        node("n1").with(|node| node.labels = labels(&[("failure-domain.beta.kubernetes.io/zone", "z2")]));
    check(&world(vec![p]).with(|world| world.nodes = vec![old_node]), &["on n1: p"]);
    let both = pod("p").with(|pod| {
        select(pod, "failure-domain.beta.kubernetes.io/zone", "z2");
        select(pod, ZONE, "z1");
    });
    check(&world(vec![both]), &["refused: p"]);
}

#[test]
fn numbers_choose_the_type() {
    let p =
        pod("p").with(|pod| require(pod, vec![vec![expr("karpenter.kwok.sh/instance-cpu", "Gt", &["2"])]]));
    check(&world(vec![p]), &["default large z1 spot: p"]);
}
