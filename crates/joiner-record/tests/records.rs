//! Every kind of decision is written as JSON and read back equal, and has its sentence.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;
use joiner_core::explain::{Amount, Cause, Counts, LimitReached, Listed, Reject, Shortage, TopologyRule};
use joiner_record::{
    Alternative, Breaker, BreakerKind, Command, Completed, Decision, DecisionId, Difference, Disabled, Entry,
    GaveUp, Interruption, Machine, Nomination, Orphan, Outcome, PriceChange, Reason, Resource, Ring, Subject,
    Trouble, Verb, Verdict, WatchTrouble, WatchVerb, words,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

const SECOND: i64 = 1_767_600_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(SECOND + second).unwrap()
}

fn claim(name: &str) -> Subject {
    Subject::new("NodeClaim", name, Some("0c6f".to_owned()))
}

fn pod(name: &str) -> Subject {
    Subject::within("Pod", "shop", name, Some("77aa".to_owned()))
}

fn node(name: &str) -> Subject {
    Subject::new("Node", name, None)
}

fn decision(number: u64, verdict: Verdict, subjects: Vec<Subject>) -> Decision {
    Decision {
        id: DecisionId { run: SECOND, number },
        time: at(0),
        snapshot: 7,
        verdict,
        subjects,
        more_subjects: 0,
        price: None,
        alternatives: Vec::new(),
        commands: Vec::new(),
        more_commands: 0,
        dry_run: false,
    }
}

fn listed(names: &[&str], more: u64) -> Listed {
    Listed { shown: names.iter().map(|name| (*name).to_owned()).collect(), more }
}

fn counts() -> Counts {
    let of = |names: &[(&str, u32)]| names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Counts { fewest: of(&[("a", 1), ("b", 2)]), more: 5, most: of(&[("z", 9)]) }
}

fn reached(resource: &str, limit: i64, used: i64, planned: i64, smallest: i64) -> LimitReached {
    LimitReached {
        resource: resource.to_owned(),
        limit,
        used,
        planned,
        left: limit - used - planned,
        smallest,
    }
}

