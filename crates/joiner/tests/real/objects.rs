//! Objects of joiner's kinds, right and wrong: a good one of each, then that one with a field changed, then with two.

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

/// A kind and how to reach it.
pub(crate) struct Kind {
    pub(crate) collection: &'static str,
    good: Value,
    /// Places and the values to try there; null takes the field away.
    changes: Vec<(&'static str, Vec<Value>)>,
}

/// One object to offer.
pub(crate) struct Offer {
    pub(crate) collection: &'static str,
    pub(crate) about: String,
    pub(crate) object: Value,
}

/// All of them, always the same.
pub(crate) fn offers() -> Vec<Offer> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut offers = Vec::new();
    for kind in kinds() {
        let name = kind.good["kind"].as_str().unwrap().to_owned();
        let mut offer = |about: String, object: Value| {
            offers.push(Offer { collection: kind.collection, about: format!("{name}: {about}"), object });
        };
        offer("good".to_owned(), kind.good.clone());
        let mut all = Vec::new();
        for (place, values) in &kind.changes {
            for value in values {
                all.push((*place, value));
                offer(format!("{place} = {value}"), changed(&kind.good, place, value));
            }
        }
        let pairs = if all.len() > 20 { 25 } else { 5 };
        for _ in 0..pairs {
            let (one, other) = (all.choose(&mut random).unwrap(), all.choose(&mut random).unwrap());
            let object = changed(&changed(&kind.good, one.0, one.1), other.0, other.1);
            offer(format!("{} = {}, {} = {}", one.0, one.1, other.0, other.1), object);
        }
    }
    offers
}

fn changed(object: &Value, place: &str, value: &Value) -> Value {
    let mut object = object.clone();
    let (parents, last) = place.rsplit_once('/').unwrap();
    let mut here = &mut object;
    for part in parents.split('/').skip(1) {
        // A pair of changes may have put something else where an object was.
        if !here.is_object() {
            return object;
        }
        here = &mut here[part];
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
    }
    if let Some(fields) = here.as_object_mut() {
        if value.is_null() {
            fields.remove(last);
        } else {
            fields.insert(last.to_owned(), value.clone());
        }
    }
    object
}

fn requirements() -> Vec<Value> {
    let of = |key: &str, operator: &str, values: &[&str]| json!([{"key": key, "operator": operator, "values": values}]);
    let long_key = format!("example.com/{}", "a".repeat(305));
    let many: Vec<Value> =
        (0..101).map(|number| json!({"key": format!("a{number}"), "operator": "Exists"})).collect();
    vec![
        json!(null),
        json!([]),
        json!("text"),
        of("a", "In", &[]),
        json!([{"key": "a", "operator": "In"}]),
        of("a", "In", &["b", "c"]),
        of("a", "NotIn", &[]),
        of("a", "NotIn", &["b"]),
        json!([{"key": "a", "operator": "Exists"}]),
        of("a", "Exists", &["b"]),
        json!([{"key": "a", "operator": "DoesNotExist"}]),
        of("a", "Gt", &["1"]),
        of("a", "Gt", &["-1"]),
        of("a", "Gt", &["x"]),
        of("a", "Lt", &["1", "2"]),
        of("a", "Gte", &["5"]),
        of("a", "Lte", &[]),
        of("a", "Near", &["b"]),
        json!([{"key": "a"}]),
        json!([{"operator": "Exists"}]),
        of("", "Exists", &[]),
        of("Bad Key", "Exists", &[]),
        of("a/b/c", "Exists", &[]),
        of("karpenter.sh/nodepool", "In", &["x"]),
        of("karpenter.sh/capacity-type", "In", &["spot"]),
        of("karpenter.sh/other", "In", &["x"]),
        of("sub.karpenter.sh/other", "In", &["x"]),
        of("kubernetes.io/hostname", "In", &["x"]),
        of("kubernetes.io/arch", "In", &["amd64"]),
        of("karpenter.kwok.sh/instance-family", "In", &["c"]),
        of("node.kubernetes.io/instance-type", "In", &["x"]),
        of(&long_key, "Exists", &[]),
        of("a", "In", &["bad value!"]),
        of("a", "In", &[&"v".repeat(64)]),
        json!([{"key": "a", "operator": "In", "values": [5]}]),
        json!([{"key": "a", "operator": "In", "values": null}]),
        json!([{"key": "a", "operator": "In", "values": ["b"], "minValues": 2}]),
        json!([{"key": "a", "operator": "In", "values": ["b"], "minValues": 1}]),
        json!([{"key": "a", "operator": "Exists", "minValues": 0}]),
        json!([{"key": "a", "operator": "Exists", "minValues": 51}]),
        json!([{"key": "a", "operator": "Exists", "unknown": 1}]),
        many.into(),
    ]
}

