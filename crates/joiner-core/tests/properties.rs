//! Laws that hold for every input: of the requirement algebra, of taints, of the undo log, and of decisions.
//!
//! Small random snapshots are built through the model itself, so they reach corners that manifests seldom do: reservations next to limits,
//! anti-affinity on custom labels, volumes next to host ports. What the algebra answers symbolically is checked
//! by asking label value by label value.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_core::algebra::Algebra;
use joiner_core::decide::{self, MinValuesPolicy, Options, ReservedMode};
use joiner_core::model::ids::*;
use joiner_core::model::names::{CPU, MEMORY, PODS, atoi};
use joiner_core::model::resources::{add_into, fits, lane_of, max_into};
use joiner_core::model::taint::untolerated;
use joiner_core::model::{
    Catalogue, Daemon, Effect, GroupSpec, Identity, InstanceType, Limit, Matcher, MatcherTerm, Node,
    NodeFilter, Offering, Operator, Pod, PodClass, Pool, Port, Relaxed, Requirement, ResVec, Reservation,
    Rung, Snapshot, Taint, Toleration, TolerationOperator, Vocabulary, VolumeUse,
};
use joiner_core::pack::place::Failure;
use joiner_core::pack::scratch::{Scratch, Spot};
use joiner_core::pack::upstream;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// So many cases, or more if `PROPTEST_CASES` says so.
fn cases(usual: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig { cases: asked.cases.max(usual), failure_persistence: None, ..asked }
}

// ---- requirements, value by value ----

const VALUES: [&str; 12] =
    ["", "0", "1", "5", "05", "+5", "-1", "9", "a", "b", "9223372036854775807", "-9223372036854775808"];
/// Values no requirement lists.
const STRANGERS: [&str; 5] = ["7", "007", "zz", "-3", "10"];
const OPERATORS: [Operator; 8] = [
    Operator::In,
    Operator::NotIn,
    Operator::Exists,
    Operator::DoesNotExist,
    Operator::Gt,
    Operator::Lt,
    Operator::Gte,
    Operator::Lte,
];

#[derive(Debug, Clone)]
struct Expression {
    operator: Operator,
    values: Vec<&'static str>,
    min_values: Option<u32>,
}

fn expression() -> impl Strategy<Value = Expression> {
    let values = subsequence(&VALUES[..], 0..4);
    (select(&OPERATORS[..]), values, option::weighted(0.1, 1..4u32))
        .prop_map(|(operator, values, min_values)| Expression { operator, values, min_values })
}

impl Expression {
    /// What Kubernetes says about a label with this value (or without one).
    fn admits(&self, label: Option<&str>) -> bool {
        let number = self.values.first().and_then(|text| atoi(text));
        let Some(value) = label else {
            return matches!(self.operator, Operator::NotIn | Operator::DoesNotExist);
        };
        let compare = |test: fn(&i64, &i64) -> bool| match (atoi(value), number) {
            (Some(have), Some(bound)) => test(&have, &bound),
            _ => false,
        };
        match self.operator {
            Operator::In => self.values.contains(&value),
            Operator::NotIn => !self.values.contains(&value),
            Operator::Exists => true,
            Operator::DoesNotExist => false,
            Operator::Gt => compare(i64::gt),
            Operator::Lt => compare(i64::lt),
            Operator::Gte => compare(i64::ge),
            Operator::Lte => compare(i64::le),
        }
    }

    fn requirement(&self, vocabulary: &mut Vocabulary, key: KeyId) -> Requirement {
        let read = Requirement::from_expression(&mut vocabulary.names, key, self.operator, &self.values);
        Requirement { min_values: self.min_values, ..read }
    }
}

/// Every label a key could have that tells requirements apart.
fn labels() -> impl Iterator<Item = Option<&'static str>> {
    VALUES.iter().chain(&STRANGERS).copied().map(Some).chain([None])
}

fn admits(requirement: &Requirement, vocabulary: &Vocabulary, key: KeyId, label: Option<&str>) -> bool {
    match label {
        Some(text) => requirement.allows_text(&vocabulary.names, key, text),
        None => requirement.may_be_absent,
    }
}