fn causes() -> Vec<Cause> {
    let text = str::to_owned;
    vec![
        Cause::Pod { message: text("volume claim `shop/data` does not exist: create it") },
        Cause::NoPool,
        Cause::PoolNotReady { message: text("the pool is being deleted") },
        Cause::ClassNotServed { kind: text("EC2NodeClass"), group: text("karpenter.k8s.aws") },
        Cause::Taint { taint: text("example.com/dedicated=batch:NoSchedule") },
        Cause::OwnContradiction { key: text("example.com/team") },
        Cause::UndefinedLabel { asked: text("example.com/team In [a]"), nearest: None },
        Cause::UndefinedLabel {
            asked: text("example.com/taem In [a]"),
            nearest: Some(text("example.com/team")),
        },
        Cause::PoolDisagrees {
            asked: text("kubernetes.io/arch In [arm46]"),
            pool_has: text("kubernetes.io/arch In [amd64, arm64]"),
            nearest: Some(text("arm64")),
        },
        Cause::Contradiction,
        Cause::VolumesUnreachable,
        Cause::VolumesWithoutOffering,
        Cause::TooManyVolumes { driver: text("ebs.csi.aws.com"), wanted: 40, most: 27 },
        Cause::NoInstanceType { alone: None, nearest: None },
        Cause::NoInstanceType {
            alone: Some(text("node.kubernetes.io/instance-type In [m9z.large]")),
            nearest: Some(text("m9g.large")),
        },
        Cause::OfferingsUnavailable,
        Cause::DaemonsTooLarge,
        Cause::PoolUnavailable { asked: None, key: None, available: Listed::default() },
        Cause::PoolUnavailable {
            asked: Some(text("karpenter.sh/capacity-type In [spot]")),
            key: Some(text("karpenter.sh/capacity-type")),
            available: listed(&["on-demand"], 0),
        },
        Cause::NoOffering {
            key: text("topology.kubernetes.io/zone"),
            asked: text("topology.kubernetes.io/zone In [test-zone-e]"),
            values: vec![text("test-zone-e")],
            offered: listed(&["test-zone-a", "test-zone-b"], 3),
            nearest: Some(text("test-zone-a")),
        },
        Cause::NoOffering {
            key: text("example.com/cpus"),
            asked: text("example.com/cpus Gt 64"),
            values: Vec::new(),
            offered: Listed::default(),
            nearest: None,
        },
        Cause::NoOfferingTogether { asked: vec![text("a In [x]"), text("b In [y]")] },
        Cause::Resources {
            short: vec![
                Shortage { resource: text("cpu"), asked: 2_000_000_000, largest: 255_900 },
                Shortage { resource: text("ephemeral-storage"), asked: 21 << 30, largest: 20 << 30 },
            ],
            unit_doubtful: true,
        },
        Cause::ResourcesTogether {
            wanted: vec![
                Amount { resource: text("cpu"), amount: 1500 },
                Amount { resource: text("memory"), amount: 3 << 29 },
                Amount { resource: text("nvidia.com/gpu"), amount: 2 },
            ],
        },
        Cause::HostPort { ports: vec![text("9100/TCP"), text("53/UDP")] },
        Cause::NodeLimit { limit: 3, used: 1, planned: 2 },
        Cause::Limit { limits: Vec::new(), min_values: None },
        Cause::Limit { limits: vec![reached("cpu", 5000, 3000, 1000, 2000)], min_values: None },
        Cause::Limit {
            limits: vec![
                reached("cpu", 5000, 0, 4000, 2000),
                reached("memory", 16 << 30, 8 << 30, 0, 12 << 30),
            ],
            min_values: None,
        },
        Cause::Limit {
            limits: vec![reached("cpu", 5000, 0, 0, 8000)],
            min_values: Some(text("karpenter.kwok.sh/instance-family")),
        },
        Cause::MinValues { key: text("karpenter.kwok.sh/instance-family"), left: 3, needed: 4 },
        Cause::Reserved,
        Cause::Topology { rules: Vec::new(), others_refuse: false },
        Cause::Topology {
            rules: vec![
                TopologyRule::Spread {
                    key: text("topology.kubernetes.io/zone"),
                    max_skew: 1,
                    min_domains: Some(3),
                    counts: counts(),
                },
                TopologyRule::Affinity { key: text("kubernetes.io/hostname") },
                TopologyRule::AntiAffinity { key: text("kubernetes.io/hostname"), counts: Counts::default() },
            ],
            others_refuse: true,
        },
        Cause::Existing { cordoned: 1, tainted: 2, unlabelled: 0, full: 4, ruled_out: 5 },
    ]
}

fn trouble(trouble: Trouble, verb: WatchVerb, group: &str, plural: &str, disables: Disabled) -> WatchTrouble {
    let resource = Resource { group: group.to_owned(), plural: plural.to_owned() };
    WatchTrouble { resource, verb, since: at(0), trouble, disables }
}

