//! Every rule on every kind, once accepted and once refused.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use joiner_api::validation::{self, Problem};
use joiner_api::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn load<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Lays `patch` over `base`: maps field by field, anything else replaced, null removes.
fn merged(mut base: Value, patch: Value) -> Value {
    fn lay(base: &mut Value, patch: Value) {
        match patch {
            Value::Object(fields) => {
                if !base.is_object() {
                    *base = json!({});
                }
                for (field, value) in fields {
                    if value.is_null() {
                        base.as_object_mut().unwrap().remove(&field);
                    } else {
                        lay(&mut base[field.as_str()], value);
                    }
                }
            }
            other => *base = other,
        }
    }
    lay(&mut base, patch);
    base
}

fn pool(spec: Value) -> NodePool {
    let base = json!({
        "metadata": { "name": "default" },
        "spec": { "template": { "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
        } } },
    });
    load(merged(base, json!({ "spec": spec })))
}

fn template(spec: Value) -> NodePool {
    pool(json!({ "template": { "spec": spec } }))
}

fn paths(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.path.as_str()).collect()
}

#[track_caller]
fn accepts(pool: NodePool) {
    assert_eq!(validation::validate_nodepool(&pool), []);
}

/// The pool has exactly one problem, at `path` below `spec`, and its text holds `part`.
#[track_caller]
fn refuses(pool: NodePool, path: &str, part: &str) {
    one(validation::validate_nodepool(&pool), &format!("spec.{path}"), part);
}

#[track_caller]
fn one(problems: Vec<Problem>, path: &str, part: &str) {
    assert_eq!(paths(&problems), [path], "{problems:#?}");
    let text = problems[0].to_string();
    assert!(text.contains(part), "{text:?} does not speak of {part:?}");
    assert!(!problems[0].remedy.is_empty() && !text.ends_with('.'), "{text}");
}

#[test]
fn a_problem_reads_as_a_sentence() {
    let pool = template(json!({ "requirements": [{ "key": "team", "operator": "Is", "values": ["web"] }] }));
    assert_eq!(
        validation::validate_nodepool(&pool)[0].to_string(),
        "`spec.template.spec.requirements[0].operator` is `Is`: not an operator; \
         use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte"
    );
}

#[test]
fn names() {
    for (name, fine) in [
        (json!("default"), true),
        (json!("a.b-c"), true),
        (json!("x".repeat(63)), true),
        (json!("x".repeat(64)), false),
        (json!("Default"), false),
        (json!("a_b"), false),
        (json!(""), false),
        (Value::Null, false),
    ] {
        let mut pool = pool(json!({}));
        pool.metadata.name = name.as_str().map(str::to_owned);
        let found = validation::validate_nodepool(&pool);
        if fine {
            assert_eq!(found, [], "{name}");
        } else {
            one(found, "metadata.name", "DNS name");
        }
    }
}

#[test]
fn template_labels() {
    let labels = |labels: Value| pool(json!({ "template": { "metadata": { "labels": labels } } }));
    for (key, value) in [
        ("team", "web"),
        ("example.com/team", ""),
        ("karpenter.sh/capacity-type", "spot"),
        ("kubernetes.io/custom", "x"),
        ("node-role.kubernetes.io/web", "x"),
        ("karpenter.kwok.sh/instance-cpu", "4"),
        ("topology.kubernetes.io/zone", "a"),
    ] {
        accepts(labels(json!({ key: value })));
    }
    let at = "template.metadata.labels";
    for (key, part) in [
        ("karpenter.sh/nodepool", "the name of the pool"),
        ("karpenter.sh/initialized", "`karpenter.sh` is restricted"),
        ("karpenter.sh/instance-memory", "`karpenter.sh` is restricted"),
        ("sub.karpenter.sh/a", "`karpenter.sh` is restricted"),
        ("xkarpenter.sh/a", "`karpenter.sh` is restricted"),
        ("karpenter.kwok.sh/rack", "`karpenter.kwok.sh` is restricted"),
        ("karpenter.k8s.aws/rack", "`karpenter.k8s.aws` is restricted"),
        ("kubernetes.io/hostname", "differs from node to node"),
    ] {
        refuses(labels(json!({ key: "x" })), &format!("{at}[{key}]"), part);
    }
    for (key, part) in
        [("a b", "letters, digits"), ("a/b/c", "more than one slash"), ("UPPER.com/a", "not a DNS domain")]
    {
        refuses(labels(json!({ key: "x" })), at, part);
    }
    refuses(labels(json!({ "team": "a b" })), "template.metadata.labels.team", "label value");
    refuses(labels(json!({ "team": "x".repeat(64) })), "template.metadata.labels.team", "63 characters");
    let many = |count: usize| (0..count).map(|i| (format!("l{i}"), json!("x"))).collect::<Value>();
    accepts(labels(many(100)));
    refuses(labels(many(101)), at, "at most 100");
}