/// A value that satisfies a requirement which is not empty, or `None` for "missing".
fn witness(requirement: &Requirement, vocabulary: &Vocabulary, key: KeyId) -> Option<Option<String>> {
    let names = &vocabulary.names;
    let listed = requirement.values.iter().map(|value| names.value_text(key, *value).to_owned());
    // Integers have endless spellings, so exclusions never use a range up.
    let spelled = |number: i64| {
        (0..40).map(move |zeros| {
            let sign = if number < 0 { "-" } else { "" };
            format!("{sign}{}{}", "0".repeat(zeros), number.unsigned_abs())
        })
    };
    let bounded = requirement.gte.or(requirement.lte).unwrap_or(0);
    let found = listed.chain(spelled(bounded)).find(|text| requirement.allows_text(names, key, text));
    match found {
        Some(text) => Some(Some(text)),
        None => requirement.may_be_absent.then_some(None),
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn an_intersection_allows_what_every_part_allows(list in vec(expression(), 1..6)) {
        let mut vocabulary = Vocabulary::default();
        let key = vocabulary.names.key("k");
        let parts: Vec<Requirement> = list.iter().map(|e| e.requirement(&mut vocabulary, key)).collect();
        let met = parts[1..].iter().fold(parts[0].clone(), |met, part| met.intersect(part, &vocabulary.names, key));
        for label in labels() {
            let naive = list.iter().all(|e| e.admits(label));
            prop_assert_eq!(admits(&met, &vocabulary, key, label), naive, "{:?} of {:?}", label, met);
        }
        prop_assert_eq!(met.is_empty(), witness(&met, &vocabulary, key).is_none(), "{:?}", met);
        prop_assert_eq!(met.min_values, list.iter().filter_map(|e| e.min_values).max());
        if let Some(single) = met.single() {
            let admitted: Vec<_> = labels().filter(|label| admits(&met, &vocabulary, key, *label)).collect();
            prop_assert_eq!(admitted, [Some(vocabulary.names.value_text(key, single))]);
        }
    }

    #[test]
    fn intersection_is_commutative_associative_and_idempotent(a in expression(), b in expression(), c in expression()) {
        let mut vocabulary = Vocabulary::default();
        let key = vocabulary.names.key("k");
        let [a, b, c] = [a, b, c].map(|e| e.requirement(&mut vocabulary, key));
        let both = |a: &Requirement, b: &Requirement| a.intersect(b, &vocabulary.names, key);
        prop_assert_eq!(both(&a, &b), both(&b, &a));
        prop_assert_eq!(both(&both(&a, &b), &c), both(&a, &both(&b, &c)));
        prop_assert_eq!(both(&a, &a), a.clone());
        prop_assert_eq!(both(&a, &Requirement::anything()), a.clone());
        prop_assert!(both(&a, &Requirement::nothing()).is_empty());
    }

    #[test]
    fn written_expressions_say_the_same_again(list in vec(expression(), 1..4)) {
        let mut vocabulary = Vocabulary::default();
        let key = vocabulary.names.key("k");
        let parts: Vec<Requirement> = list.iter().map(|e| e.requirement(&mut vocabulary, key)).collect();
        let met = parts[1..].iter().fold(parts[0].clone(), |met, part| met.intersect(part, &vocabulary.names, key));
        if met.is_empty() {
            return Ok(());
        }
        let mut back = Requirement::anything();
        for (operator, values) in met.expressions(&vocabulary.names, key) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let read = Requirement::from_expression(&mut vocabulary.names, key, operator, &values);
            back = back.intersect(&read, &vocabulary.names, key);
        }
        for label in labels() {
            prop_assert_eq!(
                admits(&back, &vocabulary, key, label),
                admits(&met, &vocabulary, key, label),
                "{:?} of {:?} written as {:?}", label, met, back
            );
        }
    }

    #[test]
    fn a_set_does_not_depend_on_the_order_of_its_parts(
        list in vec((0..3usize, expression()), 0..6).prop_flat_map(|list| {
            let shuffled = Just(list.clone()).prop_shuffle();
            (Just(list), shuffled)
        }),
    ) {
        let (list, shuffled) = list;
        let mut vocabulary = Vocabulary::default();
        let keys = ["a", "b", "c"].map(|name| vocabulary.names.key(name));
        let mut ids = [&list, &shuffled].map(|order| {
            let parts: Vec<_> = order.iter().map(|(at, e)| (keys[*at], e.requirement(&mut vocabulary, keys[*at]))).collect();
            vocabulary.set(parts)
        }).to_vec();
        ids.dedup();
        prop_assert_eq!(ids.len(), 1);
        let items: BTreeMap<KeyId, Requirement> = vocabulary.set_items(ids[0]).map(|(k, r)| (k, r.clone())).collect();
        for (at, key) in keys.iter().enumerate() {
            let mine: Vec<&Expression> = list.iter().filter(|(of, _)| *of == at).map(|(_, e)| e).collect();
            prop_assert_eq!(items.contains_key(key), !mine.is_empty());
            if let Some(requirement) = items.get(key) {
                for label in labels() {
                    let naive = mine.iter().all(|e| e.admits(label));
                    prop_assert_eq!(admits(requirement, &vocabulary, *key, label), naive);
                }
            }
        }
    }

    #[test]
    fn meeting_only_narrows(
        machine in vec((0..4usize, expression()), 0..4),
        first in vec((0..4usize, expression()), 0..4),
        second in vec((0..4usize, expression()), 0..4),
    ) {
        let mut vocabulary = Vocabulary::default();
        let keys = ["known-1", "known-2", "custom-1", "custom-2"].map(|name| vocabulary.names.key(name));
        vocabulary.add_well_known(keys[0]);
        vocabulary.add_well_known(keys[1]);
        let [machine_id, first_id, second_id] = [&machine, &first, &second].map(|list| {
            let parts: Vec<_> = list.iter().map(|(at, e)| (keys[*at], e.requirement(&mut vocabulary, keys[*at]))).collect();
            vocabulary.set(parts)
        });
        let empty_template = vocabulary.set_items(machine_id).any(|(_, r)| r.is_empty());
        if empty_template {
            return Ok(());
        }
        let mut algebra = Algebra::new(&vocabulary);
        // What a machine's label of a key can be: what its requirements allow; anything if the key is well-known; missing if not.
        let possible = |at: usize, lists: &[&Vec<(usize, Expression)>], label: Option<&str>| {
            let template = lists[0].iter().any(|(of, _)| *of == at);
            (template || at < 2 || label.is_none())
                && lists.iter().all(|list| list.iter().filter(|(of, _)| *of == at).all(|(_, e)| e.admits(label)))
        };
        let met = algebra.meet(machine_id, first_id);
        match met {
            Some(met) => {
                for (at, key) in keys.iter().enumerate() {
                    for label in labels() {
                        let naive = possible(at, &[&machine, &first], label);
                        let got = match algebra.get(met, *key) {
                            Some(rq) => admits(algebra.requirement(rq), &vocabulary, *key, label),
                            None => at < 2 || label.is_none(),
                        };
                        prop_assert_eq!(got, naive, "key {} label {:?}", at, label);
                    }
                }
            }
            None => {
                let contradicts = (0..4).any(|at| labels().all(|label| !possible(at, &[&machine, &first], label)));
                prop_assert!(contradicts);
            }
        }
        // The order of asks does not matter, and what was refused stays refused.
        let one = met.and_then(|met| algebra.meet(met, second_id));
        let other = algebra.meet(machine_id, second_id).and_then(|met| algebra.meet(met, first_id));
        prop_assert_eq!(one, other);
        if let Some(both) = one {
            prop_assert_eq!(algebra.meet(both, first_id), Some(both), "asking again changes nothing");
        }
    }

    #[test]
    fn a_node_is_asked_label_by_label(
        held in vec(option::of(select(&VALUES[..])), 3),
        ask in vec((0..3usize, expression()), 0..5),
    ) {
        let mut vocabulary = Vocabulary::default();
        let keys = ["a", "b", "c"].map(|name| vocabulary.names.key(name));
        vocabulary.add_well_known(keys[0]);
        let mut labels = Vec::new();
        for (key, value) in keys.iter().zip(&held) {
            if let Some(value) = value {
                labels.push((*key, Requirement::is(vocabulary.names.value(*key, value))));
            }
        }
        let labels = vocabulary.set(labels);
        let parts: Vec<_> = ask.iter().map(|(at, e)| (keys[*at], e.requirement(&mut vocabulary, keys[*at]))).collect();
        let ask_id = vocabulary.set(parts);
        let naive = ask.iter().all(|(at, e)| e.admits(held[*at]));
        let mut algebra = Algebra::new(&vocabulary);
        prop_assert_eq!(algebra.node_accepts(labels, ask_id), naive);
        prop_assert_eq!(algebra.node_accepts(labels, ask_id), naive, "the remembered answer is the same");
    }
}

// ---- taints ----

const EFFECTS: [Effect; 3] = [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute];
const TAINT_VALUES: [&str; 6] = ["", "x", "5", "05", "-7", "12"];