fn decisions() -> Vec<Decision> {
    let text = str::to_owned;
    let machine = Machine {
        claim: Some(text("default-1x7q2")),
        node_pool: Some(text("default")),
        node_group: None,
        instance_type: text("c-4x-amd64-linux"),
        zone: Some(text("test-zone-a")),
        capacity_type: Some(text("spot")),
        usd_per_hour: 0.0512,
        other_types: 17,
        pods: listed(&["shop/web-0", "shop/web-1"], 0),
    };
    let provisioned = Decision {
        price: Some(PriceChange { before_usd_per_hour: 1.5, after_usd_per_hour: 1.6024 }),
        alternatives: vec![
            Alternative::OriginalPacking { machines: 3, usd_per_hour: 0.1536 },
            Alternative::PreferencesKept {
                pods: 4,
                machines: 4,
                usd_per_hour: 0.2,
                dearer_by_share: Some(0.95),
            },
        ],
        commands: vec![
            Command {
                verb: Verb::Create,
                object: claim("default-1x7q2"),
                completed: Some(Completed { time: at(1), outcome: Outcome::Done }),
            },
            Command { verb: Verb::Create, object: claim("default-9k2m1"), completed: None },
        ],
        more_commands: 2,
        dry_run: false,
        more_subjects: 2,
        ..decision(
            0,
            Verdict::Provisioned {
                machines: vec![machine],
                types: BTreeMap::from([(text("c-4x-amd64-linux"), 2)]),
                pods: 9,
                usd_per_hour: 0.1024,
            },
            vec![claim("default-1x7q2"), claim("default-9k2m1")],
        )
    };
    let nomination = |name: &str| Nomination { pod: format!("shop/{name}"), place: node("node-a") };
    let one = |is_it: fn(&Cause) -> bool| causes().into_iter().find(is_it).unwrap();
    let refused = vec![
        Reason::new(Some(text("default")), one(|of| matches!(of, Cause::Taint { .. }))),
        Reason::new(None, one(|of| matches!(of, Cause::Existing { .. }))),
    ];
    let gave_up = |why| Verdict::GaveUp { why };
    let runaway = |difference| Verdict::BreakerTripped {
        breaker: Breaker::Runaway {
            machines: 3,
            node: text("node-a"),
            difference,
            pods: 2,
            retry_after_seconds: 300,
        },
    };
    let label = |found: Option<&str>| Difference::Label {
        key: text("example.com/team"),
        planned: text("web"),
        found: found.map(str::to_owned),
    };
    let memory = Difference::Resource { resource: text("memory"), planned: text("8Gi"), found: text("7Gi") };
    let denied = |what, plural: &str, group: &str, disables| {
        Verdict::WatchTrouble(trouble(what, WatchVerb::List, group, plural, disables))
    };
    let failing = Trouble::Failing { failures: 4, message: text("the server is not ready") };
    let pods = trouble(failing, WatchVerb::Watch, "", "pods", Disabled::Decisions);
    let resource = pods.resource.clone();
    let mut all = vec![
        provisioned,
        decision(0, Verdict::Nominated { nominations: vec![nomination("a")], pods: 1 }, vec![pod("a")]),
        decision(
            0,
            Verdict::Nominated { nominations: vec![nomination("a"), nomination("b")], pods: 3 },
            vec![pod("a"), pod("b")],
        ),
        decision(0, Verdict::Refused { reasons: refused.clone(), pods: 1 }, vec![pod("a")]),
        decision(0, Verdict::Refused { reasons: refused, pods: 12 }, vec![pod("a")]),
        decision(
            0,
            Verdict::Launched {
                instance_type: Some(text("m-8x")),
                zone: Some(text("a")),
                capacity_type: None,
            },
            vec![claim("c")],
        ),
        decision(0, gave_up(GaveUp::NoCapacity { message: text("all of them are taken") }), vec![claim("c")]),
        decision(0, gave_up(GaveUp::ClassNotReady { message: text("no such class") }), vec![claim("c")]),
        decision(
            0,
            gave_up(GaveUp::NotLaunched { within_seconds: 300, message: text("throttled") }),
            vec![claim("c")],
        ),
        decision(
            0,
            gave_up(GaveUp::NotRegistered { within_seconds: 900, message: text("no node has come") }),
            vec![claim("c")],
        ),
        decision(0, Verdict::Emptied { usd_per_hour: 0.25 }, vec![node("node-a"), claim("c")]),
        decision(0, Verdict::Expired { expire_after: text("720h") }, vec![claim("c")]),
        decision(
            0,
            Verdict::Resized { wanted: 3, have: 1, created: 2, removed: 0 },
            vec![Subject::new("NodePool", "base", None), claim("c")],
        ),
        decision(
            0,
            Verdict::Resized { wanted: 1, have: 2, created: 0, removed: 1 },
            vec![Subject::new("NodePool", "base", None), claim("c")],
        ),
        decision(0, Verdict::Terminated, vec![claim("c")]),
        decision(
            0,
            Verdict::Collected { orphan: Orphan::Machine },
            vec![Subject::new("Machine", "kwok://i-1", None)],
        ),
        decision(0, Verdict::Collected { orphan: Orphan::Claim }, vec![claim("c")]),
        decision(
            0,
            Verdict::Failed { verb: Verb::Create, message: text("quota exceeded"), retry_after_seconds: 2 },
            vec![claim("c")],
        ),
        decision(0, Verdict::DisruptionBlocked, vec![Subject::new("NodePool", "default", None)]),
        decision(0, runaway(None), vec![pod("a")]),
        decision(
            0,
            runaway(Some(Difference::Taint { taint: text("a=b:NoSchedule") })),
            vec![pod("a"), pod("b")],
        ),
        decision(0, runaway(Some(label(None))), vec![pod("a")]),
        decision(0, runaway(Some(label(Some("db")))), vec![pod("a")]),
        decision(0, runaway(Some(memory)), vec![pod("a")]),
        decision(
            0,
            Verdict::BreakerTripped { breaker: Breaker::Registration { failures: 3 } },
            vec![Subject::new("NodePool", "default", None)],
        ),
        decision(
            0,
            Verdict::BreakerTripped { breaker: Breaker::ClusterHealth { unready: 5, nodes: 10 } },
            vec![],
        ),
        decision(0, Verdict::BreakerReset { breaker: BreakerKind::Runaway }, vec![pod("a")]),
        decision(
            0,
            Verdict::BreakerReset { breaker: BreakerKind::Registration },
            vec![Subject::new("NodePool", "default", None)],
        ),
        decision(0, Verdict::BreakerReset { breaker: BreakerKind::ClusterHealth }, vec![]),
        decision(0, Verdict::Evicted { reason: text("Empty") }, vec![pod("a")]),
        decision(
            0,
            Verdict::Interrupted {
                interruption: Interruption::Reclaimed,
                at: Some("2026-01-05T08:02:00Z".parse().unwrap()),
                message: text("spot capacity is needed"),
            },
            vec![claim("c"), node("node-a")],
        ),
        decision(
            0,
            Verdict::Interrupted {
                interruption: Interruption::Impaired,
                at: None,
                message: text("no network"),
            },
            vec![claim("c")],
        ),
        decision(0, denied(Trouble::Forbidden, "poddisruptionbudgets", "policy", Disabled::HeldPods), vec![]),
        decision(0, denied(Trouble::NotServed, "nodepools", "karpenter.sh", Disabled::Decisions), vec![]),
        decision(
            0,
            denied(Trouble::NotServed, "ec2nodeclasses", "karpenter.k8s.aws", Disabled::PoolsOfClass),
            vec![],
        ),
        decision(0, Verdict::WatchTrouble(pods), vec![]),
        decision(0, Verdict::WatchRecovered { resource, after_seconds: 95 }, vec![]),
    ];
    for (at, decision) in all.iter_mut().enumerate() {
        decision.id.number = at as u64 + 1;
    }
    all
}