#[test]
fn requirement_keys() {
    let key = |key: &str| template(json!({ "requirements": [{ "key": key, "operator": "Exists" }] }));
    for fine in [
        "team",
        "example.com/team",
        "karpenter.sh/capacity-type",
        "kubernetes.io/arch",
        "beta.kubernetes.io/arch",
        "failure-domain.beta.kubernetes.io/zone",
        "karpenter.kwok.sh/instance-size",
        "karpenter.kwok.sh/kwoknodeclass",
        "karpenter.kwok.sh/instance-type",
        "karpenter.sh/instance-memory",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/ec2nodeclass",
        "topology.k8s.aws/zone-id",
        "kubernetes.io/other",
    ] {
        accepts(key(fine));
    }
    let at = "template.spec.requirements[0].key";
    for (bad, part) in [
        ("karpenter.sh/nodepool", "the name of the pool"),
        ("kubernetes.io/hostname", "differs from node to node"),
        ("karpenter.sh/registered", "`karpenter.sh` is restricted"),
        ("a.karpenter.sh/b", "`karpenter.sh` is restricted"),
        ("xkarpenter.sh/b", "`karpenter.sh` is restricted"),
        ("karpenter.kwok.sh/rack", "`karpenter.kwok.sh` is restricted"),
        ("karpenter.k8s.aws/rack", "`karpenter.k8s.aws` is restricted"),
        ("", "the name is empty"),
        ("a/", "the name is empty"),
        (&"k".repeat(64), "63 characters"),
    ] {
        refuses(key(bad), at, part);
    }
}

#[test]
fn a_catalogue_brings_keys() {
    let pool =
        template(json!({ "requirements": [{ "key": "karpenter.k8s.aws/rack", "operator": "Exists" }] }));
    let extra = BTreeSet::from(["karpenter.k8s.aws/rack".to_owned()]);
    assert_eq!(validation::validate_nodepool_with(&pool, &extra), []);
    // The schema knows the labels of the KWOK provider by name, so a cluster refuses any other whatever the catalogue.
    let pool =
        template(json!({ "requirements": [{ "key": "karpenter.kwok.sh/rack", "operator": "Exists" }] }));
    let extra = BTreeSet::from(["karpenter.kwok.sh/rack".to_owned()]);
    assert_eq!(validation::validate_nodepool_with(&pool, &extra).len(), 1);
}

#[test]
fn requirement_operators_and_values() {
    let requirement = |operator: &str, values: Value| {
        template(json!({ "requirements": [{ "key": "team", "operator": operator, "values": values }] }))
    };
    for (operator, values) in [
        ("In", json!(["a"])),
        ("In", json!(["a", ""])),
        ("NotIn", json!(["a"])),
        ("NotIn", json!([])),
        ("Exists", json!([])),
        ("DoesNotExist", json!([])),
        ("Gt", json!(["0"])),
        ("Lt", json!(["9"])),
        ("Gte", json!(["007"])),
        ("Lte", json!(["100"])),
    ] {
        accepts(requirement(operator, values));
    }
    let at = "template.spec.requirements[0].values";
    for (operator, values, part) in [
        ("In", json!([]), "operator In needs at least one value"),
        ("In", json!(["a b"]), "label value"),
        ("NotIn", json!(["x".repeat(64)]), "63 characters"),
        ("Gt", json!([]), "operator Gt needs exactly one"),
        ("Lt", json!(["1", "2"]), "operator Lt needs exactly one"),
        ("Gte", json!(["x"]), "operator Gte needs exactly one"),
        ("Lte", json!(["1.5"]), "operator Lte needs exactly one"),
    ] {
        refuses(requirement(operator, values), at, part);
    }
    // A negative number is no label value either, but that is not the point.
    let problems = validation::validate_nodepool(&requirement("Gt", json!(["-1"])));
    assert_eq!(paths(&problems), ["spec.template.spec.requirements[0].values"]);
    assert!(problems[0].to_string().contains("a whole number not below 0"), "{}", problems[0]);
    for operator in ["in", "Equals", ""] {
        refuses(
            requirement(operator, json!(["a"])),
            "template.spec.requirements[0].operator",
            "not an operator",
        );
    }
}