fn taint() -> impl Strategy<Value = Taint> {
    (select(&["a", "b"][..]), select(&TAINT_VALUES[..]), select(&EFFECTS[..]))
        .prop_map(|(key, value, effect)| Taint { key: key.into(), value: value.into(), effect })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    use TolerationOperator::*;
    (
        select(&["", "a", "b"][..]),
        select(&[Exists, Equal, Lt, Gt, Unknown][..]),
        select(&TAINT_VALUES[..]),
        option::of(select(&EFFECTS[..])),
    )
        .prop_map(|(key, operator, value, effect)| Toleration {
            key: key.into(),
            operator,
            value: value.into(),
            effect,
        })
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn tolerating_more_never_hurts(
        taints in vec(taint(), 0..4),
        tolerations in vec(toleration(), 0..4),
        more in toleration(),
        spare in any::<bool>(),
    ) {
        let before = untolerated(&taints, &tolerations, spare).is_none();
        let mut extended = tolerations.clone();
        extended.push(more);
        prop_assert!(!before || untolerated(&taints, &extended, spare).is_none());
        // Sparing soft taints is the same as not having them.
        let hard: Vec<Taint> = taints.iter().filter(|t| t.effect != Effect::PreferNoSchedule).cloned().collect();
        prop_assert_eq!(untolerated(&taints, &tolerations, true), untolerated(&hard, &tolerations, false));
        prop_assert!(untolerated(&taints, &tolerations, false).is_some() || untolerated(&taints, &tolerations, true).is_none());
        // Each taint needs its own toleration: the list is as good as its worst member.
        let each = taints.iter().all(|t| untolerated(std::slice::from_ref(t), &tolerations, spare).is_none());
        prop_assert_eq!(before, each);
        let everything = Toleration { key: "".into(), operator: TolerationOperator::Exists, value: "".into(), effect: None };
        prop_assert!(untolerated(&taints, &[everything], spare).is_none());
    }

    #[test]
    fn a_narrower_toleration_tolerates_less(taint in taint(), toleration in toleration()) {
        let verdict = toleration.tolerates(&taint);
        for wider in [
            Toleration { effect: None, ..toleration.clone() },
            Toleration { key: "".into(), ..toleration.clone() },
            Toleration { operator: TolerationOperator::Exists, ..toleration.clone() },
        ] {
            prop_assert!(!verdict || wider.tolerates(&taint), "{:?} is wider than {:?}", wider, toleration);
        }
        // Below, equal and above exclude one another.
        let with = |operator| Toleration { operator, ..toleration.clone() }.tolerates(&taint);
        let (below, equal, above) =
            (with(TolerationOperator::Lt), with(TolerationOperator::Equal), with(TolerationOperator::Gt));
        prop_assert!(usize::from(below) + usize::from(equal) + usize::from(above) <= 1);
        prop_assert!(!with(TolerationOperator::Unknown));
    }

    #[test]
    fn lists_of_taints_are_sets(
        taints in vec(taint(), 0..5).prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
        tolerations in vec(toleration(), 0..5).prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
        spare in any::<bool>(),
    ) {
        let mut vocabulary = Vocabulary::default();
        let mut twice = taints.1.clone();
        twice.extend(taints.0.first().cloned());
        let (one, two) = (vocabulary.taint_list(taints.0.clone()), vocabulary.taint_list(twice));
        prop_assert_eq!(one, two);
        let (three, four) = (vocabulary.toleration_list(tolerations.0.clone()), vocabulary.toleration_list(tolerations.1));
        prop_assert_eq!(three, four);
        let naive = untolerated(&taints.0, &tolerations.0, spare).is_none();
        prop_assert_eq!(Algebra::new(&vocabulary).tolerates(one, three, spare), naive);
    }
}

#[test]
fn numeric_tolerations_read_plain_integers_only() {
    use TolerationOperator::{Gt, Lt};
    for (taint, operator, bound, expected) in [
        ("0", Lt, "5", true),
        ("5", Gt, "0", true),
        ("-7", Lt, "0", true),
        ("5", Lt, "5", false),
        ("5", Gt, "5", false),
        ("05", Gt, "1", false),
        ("5", Gt, "01", false),
        ("+5", Gt, "1", false),
        ("", Gt, "1", false),
        ("x", Lt, "1", false),
        ("9223372036854775808", Gt, "1", false),
    ] {
        let toleration = Toleration { key: "a".into(), operator, value: bound.into(), effect: None };
        let taint = Taint { key: "a".into(), value: taint.into(), effect: Effect::NoSchedule };
        assert_eq!(toleration.tolerates(&taint), expected, "{taint} {operator:?} {bound}");
    }
}

// ---- snapshots ----

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const TYPE: &str = "node.kubernetes.io/instance-type";
const HOSTNAME: &str = "kubernetes.io/hostname";
const RACK: &str = "example.com/rack";
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const RACKS: [&str; 2] = ["r1", "r2"];
const GIB: i64 = 1 << 30;

/// A snapshot in a few small numbers: easy to draw and to shrink.
#[derive(Debug, Clone)]
struct Sketch {
    types: Vec<TypeSketch>,
    reservation: Option<u32>,
    pools: Vec<PoolSketch>,
    nodes: Vec<NodeSketch>,
    daemon: Option<i64>,
    classes: Vec<ClassSketch>,
    pods: Vec<usize>,
}

#[derive(Debug, Clone)]
struct TypeSketch {
    cpus: i64,
    zones: Vec<&'static str>,
    spot: bool,
    volume_limit: Option<u32>,
}

#[derive(Debug, Clone)]
struct PoolSketch {
    zones: Option<Vec<&'static str>>,
    racks: Option<Vec<&'static str>>,
    min_types: Option<u32>,
    tainted: Option<Effect>,
    cpu_limit: Option<i64>,
    node_limit: Option<i64>,
    cpu_used: i64,
}

#[derive(Debug, Clone)]
struct NodeSketch {
    zone: Option<&'static str>,
    rack: Option<&'static str>,
    cpus: i64,
    bound: Vec<(usize, u32)>,
    bound_anti: bool,
    accepts_pods: bool,
    volume_limit: Option<u32>,
}