fn taints() -> Vec<Value> {
    vec![
        json!([]),
        json!([{"key": "a", "effect": "NoSchedule"}]),
        json!([{"key": "example.com/a", "value": "b", "effect": "NoExecute"}]),
        json!([{"key": "a", "effect": "Never"}]),
        json!([{"key": "a"}]),
        json!([{"effect": "NoSchedule"}]),
        json!([{"key": "", "effect": "NoSchedule"}]),
        json!([{"key": "bad key", "effect": "NoSchedule"}]),
        json!([{"key": "a", "value": "bad value", "effect": "NoSchedule"}]),
        json!([{"key": "a", "effect": "NoSchedule", "timeAdded": "yesterday"}]),
        json!([{"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}]),
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]),
    ]
}

fn durations() -> Vec<Value> {
    ["0s", "30s", "1h30m", "Never", "", "30", "-1s", "1.5h", "1d", "1h 5m"]
        .into_iter()
        .map(Value::from)
        .chain([json!(null), json!(30)])
        .collect()
}

fn quantities() -> Vec<Value> {
    ["1", "1.5Gi", "-1", "1e3", "100m", "much", "1 Gi", ".5", ""]
        .into_iter()
        .map(|text| json!({"cpu": text}))
        .chain([
            json!({"cpu": 4}),
            json!({"cpu": 1.5}),
            json!({"cpu": true}),
            json!({"cpu": null}),
            json!({}),
        ])
        .collect()
}

fn node_class(place: [&'static str; 4]) -> Vec<(&'static str, Vec<Value>)> {
    vec![
        (place[0], vec![json!(null), json!({}), json!("x")]),
        (place[1], vec![json!(null), json!(""), json!("a/b"), json!("a.b")]),
        (place[2], vec![json!(null), json!("")]),
        (place[3], vec![json!(null), json!(""), json!(7)]),
    ]
}

fn kinds() -> Vec<Kind> {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let requirement = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    let mut pool = vec![
        ("/spec", vec![json!(null), json!({})]),
        ("/spec/template", vec![json!(null), json!({})]),
        ("/spec/template/spec/requirements", requirements()),
        ("/spec/template/spec/taints", taints()),
        ("/spec/template/spec/startupTaints", taints()),
        ("/spec/template/spec/expireAfter", durations()),
        ("/spec/template/spec/terminationGracePeriod", durations()),
        ("/spec/template/spec/unknown", vec![json!(1)]),
        (
            "/spec/template/metadata/labels",
            vec![
                json!({"a": "b"}),
                json!({"a": "bad value!"}),
                json!({"karpenter.sh/nodepool": "x"}),
                json!({"kubernetes.io/hostname": "x"}),
                json!({"karpenter.sh/x": "y"}),
                json!({"kubernetes.io/arch": "amd64"}),
                json!({"karpenter.kwok.sh/x": "y"}),
                json!({"a": 1}),
            ],
        ),
        ("/spec/template/metadata/annotations", vec![json!({"a": "b c"}), json!({"a": 1})]),
        ("/spec/disruption", vec![json!(null), json!({}), json!({"consolidateAfter": "1m"}), json!([])]),
        ("/spec/disruption/consolidateAfter", durations()),
        (
            "/spec/disruption/consolidationPolicy",
            ["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced", "Never", ""]
                .into_iter()
                .map(Value::from)
                .chain([json!(null)])
                .collect(),
        ),
        (
            "/spec/disruption/budgets",
            vec![
                json!(null),
                json!([]),
                json!([{}]),
                json!([{"nodes": "5"}]),
                json!([{"nodes": "50%"}]),
                json!([{"nodes": "101%"}]),
                json!([{"nodes": "-1"}]),
                json!([{"nodes": 5}]),
                json!([{"nodes": "5", "schedule": "@daily"}]),
                json!([{"nodes": "5", "schedule": "@daily", "duration": "1h"}]),
                json!([{"nodes": "5", "schedule": "0 9 * * 1", "duration": "8h30m"}]),
                json!([{"nodes": "5", "schedule": "often", "duration": "1h"}]),
                json!([{"nodes": "5", "schedule": "@daily", "duration": "10s"}]),
                json!([{"nodes": "5", "schedule": "* * * * *", "duration": "1h30m0s"}]),
                json!([{"nodes": "5", "duration": "1h"}]),
                json!([{"nodes": "0", "reasons": ["Empty", "Drifted"]}]),
                json!([{"nodes": "0", "reasons": ["Empty", "Empty"]}]),
                json!([{"nodes": "0", "reasons": ["Bored"]}]),
                (0..51).map(|_| json!({"nodes": "1"})).collect::<Vec<_>>().into(),
            ],
        ),
        ("/spec/limits", quantities()),
        (
            "/spec/weight",
            vec![json!(0), json!(1), json!(100), json!(101), json!("5"), json!(1.5), json!(null)],
        ),
        ("/spec/replicas", vec![json!(0), json!(3), json!(-1), json!("3")]),
    ];
    pool.extend(node_class([
        "/spec/template/spec/nodeClassRef",
        "/spec/template/spec/nodeClassRef/group",
        "/spec/template/spec/nodeClassRef/kind",
        "/spec/template/spec/nodeClassRef/name",
    ]));
    let mut claim = vec![
        ("/spec", vec![json!(null), json!({})]),
        ("/spec/requirements", requirements()),
        ("/spec/taints", taints()),
        ("/spec/startupTaints", taints()),
        ("/spec/expireAfter", durations()),
        ("/spec/terminationGracePeriod", durations()),
        ("/spec/resources/requests", quantities()),
    ];
    claim.extend(node_class([
        "/spec/nodeClassRef",
        "/spec/nodeClassRef/group",
        "/spec/nodeClassRef/kind",
        "/spec/nodeClassRef/name",
    ]));
    let prices = ["1", "0.05", "-1", "1.", ".5", "1e3", "x", ""].into_iter().map(Value::from);
    let adjustments = ["+1", "-0.5", "+10%", "-10%", "-100%", "-101%", "+200%", "10%", "1", ""]
        .into_iter()
        .map(Value::from);
    vec![
        Kind {
            collection: "/apis/karpenter.sh/v1/nodepools",
            good: json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"}, "spec": {
                "template": {"spec": {"nodeClassRef": class, "requirements": requirement}},
                "disruption": {"consolidateAfter": "30s"}}}),
            changes: pool,
        },
        Kind {
            collection: "/apis/karpenter.sh/v1/nodeclaims",
            good: json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "x"},
                "spec": {"nodeClassRef": class, "requirements": requirement}}),
            changes: claim,
        },
        Kind {
            collection: "/apis/karpenter.sh/v1alpha1/nodeoverlays",
            good: json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "x"},
                "spec": {"requirements": requirement}}),
            changes: vec![
                ("/spec", vec![json!(null)]),
                ("/spec/requirements", requirements()),
                ("/spec/price", prices.chain([json!(1)]).collect()),
                ("/spec/priceAdjustment", adjustments.collect()),
                ("/spec/weight", vec![json!(0), json!(10000), json!(10001)]),
                (
                    "/spec/capacity",
                    vec![
                        json!({"cpu": "1"}),
                        json!({"memory": "1Gi"}),
                        json!({"example.com/gpu": 1}),
                        json!({"example.com/gpu": "x"}),
                        json!({}),
                    ],
                ),
            ],
        },
        Kind {
            collection: "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers",
            good: json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "x"},
                "spec": {"podTemplateRef": {"name": "t"}, "replicas": 3}}),
            changes: vec![
                ("/spec", vec![json!(null), json!({})]),
                (
                    "/spec/replicas",
                    vec![json!(null), json!(0), json!(-1), json!("3"), json!(4_294_967_296_u64)],
                ),
                ("/spec/limits", quantities()),
                ("/spec/percentage", vec![json!(0), json!(50), json!(-1)]),
                ("/spec/podTemplateRef", vec![json!(null), json!({}), json!({"name": ""})]),
                (
                    "/spec/scalableRef",
                    vec![
                        json!({"kind": "Deployment", "name": "d", "apiGroup": "apps"}),
                        json!({"kind": "Deployment"}),
                        json!({"kind": "", "name": "d"}),
                    ],
                ),
                ("/spec/provisioningStrategy", vec![json!(""), json!("x"), json!(5)]),
            ],
        },
        Kind {
            collection: "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
            good: json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "x"}}),
            changes: vec![
                ("/spec", vec![json!({}), json!("x")]),
                ("/spec/nodeRegistrationDelay", durations()),
                ("/spec/nodeRegistrationDelayJitter", durations()),
                ("/spec/partitions", vec![json!([]), json!(["a", "b"]), json!([""]), json!("a")]),
                (
                    "/spec/chaos/noCapacityPercent",
                    vec![json!(0), json!(100), json!(101), json!(-1), json!("5")],
                ),
                (
                    "/spec/chaos/capacity",
                    vec![json!([{"machines": 0}]), json!([{"zone": "a", "machines": -1}]), json!([{}])],
                ),
                ("/spec/unknown", vec![json!(1)]),
            ],
        },
    ]
}