#[test]
fn min_values() {
    let requirement = |operator: &str, values: Value, min: i64| {
        template(json!({ "requirements": [{
            "key": "example.com/size", "operator": operator, "values": values, "minValues": min,
        }] }))
    };
    accepts(requirement("In", json!(["a", "b"]), 2));
    accepts(requirement("Exists", json!([]), 50));
    let at = "template.spec.requirements[0].minValues";
    refuses(requirement("In", json!(["a", "b"]), 3), at, "more than the 2 values listed");
    refuses(requirement("Exists", json!([]), 0), at, "from 1 to 50");
    refuses(requirement("Exists", json!([]), 51), at, "from 1 to 50");
    refuses(requirement("Exists", json!([]), -1), at, "from 1 to 50");
}

#[test]
fn capacity_types() {
    let requirement = |operator: &str, values: Value, min: Value| {
        template(json!({ "requirements": [{
            "key": "karpenter.sh/capacity-type", "operator": operator, "values": values, "minValues": min,
        }] }))
    };
    accepts(requirement("In", json!(["spot", "on-demand", "reserved"]), json!(3)));
    accepts(requirement("In", json!(["spot", "other"]), Value::Null));
    accepts(requirement("NotIn", json!(["other"]), Value::Null));
    let at = "template.spec.requirements[0].values";
    refuses(requirement("In", json!(["other"]), Value::Null), at, "no known capacity type");
    refuses(requirement("In", json!(["Spot"]), Value::Null), at, "no known capacity type");
    refuses(requirement("In", json!(["spot", "other"]), json!(2)), at, "holds 1 known capacity types, fewer");
}

#[test]
fn requirement_count() {
    let many = |count: usize| {
        let list: Vec<_> =
            (0..count).map(|i| json!({ "key": format!("k{i}"), "operator": "Exists" })).collect();
        template(json!({ "requirements": list }))
    };
    accepts(many(100));
    refuses(many(101), "template.spec.requirements", "at most 100");
}

#[test]
fn node_class_reference() {
    let reference = |patch: Value| template(json!({ "nodeClassRef": patch }));
    accepts(reference(json!({ "group": "g", "kind": "K", "name": "n" })));
    for field in ["group", "kind", "name"] {
        let path = format!("template.spec.nodeClassRef.{field}");
        refuses(reference(json!({ field: "" })), &path, "must not be empty");
    }
    let path = "template.spec.nodeClassRef.group";
    refuses(reference(json!({ "group": "karpenter.kwok.sh/v1alpha1" })), path, "holds a version");
}