fn round<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> String {
    let text = serde_json::to_string(value).unwrap();
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
    text
}

#[test]
fn every_decision_is_read_back_as_it_was_written() {
    let mut codes: Vec<String> = Vec::new();
    for decision in decisions() {
        let text = round(&decision);
        let kind = serde_json::from_str::<serde_json::Value>(&text).unwrap()["verdict"]["kind"].clone();
        assert_eq!(kind, decision.verdict.code());
        codes.push(decision.verdict.code().to_owned());
        assert!(text.lines().count() == 1, "a line of a file");
        round(&Entry::Decided(decision));
    }
    codes.sort();
    codes.dedup();
    // A new kind of decision needs an example above.
    assert_eq!(codes.len(), 18, "{codes:?}");
    let id = decisions()[3].id;
    assert_eq!(id.to_string(), "20260105T080000-4");
    for outcome in outcomes() {
        round(&Entry::Completed { id, command: 2, completed: Completed { time: at(3), outcome } });
    }
    round(&Entry::Lost { count: 3 });
    for bad in ["", "x", "20260105T080000", "20260105T080000-x", "20261305T080000-1"] {
        assert!(bad.parse::<DecisionId>().is_err(), "{bad}");
    }
}

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Done,
        Outcome::Conflict,
        Outcome::Gone,
        Outcome::Postponed { message: "a budget says no".to_owned() },
        Outcome::NotEmpty,
        Outcome::Failed { message: "the server is down".to_owned() },
        Outcome::NotTried,
    ]
}