#[derive(Debug, Clone)]
struct ClassSketch {
    app: usize,
    cpu: i64,
    priority: i32,
    tolerates: bool,
    port: Option<u16>,
    volume: Option<u32>,
    volume_zones: Option<Vec<&'static str>>,
    zones: Option<(Operator, Vec<&'static str>)>,
    rack: Option<Operator>,
    preferred_zone: Option<&'static str>,
    spread: Option<(&'static str, i32, bool)>,
    affinity: Option<(&'static str, usize)>,
    anti_affinity: Option<(&'static str, usize)>,
}

fn type_sketch() -> impl Strategy<Value = TypeSketch> {
    (1..9i64, subsequence(&ZONES[..], 1..=3), any::<bool>(), option::weighted(0.15, 1..3u32))
        .prop_map(|(cpus, zones, spot, volume_limit)| TypeSketch { cpus, zones, spot, volume_limit })
}

fn pool_sketch() -> impl Strategy<Value = PoolSketch> {
    (
        option::weighted(0.4, subsequence(&ZONES[..], 1..=2)),
        option::weighted(0.4, subsequence(&RACKS[..], 1..=2)),
        option::weighted(0.15, 1..4u32),
        option::weighted(0.3, select(&EFFECTS[..])),
        option::weighted(0.4, 0..24i64),
        option::weighted(0.25, 0..4i64),
        0..6i64,
    )
        .prop_map(|(zones, racks, min_types, tainted, cpu_limit, node_limit, cpu_used)| PoolSketch {
            zones,
            racks,
            min_types,
            tainted,
            cpu_limit,
            node_limit,
            cpu_used,
        })
}

fn node_sketch() -> impl Strategy<Value = NodeSketch> {
    (
        option::weighted(0.8, select(&ZONES[..])),
        option::weighted(0.4, select(&RACKS[..])),
        0..6i64,
        vec((0..3usize, 1..3u32), 0..3),
        proptest::bool::weighted(0.2),
        proptest::bool::weighted(0.9),
        option::weighted(0.3, 0..3u32),
    )
        .prop_map(|(zone, rack, cpus, bound, bound_anti, accepts_pods, volume_limit)| NodeSketch {
            zone,
            rack,
            cpus,
            bound,
            bound_anti,
            accepts_pods,
            volume_limit,
        })
}

fn class_sketch() -> impl Strategy<Value = ClassSketch> {
    let key = || select(&[ZONE, HOSTNAME, RACK, CAPACITY_TYPE][..]);
    let place = (
        option::weighted(0.3, (select(&[Operator::In, Operator::NotIn][..]), subsequence(&ZONES[..], 1..=2))),
        option::weighted(0.15, select(&[Operator::Exists, Operator::DoesNotExist][..])),
        option::weighted(0.2, select(&ZONES[..])),
        option::weighted(0.15, subsequence(&ZONES[..], 1..=2)),
    );
    let topology = (
        option::weighted(0.35, (key(), 1..3i32, any::<bool>())),
        option::weighted(0.25, (key(), 0..3usize)),
        option::weighted(0.3, (key(), 0..3usize)),
    );
    let rest = (
        0..3usize,
        (1..16i64).prop_map(|quarters| quarters * 250),
        0..2i32,
        any::<bool>(),
        option::weighted(0.15, 8000..8002u16),
        option::weighted(0.2, 0..3u32),
    );
    (rest, place, topology).prop_map(
        |(
            (app, cpu, priority, tolerates, port, volume),
            (zones, rack, preferred_zone, volume_zones),
            (spread, affinity, anti_affinity),
        )| {
            ClassSketch {
                app,
                cpu,
                priority,
                tolerates,
                port,
                volume,
                volume_zones,
                zones,
                rack,
                preferred_zone,
                spread,
                affinity,
                anti_affinity,
            }
        },
    )
}

fn sketch() -> impl Strategy<Value = Sketch> {
    (vec(type_sketch(), 1..4), vec(pool_sketch(), 1..4), vec(node_sketch(), 0..4), vec(class_sketch(), 1..5))
        .prop_flat_map(|(types, pools, nodes, classes)| {
            let pods = vec(0..classes.len(), 1..14);
            let reservation = option::weighted(0.3, 0..3u32);
            let daemon = option::weighted(0.3, 1..5i64);
            (Just((types, pools, nodes, classes)), pods, reservation, daemon)
        })
        .prop_map(|((types, pools, nodes, classes), pods, reservation, daemon)| Sketch {
            types,
            reservation,
            pools,
            nodes,
            daemon,
            classes,
            pods,
        })
}

struct Builder {
    snapshot: Snapshot,
}

impl Builder {
    fn key(&mut self, name: &str) -> KeyId {
        self.snapshot.vocabulary.names.key(name)
    }

    fn in_list(&mut self, name: &str, operator: Operator, values: &[&str]) -> (KeyId, Requirement) {
        let key = self.key(name);
        (key, Requirement::from_expression(&mut self.snapshot.vocabulary.names, key, operator, values))
    }

    fn set(&mut self, parts: Vec<(KeyId, Requirement)>) -> ReqId {
        self.snapshot.vocabulary.set(parts)
    }

    fn amounts(cpu: i64) -> ResVec {
        let mut out = ResVec::new();
        out.resize(PODS + 1, 0);
        out[CPU] = cpu;
        out[MEMORY] = cpu / 1000 * 2 * GIB;
        out[PODS] = 8;
        out
    }

    fn catalogue(&mut self, sketch: &Sketch) {
        let mut catalogue = Catalogue::default();
        if let Some(capacity) = sketch.reservation {
            self.snapshot.reservations.push(Reservation { id: "cr-1".into(), capacity, commitment: false });
        }
        for (at, row) in sketch.types.iter().enumerate() {
            let name = format!("type-{at}");
            let part = self.in_list(TYPE, Operator::In, &[name.as_str()]);
            let mut capacity_types = vec!["on-demand"];
            if row.spot {
                capacity_types.push("spot");
            }
            if at == 0 && sketch.reservation.is_some() {
                capacity_types.push("reserved");
            }
            let zones = self.in_list(ZONE, Operator::In, &row.zones);
            let kinds = self.in_list(CAPACITY_TYPE, Operator::In, &capacity_types);
            let requirements = self.set(vec![part, zones, kinds]);
            catalogue.types.push(InstanceType {
                name: name.as_str().into(),
                requirements,
                capacity: Self::amounts(row.cpus * 1000),
                volume_limits: row.volume_limit.map(|limit| ("csi".into(), limit)).into_iter().collect(),
            });
            for zone in &row.zones {
                for capacity_type in &capacity_types {
                    let zone = self.in_list(ZONE, Operator::In, &[zone]);
                    let kind = self.in_list(CAPACITY_TYPE, Operator::In, &[capacity_type]);
                    let (zone_value, kind_value) = (zone.1.single(), kind.1.single());
                    let requirements = self.set(vec![zone, kind]);
                    let cents = match *capacity_type {
                        "reserved" => 1,
                        "spot" => row.cpus * 3,
                        _ => row.cpus * 10,
                    };
                    catalogue.offerings.push(Offering {
                        instance_type: TypeIdx::new(at),
                        requirements,
                        price: cents as f64 / 100.0,
                        price_nano_usd: cents * 10_000_000,
                        price_source: Default::default(),
                        available: true,
                        allocatable: Self::amounts(row.cpus * 1000 - 100),
                        reservation: (*capacity_type == "reserved").then_some(ReservationIdx(0)),
                        zone: zone_value,
                        capacity_type: kind_value,
                    });
                }
            }
        }
        catalogue.offerings.sort_by_key(|o| (o.price_nano_usd, o.instance_type, o.zone, o.capacity_type));
        self.snapshot.catalogues.push(Arc::new(catalogue));
    }

    fn pools(&mut self, sketch: &Sketch) {
        for (at, row) in sketch.pools.iter().enumerate() {
            let mut parts = Vec::new();
            if let Some(zones) = &row.zones {
                parts.push(self.in_list(ZONE, Operator::In, zones));
            }
            if let Some(racks) = &row.racks {
                parts.push(self.in_list(RACK, Operator::In, racks));
            }
            if let Some(min) = row.min_types {
                let names: Vec<String> = (0..sketch.types.len()).map(|at| format!("type-{at}")).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let (key, listed) = self.in_list(TYPE, Operator::In, &names);
                parts.push((key, Requirement { min_values: Some(min), ..listed }));
            }
            let requirements = self.set(parts);
            let taints = row.tainted.map(|effect| Taint { key: "a".into(), value: "".into(), effect });
            self.snapshot.has_preferred_taints |= row.tainted == Some(Effect::PreferNoSchedule);
            let mut limits = Vec::new();
            if let Some(cpus) = row.cpu_limit {
                limits.push(Limit { lane: Some(CPU), most: cpus * 1000, used: row.cpu_used * 1000 });
            }
            if let Some(most) = row.node_limit {
                limits.push(Limit { lane: None, most, used: row.cpu_used.min(1) });
            }
            let taints = self.snapshot.vocabulary.taint_list(taints.into_iter().collect());
            self.snapshot.pools.push(Pool {
                name: format!("pool-{}", 9 - at).as_str().into(),
                weight: 0,
                catalogue: CatalogueIdx(0),
                requirements,
                daemon_requirements: requirements,
                taints,
                limits,
                not_ready: None,
            });
        }
    }

    fn identity(&mut self, app: usize) -> IdentityIdx {
        let part = self.in_list("app", Operator::In, &[["web", "api", "db"][app]]);
        let labels = self.set(vec![part]);
        IdentityIdx(self.snapshot.identities.intern(Identity { namespace: 0, labels }))
    }

    fn matcher(&mut self, app: usize) -> Matcher {
        let part = self.in_list("app", Operator::In, &[["web", "api", "db"][app]]);
        let selector = Some(self.set(vec![part]));
        Matcher { terms: vec![MatcherTerm { namespaces: Some(vec![0]), selector }] }
    }

    fn group(&mut self, spec: GroupSpec) -> GroupIdx {
        GroupIdx(self.snapshot.groups.intern(spec))
    }

    fn nodes(&mut self, sketch: &Sketch) {
        for (at, row) in sketch.nodes.iter().enumerate() {
            let name = format!("node-{at}");
            let mut parts = Vec::new();
            for (key, value) in [(ZONE, row.zone), (RACK, row.rack), (HOSTNAME, Some(name.as_str()))] {
                if let Some(value) = value {
                    parts.push(self.in_list(key, Operator::In, &[value]));
                }
            }
            let hostname = parts.last().and_then(|(_, r)| r.single());
            let labels = self.set(parts);
            let taints = self.snapshot.vocabulary.taint_list(Vec::new());
            let pods = row.bound.iter().map(|(app, count)| (self.identity(*app), *count)).collect();
            let mut anti_affinity = Vec::new();
            if row.bound_anti {
                let (key, matcher) = (self.key(ZONE), self.matcher(0));
                anti_affinity.push(self.group(GroupSpec::AntiAffinity { key, matcher }));
            }
            let node = Node {
                name: name.as_str().into(),
                labels,
                anti_affinity,
                hostname,
                taints,
                available: Self::amounts(row.cpus * 1000),
                daemons_present: ResVec::new(),
                accepts_pods: row.accepts_pods,
                initialised: true,
                ports: Vec::new(),
                volumes: Vec::new(),
                volume_limits: row.volume_limit.map(|limit| ("csi".into(), limit)).into_iter().collect(),
                pods,
                pool: None,
                bought: None,
                offering: None,
                price_nano_usd: None,
                shown: Arc::default(),
            };
            self.snapshot.nodes.push(Arc::new(node));
        }
    }

    fn class(&mut self, row: &ClassSketch) {
        let identity = self.identity(row.app);
        let mut strict = Vec::new();
        if let Some((operator, zones)) = &row.zones {
            strict.push(self.in_list(ZONE, *operator, zones));
        }
        if let Some(operator) = row.rack {
            strict.push(self.in_list(RACK, operator, &[]));
        }
        let mut asks = strict.clone();
        if let Some(zone) = row.preferred_zone {
            asks.push(self.in_list(ZONE, Operator::In, &[zone]));
        }
        let (ask, strict) = (self.set(asks), self.set(strict));
        let (mut required, mut anti_affinity, mut soft) = (Vec::new(), Vec::new(), None);
        if let Some((key, max_skew, hard)) = row.spread {
            let spec = GroupSpec::Spread {
                key: self.key(key),
                matcher: self.matcher(row.app),
                max_skew,
                min_domains: None,
                filter: NodeFilter { asks: Some(vec![strict]), tolerations: None },
            };
            let group = self.group(spec);
            if hard { required.push(group) } else { soft = Some(group) }
        }
        if let Some((key, app)) = row.affinity {
            let (key, matcher) = (self.key(key), self.matcher(app));
            required.push(self.group(GroupSpec::Affinity { key, matcher }));
        }
        if let Some((key, app)) = row.anti_affinity {
            let (key, matcher) = (self.key(key), self.matcher(app));
            let group = self.group(GroupSpec::AntiAffinity { key, matcher });
            required.push(group);
            anti_affinity.push(group);
        }
        let mut rungs = Vec::new();
        let with_soft = || required.iter().copied().chain(soft).collect::<Vec<_>>();
        let first = |groups, relaxed| Rung { ask, strict, spare_preferred: false, groups, relaxed };
        rungs.push(first(with_soft(), None));
        if ask != strict {
            let rung = Rung { ask: strict, ..first(with_soft(), Some(Relaxed::NodeAffinity)) };
            rungs.push(rung);
        }
        if soft.is_some() {
            rungs.push(Rung { ask: strict, ..first(required.clone(), Some(Relaxed::Spread)) });
        }
        if self.snapshot.has_preferred_taints {
            let relaxed = Some(Relaxed::PreferNoSchedule);
            rungs.push(Rung { ask: strict, spare_preferred: true, ..first(required.clone(), relaxed) });
        }
        let volume_alternatives = row
            .volume_zones
            .iter()
            .flatten()
            .map(|zone| {
                let part = self.in_list(ZONE, Operator::In, &[zone]);
                self.set(vec![part])
            })
            .collect();
        let tolerations = if row.tolerates {
            vec![Toleration {
                key: "a".into(),
                operator: TolerationOperator::Exists,
                value: "".into(),
                effect: None,
            }]
        } else {
            Vec::new()
        };
        let mut requests = Self::amounts(row.cpu);
        requests[PODS] = 1;
        let class = PodClass {
            identity,
            requests,
            priority: row.priority,
            tolerations: self.snapshot.vocabulary.toleration_list(tolerations),
            ports: row
                .port
                .map(|port| Port { host_ip: "".into(), port, protocol: "TCP".into() })
                .into_iter()
                .collect(),
            volumes: row
                .volume
                .map(|at| VolumeUse { volume: VolumeIdx(at), driver: "csi".into() })
                .into_iter()
                .collect(),
            volume_alternatives,
            anti_affinity,
            rungs,
            refused: None,
            filler: false,
        };
        self.snapshot.classes.push(Arc::new(class));
    }
}

fn build(sketch: &Sketch) -> Snapshot {
    let mut builder = Builder { snapshot: Snapshot::default() };
    for key in [ZONE, CAPACITY_TYPE, TYPE] {
        let key = builder.key(key);
        builder.snapshot.vocabulary.add_well_known(key);
    }
    builder.snapshot.hostname = Some(builder.key(HOSTNAME));
    builder.catalogue(sketch);
    builder.pools(sketch);
    builder.nodes(sketch);
    for row in &sketch.classes {
        builder.class(row);
    }
    if let Some(eighths) = sketch.daemon {
        let everywhere = builder.set(Vec::new());
        let tolerations = builder.snapshot.vocabulary.toleration_list(Vec::new());
        let mut requests = Builder::amounts(eighths * 125);
        requests[PODS] = 1;
        builder.snapshot.daemons.push(Daemon {
            name: "system/agent".into(),
            requests,
            asks: vec![everywhere],
            tolerations,
            ports: Vec::new(),
        });
    }
    for (at, class) in sketch.pods.iter().enumerate() {
        builder.snapshot.pods.push(Pod {
            class: ClassIdx::new(*class),
            created: None,
            uid: "".into(),
            name: format!("default/pod-{at:02}").as_str().into(),
        });
    }
    builder.snapshot
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>()).prop_map(|(best_effort, fallback)| Options {
        min_values: if best_effort { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict },
        reserved: if fallback { ReservedMode::Fallback } else { ReservedMode::Strict },
        ..Options::default()
    })
}

// ---- the undo log ----

/// Everything of a state that later placements can depend on, spelled out: ids of sets may differ between runs that are alike.
fn observed(scratch: &Scratch) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let snapshot = scratch.snapshot;
    for ((room, load), taken) in scratch.room.iter().zip(&scratch.on_node).zip(&scratch.taken) {
        let _ = writeln!(out, "node {room:?} {load:?} {taken}");
    }
    for machine in &scratch.machines {
        let _ = write!(out, "machine {:?} {:?} {:?}", machine.pool, machine.offers, machine.requests);
        let _ =
            write!(out, " {:?} {:?} {:?} {:?}", machine.pods, machine.order, machine.ports, machine.volumes);
        let _ = write!(out, " holds {:?} stale {}", machine.holds, machine.holds_stale);
        let _ = write!(out, " {:?} {}", machine.reservations, machine.min_values_relaxed);
        for (key, rq) in scratch.algebra.items(machine.requirements) {
            let _ = write!(out, " {key:?} {:?}", scratch.algebra.requirement(*rq));
        }
        out.push('\n');
    }
    let _ = writeln!(out, "limits {:?} reservations {:?}", scratch.limits, scratch.reservations);
    let hosts = (snapshot.nodes.len() + scratch.machines.len() + 3) as u32;
    for at in 0..snapshot.groups.len() {
        let group = GroupIdx::new(at);
        let state = scratch.groups.state(group);
        let values = snapshot.vocabulary.names.value_count(snapshot.group(group).key());
        let per_value: Vec<(u32, u32)> = (0..values)
            .map(ValueId::new)
            .map(|value| (scratch.groups.count(group, value), scratch.groups.owner_count(group, value)))
            .collect();
        let per_host: Vec<(u32, u32)> = (0..hosts)
            .map(|host| {
                (scratch.groups.host_count(group, host), scratch.groups.owner_host_count(group, host))
            })
            .collect();
        let _ = writeln!(out, "group {at} {per_value:?} {per_host:?} {} {}", state.total, state.owners_total);
    }
    out
}

type Placed = Result<(Spot, usize), Failure>;

fn place_all(scratch: &mut Scratch, pods: &[PodIdx]) -> Vec<Placed> {
    pods.iter().map(|pod| scratch.place(*pod)).collect()
}

proptest! {
    #![proptest_config(cases(1200))]

    #[test]
    fn an_excursion_leaves_no_trace(
        sketch in sketch(),
        options in options(),
        cuts in (0..14usize, 0..14usize, 0..14usize),
        backwards in any::<bool>(),
        let_go in any::<bool>(),
    ) {
        let snapshot = build(&sketch);
        let mut order = upstream::queue_order(&snapshot, false);
        if backwards {
            order.reverse();
        }
        let first = cuts.0.min(order.len());
        let (before, rest) = order.split_at(first);
        // The excursion takes some of the rest, from another end.
        let mut away: Vec<PodIdx> = rest.iter().rev().copied().take(cuts.1).collect();
        let further: Vec<PodIdx> = rest.iter().copied().filter(|pod| !away.contains(pod)).take(cuts.2).collect();

        let prepared = joiner_core::pack::prepared::Prepared::new(&snapshot);
        let mut straight = Scratch::new(&snapshot, &prepared, &options);
        let expected = (place_all(&mut straight, before), place_all(&mut straight, rest));

        let mut scratch = Scratch::new(&snapshot, &prepared, &options);
        let placed_before = place_all(&mut scratch, before);
        let outside = observed(&scratch);
        let outer = scratch.mark();
        let away_results = place_all(&mut scratch, &away);
        let between = observed(&scratch);
        let inner = scratch.mark();
        let further_results = place_all(&mut scratch, &further);
        let inside = observed(&scratch);
        scratch.rollback(inner);
        prop_assert_eq!(&observed(&scratch), &between, "the inner mark was not restored");
        // The same again from the inner mark, kept this time: it must come back with the outer one.
        let again = scratch.mark();
        prop_assert_eq!(place_all(&mut scratch, &further), further_results);
        prop_assert_eq!(observed(&scratch), inside);
        scratch.keep(again);
        if let_go {
            for class in 0..snapshot.classes.len() {
                scratch.finish_class(ClassIdx::new(class));
            }
        }
        scratch.rollback(outer);
        prop_assert_eq!(&observed(&scratch), &outside, "the outer mark was not restored");

        // A second excursion from the same point goes the same way.
        let outer = scratch.mark();
        prop_assert_eq!(place_all(&mut scratch, &away), away_results);
        prop_assert_eq!(observed(&scratch), between);
        scratch.rollback(outer);
        away.clear();

        let placed_rest = place_all(&mut scratch, rest);
        prop_assert_eq!((placed_before, placed_rest), expected);
        prop_assert_eq!(observed(&scratch), observed(&straight));
    }

    #[test]
    fn marks_that_are_kept_change_nothing(sketch in sketch(), options in options()) {
        let snapshot = build(&sketch);
        let order = upstream::queue_order(&snapshot, false);
        let prepared = joiner_core::pack::prepared::Prepared::new(&snapshot);
        let mut straight = Scratch::new(&snapshot, &prepared, &options);
        let expected = place_all(&mut straight, &order);
        let mut scratch = Scratch::new(&snapshot, &prepared, &options);
        let placed: Vec<Placed> = order
            .iter()
            .map(|pod| {
                let mark = scratch.mark();
                let placed = scratch.place(*pod);
                scratch.keep(mark);
                placed
            })
            .collect();
        prop_assert_eq!(placed, expected);
        prop_assert_eq!(observed(&scratch), observed(&straight));
    }
}

proptest! {
    #![proptest_config(cases(1200))]

    /// Nodes are taken at two depths, with placements before, between and after; what comes after goes as if nothing had been.
    #[test]
    fn nodes_that_were_taken_leave_no_trace(
        sketch in sketch(),
        options in options(),
        cuts in (0..14usize, 0..14usize, 0..14usize),
        taken in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        prop_assume!(!sketch.nodes.is_empty());
        let snapshot = build(&sketch);
        let order = upstream::queue_order(&snapshot, false);
        let (before, rest) = order.split_at(cuts.0.min(order.len()));
        let prepared = joiner_core::pack::prepared::Prepared::new(&snapshot);
        let mut straight = Scratch::new(&snapshot, &prepared, &options);
        let expected = (place_all(&mut straight, before), place_all(&mut straight, rest));

        let mut scratch = Scratch::new(&snapshot, &prepared, &options);
        let placed_before = place_all(&mut scratch, before);
        let outside = observed(&scratch);
        let one = NodeIdx::new(taken.0.index(snapshot.nodes.len()));
        let other = NodeIdx::new(taken.1.index(snapshot.nodes.len()));
        let outer = scratch.mark();
        let mut moved = scratch.take_node(one, &Builder::amounts(4000));
        let first = place_all(&mut scratch, &moved);
        let away: Vec<PodIdx> = rest.iter().rev().copied().take(cuts.1).collect();
        let second = place_all(&mut scratch, &away);
        let between = observed(&scratch);
        if other != one {
            let inner = scratch.mark();
            let pods = scratch.take_node(other, &Builder::amounts(1000));
            place_all(&mut scratch, &pods);
            let further: Vec<PodIdx> =
                rest.iter().copied().filter(|pod| !away.contains(pod)).take(cuts.2).collect();
            place_all(&mut scratch, &further);
            scratch.rollback(inner);
            prop_assert_eq!(&observed(&scratch), &between, "the inner mark was not restored");
        }
        scratch.rollback(outer);
        prop_assert_eq!(&observed(&scratch), &outside, "the outer mark was not restored");

        // The same again goes the same way.
        let outer = scratch.mark();
        moved.clone_from(&scratch.take_node(one, &Builder::amounts(4000)));
        prop_assert_eq!(place_all(&mut scratch, &moved), first);
        prop_assert_eq!(place_all(&mut scratch, &away), second);
        prop_assert_eq!(&observed(&scratch), &between);
        scratch.rollback(outer);

        let placed_rest = place_all(&mut scratch, rest);
        prop_assert_eq!((placed_before, placed_rest), expected);
        prop_assert_eq!(observed(&scratch), observed(&straight));
    }

    /// What a taken node leaves is what there would be if it had been closed and nothing had ever run on it.
    #[test]
    fn a_taken_node_counts_for_nothing(sketch in sketch(), options in options(), taken in any::<prop::sample::Index>()) {
        prop_assume!(!sketch.nodes.is_empty());
        let at = taken.index(sketch.nodes.len());
        let mut without = sketch.clone();
        let node = &mut without.nodes[at];
        (node.bound, node.bound_anti, node.accepts_pods) = (Vec::new(), false, false);
        let place = |sketch: &Sketch, take: bool| {
            let snapshot = build(sketch);
            let prepared = joiner_core::pack::prepared::Prepared::new(&snapshot);
            let mut scratch = Scratch::new(&snapshot, &prepared, &options);
            if take {
                let pods = scratch.take_node(NodeIdx::new(at), &ResVec::new());
                assert!(pods.is_empty());
                let owners = |group: GroupIdx| {
                    let bound = snapshot.bound_anti_affinity();
                    bound.filter(|(of, node)| *of == group && node.at() != at).count() as u32
                };
                for group in (0..snapshot.groups.len()).map(GroupIdx::new) {
                    assert_eq!(scratch.groups.state(group).owners_total, owners(group));
                }
            }
            place_all(&mut scratch, &upstream::queue_order(&snapshot, false))
        };
        let here = place(&sketch, true);
        // A group that nobody owns any more still pins machines: they are refused more, never less.
        if !sketch.nodes[at].bound_anti {
            prop_assert_eq!(here, place(&without, false));
        }
    }
}

/// A refusal that would last while room only shrinks does not outlive a rollback.
#[test]
fn a_refusal_is_forgotten_with_the_excursion() {
    let class = ClassSketch {
        app: 0,
        cpu: 1000,
        priority: 0,
        tolerates: false,
        port: None,
        volume: None,
        volume_zones: None,
        zones: None,
        rack: None,
        preferred_zone: None,
        spread: None,
        affinity: None,
        anti_affinity: None,
    };
    let closed = PoolSketch {
        zones: None,
        racks: None,
        min_types: None,
        tainted: Some(Effect::NoSchedule),
        cpu_limit: None,
        node_limit: None,
        cpu_used: 0,
    };
    let node = NodeSketch {
        zone: None,
        rack: None,
        cpus: 1,
        bound: Vec::new(),
        bound_anti: false,
        accepts_pods: true,
        volume_limit: None,
    };
    let snapshot = build(&Sketch {
        types: vec![TypeSketch { cpus: 4, zones: vec!["zone-a"], spot: false, volume_limit: None }],
        reservation: None,
        pools: vec![closed],
        nodes: vec![node],
        daemon: None,
        classes: vec![class],
        pods: vec![0, 0],
    });
    let options = Options::default();
    let prepared = joiner_core::pack::prepared::Prepared::new(&snapshot);
    let mut scratch = Scratch::new(&snapshot, &prepared, &options);
    let mark = scratch.mark();
    assert_eq!(scratch.place(PodIdx(0)), Ok((Spot::Node(NodeIdx(0)), 0)));
    assert_eq!(scratch.place(PodIdx(1)), Err(Failure::Refused));
    scratch.rollback(mark);
    assert_eq!(scratch.place(PodIdx(1)), Ok((Spot::Node(NodeIdx(0)), 0)));
    assert_eq!(scratch.place(PodIdx(0)), Err(Failure::Refused));
}

// ---- decisions ----

proptest! {
    #![proptest_config(cases(1200))]

    #[test]
    fn equal_snapshots_give_equal_plans(sketch in sketch(), options in options()) {
        let (one, two) = (build(&sketch), build(&sketch));
        let plan = decide::decide(&one, &options);
        prop_assert_eq!(format!("{plan:?}"), format!("{:?}", decide::decide(&one, &options)));
        prop_assert_eq!(format!("{plan:?}"), format!("{:?}", decide::decide(&two, &options)));
        let bound = decide::lower_bound(&one, &options, &plan);
        prop_assert_eq!(bound, decide::lower_bound(&one, &options, &plan));
        let bound = bound.expect("a small snapshot is within the budget");
        let price = plan.price_nano_usd as f64 / 1e9;
        prop_assert!(bound <= price * (1.0 + 1e-9) + 1e-9, "the floor {} is above the plan's {}", bound, price);
    }

    #[test]
    fn every_pod_is_placed_once_or_refused_with_a_reason(sketch in sketch(), options in options()) {
        let snapshot = build(&sketch);
        let plan = decide::decide(&snapshot, &options);
        let mut seen = vec![0usize; snapshot.pods.len()];
        let on_machines = plan.machines.iter().flat_map(|machine| &machine.pods);
        let on_nodes = plan.on_nodes.iter().flat_map(|(_, pods)| pods);
        let mut placed = 0;
        for pod in on_machines.chain(on_nodes) {
            seen[pod.at()] += 1;
            placed += 1;
        }
        prop_assert_eq!(plan.placed, placed);
        for refused in &plan.refused {
            seen[refused.pod.at()] += 1;
            prop_assert!(!refused.reasons.is_empty(), "{:?} is refused without a reason", refused.pod);
        }
        prop_assert!(seen.iter().all(|times| *times == 1), "{:?}", seen);
        // The story told about a pod ends where the plan puts it.
        for at in 0..snapshot.pods.len() {
            let story = decide::explain_pod(&snapshot, &options, PodIdx::new(at));
            let is_refused = plan.refused.iter().any(|refused| refused.pod.at() == at);
            prop_assert_eq!(story.spot.is_none(), is_refused, "pod {}", at);
        }
    }

    #[test]
    fn what_is_placed_fits(sketch in sketch(), options in options()) {
        let snapshot = build(&sketch);
        let plan = decide::decide(&snapshot, &options);
        let requests = |pods: &[PodIdx]| {
            let mut total = ResVec::new();
            for pod in pods {
                add_into(&mut total, &snapshot.classes[snapshot.pods[pod.at()].class.at()].requests);
            }
            total
        };
        for machine in &plan.machines {
            prop_assert_eq!(&requests(&machine.pods), &machine.requests);
            let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
            let used = joiner_core::plan::Plan::used(machine);
            prop_assert!(fits(&used, &catalogue.offerings[machine.offering.at()].allocatable));
            for instance_type in machine.types.iter() {
                let some = catalogue.offerings.iter().any(|o| o.instance_type == *instance_type && fits(&used, &o.allocatable));
                prop_assert!(some, "type {:?} is listed but does not hold the machine's pods", instance_type);
            }
        }
        for (node, pods) in &plan.on_nodes {
            prop_assert!(snapshot.nodes[node.at()].accepts_pods);
            prop_assert!(fits(&requests(pods), &snapshot.nodes[node.at()].available));
        }
        // A reservation is not promised to more machines than it has units.
        for at in 0..snapshot.reservations.len() {
            let reservation = ReservationIdx::new(at);
            let takers = plan.machines.iter().filter(|m| m.reservations.contains(&reservation)).count();
            prop_assert!(takers <= snapshot.reservations[at].capacity as usize);
        }
    }

    #[test]
    fn limits_hold_whatever_type_is_launched(sketch in sketch(), options in options()) {
        let snapshot = build(&sketch);
        let plan = decide::decide(&snapshot, &options);
        for (at, pool) in snapshot.pools.iter().enumerate() {
            let catalogue = &snapshot.catalogues[pool.catalogue.at()];
            let mine: Vec<_> = plan.machines.iter().filter(|m| m.pool.at() == at).collect();
            if mine.is_empty() {
                continue;
            }
            let mut worst = ResVec::new();
            for machine in &mine {
                let mut largest = ResVec::new();
                for instance_type in machine.types.iter() {
                    max_into(&mut largest, &catalogue.types[instance_type.at()].capacity);
                }
                add_into(&mut worst, &largest);
            }
            for limit in &pool.limits {
                let holds = match limit.lane {
                    Some(lane) => lane_of(&worst, lane),
                    None => mine.len() as i64,
                };
                prop_assert!(limit.used + holds <= limit.most, "{:?} exceeded by {}", limit, holds);
            }
        }
    }
}