#[test]
fn taints() {
    let taints =
        |taints: Value, startup: Value| template(json!({ "taints": taints, "startupTaints": startup }));
    for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute"] {
        accepts(taints(json!([{ "key": "a", "effect": effect }]), Value::Null));
        accepts(taints(Value::Null, json!([{ "key": "example.com/a", "value": "b", "effect": effect }])));
    }
    accepts(taints(
        json!([{ "key": "a", "effect": "NoSchedule" }]),
        json!([{ "key": "a", "effect": "NoExecute" }]),
    ));
    let bad = |taint: Value, field: &str, part: &str| {
        refuses(taints(json!([taint]), Value::Null), &format!("template.spec.taints[0].{field}"), part);
        refuses(
            taints(Value::Null, json!([taint])),
            &format!("template.spec.startupTaints[0].{field}"),
            part,
        );
    };
    bad(json!({ "key": "", "effect": "NoSchedule" }), "key", "the name is empty");
    bad(json!({ "key": "a b", "effect": "NoSchedule" }), "key", "letters, digits");
    bad(json!({ "key": "a", "value": "", "effect": "NoSchedule" }), "value", "leave it out");
    bad(json!({ "key": "a", "value": "b c", "effect": "NoSchedule" }), "value", "letters, digits");
    bad(json!({ "key": "a" }), "effect", "not a taint effect");
    bad(json!({ "key": "a", "effect": "noschedule" }), "effect", "not a taint effect");
    let twice = json!([{ "key": "a", "value": "x", "effect": "NoSchedule" }]);
    let again = json!([{ "key": "a", "value": "y", "effect": "NoSchedule" }]);
    refuses(taints(twice, again), "template.spec.startupTaints[0]", "occur before");
}

#[test]
fn durations() {
    for text in ["720h", "1h30m", "90s", "0s", "1s1s", "Never"] {
        accepts(template(json!({ "expireAfter": text })));
        accepts(pool(json!({ "disruption": { "consolidateAfter": text } })));
    }
    for text in ["", "1d", "1.5h", "500ms", "-1h", "never", "1h ", "h", "30"] {
        refuses(template(json!({ "expireAfter": text })), "template.spec.expireAfter", "nor `Never`");
        let bad = pool(json!({ "disruption": { "consolidateAfter": text } }));
        refuses(bad, "disruption.consolidateAfter", "nor `Never`");
        let bad = template(json!({ "terminationGracePeriod": text }));
        refuses(bad, "template.spec.terminationGracePeriod", "not a duration");
    }
    accepts(template(json!({ "terminationGracePeriod": "10m" })));
    let bad = template(json!({ "terminationGracePeriod": "Never" }));
    refuses(bad, "template.spec.terminationGracePeriod", "not a duration");
    refuses(template(json!({ "expireAfter": "9999999999h" })), "template.spec.expireAfter", "too long");
}

#[test]
fn consolidation_policies() {
    for policy in ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "WhenUnderutilized"] {
        accepts(pool(json!({ "disruption": { "consolidationPolicy": policy } })));
    }
    for policy in ["", "whenempty", "Always"] {
        let bad = pool(json!({ "disruption": { "consolidationPolicy": policy } }));
        refuses(bad, "disruption.consolidationPolicy", "use WhenEmpty");
    }
}

#[test]
fn budgets() {
    let budget = |budget: Value| pool(json!({ "disruption": { "budgets": [budget] } }));
    for fine in [
        json!({}),
        json!({ "nodes": "0" }),
        json!({ "nodes": "100%" }),
        json!({ "nodes": "5", "reasons": ["Underutilized", "Empty", "Drifted"] }),
        json!({ "nodes": "5", "reasons": [] }),
        json!({ "nodes": "5", "schedule": "0 9 * * mon-fri", "duration": "8h" }),
        json!({ "nodes": "5", "schedule": "@daily", "duration": "1h30m" }),
        json!({ "nodes": "5", "schedule": "not a cron line really", "duration": "10m0s" }),
    ] {
        accepts(budget(fine));
    }
    for (bad, field, part) in [
        (json!({ "nodes": "101%" }), "nodes", "up to 100%"),
        (json!({ "nodes": "-1" }), "nodes", "up to 100%"),
        (json!({ "nodes": "" }), "nodes", "up to 100%"),
        (json!({ "reasons": ["Expired"] }), "reasons", "use Underutilized"),
        (json!({ "reasons": ["Empty", "Empty"] }), "reasons", "listed twice"),
        (json!({ "schedule": "@daily" }), "schedule", "without `duration`"),
        (json!({ "duration": "1h" }), "duration", "without `schedule`"),
        (json!({ "schedule": "* * * *", "duration": "1h" }), "schedule", "five cron fields"),
        (json!({ "schedule": "@reboot", "duration": "1h" }), "schedule", "five cron fields"),
        (json!({ "schedule": "@daily", "duration": "90s" }), "duration", "hours and minutes"),
        (json!({ "schedule": "@daily", "duration": "1d" }), "duration", "hours and minutes"),
    ] {
        refuses(budget(bad), &format!("disruption.budgets[0].{field}"), part);
    }
    let many = |count: usize| pool(json!({ "disruption": { "budgets": vec![json!({}); count] } }));
    accepts(many(50));
    refuses(many(51), "disruption.budgets", "at most 50");
}