#[test]
fn every_cause_is_read_back_as_it_was_written() {
    let mut codes: Vec<Reject> = Vec::new();
    for cause in causes() {
        let reason = Reason::new(Some("default".to_owned()), cause);
        let text = round(&reason);
        // The word of the record is the word of plans and metrics.
        assert!(text.contains(&format!("\"code\":\"{}\"", reason.code.code())), "{text}");
        codes.push(reason.code);
    }
    codes.sort();
    codes.dedup();
    assert_eq!(codes.len(), 16, "every kind of refusal has an example");
}

#[test]
fn decisions_in_words() {
    let mut text = String::new();
    for decision in decisions() {
        writeln!(text, "{:<18}{}", decision.verdict.code(), words::summary(&decision)).unwrap();
        if let Some(event) = words::event(&decision.verdict, Some(&node("node-a"))) {
            let level = if event.warning { "Warning" } else { "Normal" };
            writeln!(text, "    {level} {}: {}", event.reason, event.message).unwrap();
        }
        for alternative in &decision.alternatives {
            writeln!(text, "    not {}", words::alternative(alternative)).unwrap();
        }
        for command in &decision.commands {
            let completed =
                command.completed.as_ref().map_or("under way".to_owned(), |of| words::outcome(&of.outcome));
            writeln!(text, "    {}: {completed}", words::command(command.verb, &command.object)).unwrap();
        }
    }
    insta::assert_snapshot!("decisions", text);
}

#[test]
fn causes_in_words() {
    let lines: Vec<String> =
        causes().iter().map(|cause| format!("{:<18}{cause}", cause.code().code())).collect();
    insta::assert_snapshot!("causes", lines.join("\n"));
}

#[test]
fn a_record_as_json() {
    let decisions = decisions();
    insta::assert_json_snapshot!("provisioned", decisions[0]);
    insta::assert_json_snapshot!("refused", decisions[3]);
}

#[test]
fn a_ring_keeps_the_last_within_its_bounds() {
    let mut ring = Ring::new(4, usize::MAX);
    for decision in decisions() {
        ring.push(decision);
    }
    let all = decisions().len() as u64;
    assert_eq!((ring.len(), ring.total()), (4, all));
    let numbers: Vec<u64> = ring.tail(9).iter().map(|decision| decision.id.number).collect();
    assert_eq!(numbers, [all - 3, all - 2, all - 1, all]);
    assert_eq!(ring.tail(1)[0].id.number, all);
    assert_eq!(ring.newest_first().next().unwrap().id.number, all);

    let mut small = Ring::new(1000, 4000);
    for number in 1..=500 {
        small.push(Decision { id: DecisionId { run: 0, number }, ..decisions()[0].clone() });
        assert!(small.bytes() <= 4000, "{}", small.bytes());
    }
    assert!(small.len() > 1);
    // What is larger than all the room is kept until the next comes.
    let mut tiny = Ring::new(1000, 1);
    tiny.push(decisions()[0].clone());
    tiny.push(decisions()[1].clone());
    assert_eq!((tiny.len(), tiny.total()), (1, 2));
}

#[test]
fn outcomes_find_their_decision() {
    let mut ring = Ring::new(2, usize::MAX);
    let commands = |number| Decision {
        id: DecisionId { run: 0, number },
        commands: decisions()[0].commands.clone(),
        ..decisions()[0].clone()
    };
    (1..=3).for_each(|number| ring.push(commands(number)));
    let seen = ring.changes();
    let completed = Completed { time: at(5), outcome: Outcome::Conflict };
    assert!(ring.complete(DecisionId { run: 0, number: 2 }, 1, completed.clone()));
    assert!(!ring.complete(DecisionId { run: 0, number: 2 }, 2, completed.clone()), "no such command");
    assert!(!ring.complete(DecisionId { run: 0, number: 1 }, 0, completed.clone()), "no longer here");
    assert_eq!(ring.changes(), seen + 1);
    let decision = ring.get(DecisionId { run: 0, number: 2 }).unwrap();
    assert_eq!(decision.commands[1].completed, Some(completed));
}