#[test]
fn limits_weight_and_replicas() {
    accepts(pool(
        json!({ "limits": { "cpu": 1000, "memory": "400Gi", "example.com/gpu": "8", "nodes": "3" } }),
    ));
    refuses(pool(json!({ "limits": { "cpu": "lots" } })), "limits.cpu", "not a quantity");
    for weight in [1, 100] {
        accepts(pool(json!({ "weight": weight })));
    }
    for weight in [0, 101, -1] {
        refuses(pool(json!({ "weight": weight })), "weight", "from 1 to 100");
    }
    accepts(pool(json!({ "replicas": 0 })));
    accepts(pool(json!({ "replicas": 5, "limits": { "nodes": "10" } })));
    accepts(pool(json!({ "replicas": 5, "limits": {} })));
    refuses(pool(json!({ "replicas": -1 })), "replicas", "not below 0");
    refuses(pool(json!({ "replicas": 5, "weight": 1 })), "weight", "cannot be combined with replicas");
    refuses(pool(json!({ "replicas": 5, "limits": { "cpu": "1" } })), "limits", "only hold `nodes`");
}

#[test]
fn pool_updates() {
    let old = pool(json!({}));
    let renamed = template(json!({ "nodeClassRef": { "name": "other" } }));
    assert_eq!(validation::validate_nodepool_update(&old, &renamed), []);
    for field in ["group", "kind"] {
        let new = template(json!({ "nodeClassRef": { field: "other" } }));
        let path = format!("spec.template.spec.nodeClassRef.{field}");
        one(validation::validate_nodepool_update(&old, &new), &path, "cannot change");
    }
    let fixed = |count: i64| pool(json!({ "replicas": count }));
    assert_eq!(validation::validate_nodepool_update(&fixed(1), &fixed(5)), []);
    one(validation::validate_nodepool_update(&old, &fixed(1)), "spec.replicas", "create another pool");
    one(validation::validate_nodepool_update(&fixed(1), &old), "spec.replicas", "create another pool");
}

#[test]
fn remarks() {
    assert_eq!(validation::remarks_on_nodepool(&pool(json!({}))), []);
    let remarks = validation::remarks_on_nodepool(&pool(json!({
        "template": { "spec": { "requirements": [
            { "key": "karpenter.sh/instance-memory", "operator": "In", "values": ["8Gi"] },
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "cheap"] },
        ] } },
        "disruption": {
            "consolidationPolicy": "WhenUnderutilized",
            "budgets": [
                { "schedule": "0 25 * * *", "duration": "1h" },
                { "schedule": "0 9 * * *", "duration": "1h" },
                { "reasons": [] },
            ],
        },
    })));
    assert_eq!(
        paths(&remarks),
        [
            "spec.template.spec.requirements[0].key",
            "spec.template.spec.requirements[1].values",
            "spec.disruption.consolidationPolicy",
            "spec.disruption.budgets[0].schedule",
            "spec.disruption.budgets[2].reasons",
        ]
    );
    assert_eq!(remarks[0].remedy, "write `karpenter.kwok.sh/instance-memory`");
    assert_eq!(remarks[1].value, "cheap");
}

#[test]
fn several_problems_are_all_reported() {
    let pool = pool(json!({
        "weight": 500,
        "template": { "spec": { "expireAfter": "soon", "requirements": [
            { "key": "karpenter.sh/nodepool", "operator": "Is" },
            { "key": "kubernetes.io/hostname", "operator": "In" },
        ] } },
    }));
    assert_eq!(
        paths(&validation::validate_nodepool(&pool)),
        [
            "spec.template.spec.requirements[0].key",
            "spec.template.spec.requirements[0].operator",
            "spec.template.spec.requirements[1].key",
            "spec.template.spec.requirements[1].values",
            "spec.template.spec.expireAfter",
            "spec.weight",
        ]
    );
}

fn claim(spec: Value) -> NodeClaim {
    let base = json!({
        "metadata": { "name": "default-x7k2p" },
        "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
        },
    });
    load(merged(base, json!({ "spec": spec })))
}

#[test]
fn claims() {
    let check = |spec: Value| validation::validate_nodeclaim(&claim(spec));
    let key = |key: &str| json!({ "requirements": [{ "key": key, "operator": "Exists" }] });
    assert_eq!(check(json!({})), []);
    for fine in
        ["karpenter.sh/nodepool", "karpenter.sh/capacity-type", "karpenter.kwok.sh/kwoknodeclass", "team"]
    {
        assert_eq!(check(key(fine)), [], "{fine}");
    }
    for bad in ["kubernetes.io/hostname", "karpenter.sh/other", "karpenter.kwok.sh/other"] {
        one(check(key(bad)), "spec.requirements[0].key", "restricted");
    }
    one(check(json!({ "expireAfter": "soon" })), "spec.expireAfter", "Never");
    one(check(json!({ "terminationGracePeriod": "Never" })), "spec.terminationGracePeriod", "not a duration");
    one(check(json!({ "taints": [{ "key": "a" }] })), "spec.taints[0].effect", "effect");
    one(check(json!({ "nodeClassRef": { "name": "" } })), "spec.nodeClassRef.name", "empty");
    one(
        check(json!({ "resources": { "requests": { "cpu": "x" } } })),
        "spec.resources.requests.cpu",
        "quantity",
    );
    assert_eq!(check(json!({ "resources": { "requests": { "cpu": 2 } } })), []);

    let mut generated = claim(json!({}));
    generated.metadata.name = None;
    one(validation::validate_nodeclaim(&generated), "metadata.name", "DNS name");
    generated.metadata.generate_name = Some("default-".to_owned());
    assert_eq!(validation::validate_nodeclaim(&generated), []);
}

#[test]
fn claims_do_not_change() {
    let old = claim(json!({}));
    let mut labelled = old.clone();
    labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(validation::validate_nodeclaim_update(&old, &labelled), []);
    let new = claim(json!({ "expireAfter": "1h" }));
    one(validation::validate_nodeclaim_update(&old, &new), "spec", "cannot change");
}

#[test]
fn overlays() {
    let check = |spec: Value| {
        let base = json!({ "metadata": { "name": "cheaper" }, "spec": { "requirements": [] } });
        validation::validate_nodeoverlay(&load::<NodeOverlay>(merged(base, json!({ "spec": spec }))))
    };
    let requirement = |key: &str, operator: &str, values: Value| json!({ "requirements": [{ "key": key, "operator": operator, "values": values }] });
    assert_eq!(check(json!({ "price": "0.25", "weight": 10000, "capacity": { "example.com/gpu": 1 } })), []);
    assert_eq!(check(json!({ "priceAdjustment": "-15%", "weight": 1 })), []);
    assert_eq!(check(requirement("karpenter.sh/nodepool", "In", json!(["a"]))), []);
    assert_eq!(check(requirement("team", "NotIn", json!(["a"]))), []);
    one(check(requirement("team", "NotIn", json!([]))), "spec.requirements[0].values", "operator NotIn");
    one(check(requirement("team", "In", json!([]))), "spec.requirements[0].values", "operator In");
    one(check(requirement("team", "Gt", json!(["x"]))), "spec.requirements[0].values", "operator Gt");
    one(
        check(requirement("kubernetes.io/hostname", "Exists", json!([]))),
        "spec.requirements[0].key",
        "restricted",
    );
    one(
        check(requirement("karpenter.sh/other", "Exists", json!([]))),
        "spec.requirements[0].key",
        "restricted",
    );
    one(check(json!({ "price": "-1" })), "spec.price", "without a sign");
    one(check(json!({ "price": ".5" })), "spec.price", "without a sign");
    one(check(json!({ "priceAdjustment": "10%" })), "spec.priceAdjustment", "with its sign");
    one(check(json!({ "priceAdjustment": "-101%" })), "spec.priceAdjustment", "not below -100%");
    one(
        check(json!({ "price": "1", "priceAdjustment": "+1" })),
        "spec.priceAdjustment",
        "cannot be combined",
    );
    for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
        one(check(json!({ "capacity": { resource: "1" } })), "spec.capacity", "cannot be overlaid");
    }
    one(
        check(json!({ "capacity": { "example.com/gpu": "one" } })),
        "spec.capacity[example.com/gpu]",
        "not a quantity",
    );
    for weight in [0, 10001] {
        one(check(json!({ "weight": weight })), "spec.weight", "from 1 to 10000");
    }
}

#[test]
fn buffers() {
    let check = |spec: Value| {
        let base = json!({ "metadata": { "name": "spare" }, "spec": {} });
        validation::validate_capacitybuffer(&load::<CapacityBuffer>(merged(base, json!({ "spec": spec }))))
    };
    let template = json!({ "name": "pod" });
    let workload = json!({ "apiGroup": "apps", "kind": "Deployment", "name": "web" });
    assert_eq!(check(json!({})), [], "neither reference is accepted; it fails when it is resolved");
    assert_eq!(check(json!({ "podTemplateRef": template, "replicas": 3 })), []);
    assert_eq!(check(json!({ "podTemplateRef": template, "limits": { "cpu": "10" } })), []);
    assert_eq!(check(json!({ "scalableRef": workload, "percentage": 20 })), []);
    assert_eq!(check(json!({ "scalableRef": workload })), []);
    one(
        check(json!({ "podTemplateRef": template })),
        "spec.podTemplateRef.name",
        "set `replicas` or `limits`",
    );
    one(
        check(json!({ "podTemplateRef": template, "scalableRef": workload, "replicas": 1 })),
        "spec.scalableRef.name",
        "keep one of the two",
    );
    one(
        check(json!({ "podTemplateRef": { "name": "" }, "replicas": 1 })),
        "spec.podTemplateRef.name",
        "empty",
    );
    one(check(json!({ "scalableRef": { "kind": "", "name": "web" } })), "spec.scalableRef.kind", "empty");
    one(
        check(json!({ "scalableRef": { "kind": "Deployment", "name": "" } })),
        "spec.scalableRef.name",
        "empty",
    );
    one(check(json!({ "replicas": -1 })), "spec.replicas", "not below 0");
    one(check(json!({ "percentage": -1 })), "spec.percentage", "not below 0");
    one(check(json!({ "limits": { "cpu": "x" } })), "spec.limits.cpu", "not a quantity");
}

#[test]
fn kwok_classes() {
    let check = |spec: Value| {
        let class: KwokNodeClass = load(json!({ "metadata": { "name": "default" }, "spec": spec }));
        validation::validate_kwoknodeclass(&class)
    };
    assert_eq!(check(json!({})), []);
    assert_eq!(check(Value::Null), []);
    assert_eq!(check(json!({ "nodeRegistrationDelay": "1m30s" })), []);
    for bad in ["", "90", "500ms", "1.5s", "Never"] {
        one(check(json!({ "nodeRegistrationDelay": bad })), "spec.nodeRegistrationDelay", "not a duration");
    }
    let chaos = json!({ "seed": 7, "noCapacityPercent": 100, "capacity": [{ "zone": "a", "machines": 3 }] });
    let all = json!({ "nodeRegistrationDelayJitter": "5s", "partitions": ["a", "b"], "chaos": chaos });
    assert_eq!(check(all), []);
    one(
        check(json!({ "nodeRegistrationDelayJitter": "x" })),
        "spec.nodeRegistrationDelayJitter",
        "not a duration",
    );
    one(check(json!({ "partitions": ["a", "b c"] })), "spec.partitions[1]", "b c");
    one(
        check(json!({ "chaos": { "launchFailurePercent": 101 } })),
        "spec.chaos.launchFailurePercent",
        "out of range",
    );
    one(
        check(json!({ "chaos": { "capacity": [{ "machines": -1 }] } })),
        "spec.chaos.capacity[0].machines",
        "out of range",
    );
}
