//! The standard list against its published figures, and other parameters.

use std::collections::BTreeSet;

use joiner_provider_kwok::{Catalogue, GpuRow, MemoryFactor, ParameterError, Parameters, generate};

use crate::{label, named, resources};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs()
}

#[test]
fn the_standard_list_has_144_types_and_1152_offerings() {
    let types = Catalogue::hypothetical().types;
    assert_eq!(types.len(), 144);
    assert_eq!(types.iter().map(|of| of.offerings.len()).sum::<usize>(), 1152);
    assert_eq!(types.iter().map(|of| &of.name).collect::<BTreeSet<_>>().len(), 144);
    let names: Vec<&str> = types.iter().map(|of| of.name.as_str()).collect();
    let first = [
        "c-1x-amd64-linux",
        "c-1x-arm64-linux",
        "c-1x-amd64-windows",
        "c-1x-arm64-windows",
        "s-1x-amd64-linux",
    ];
    assert_eq!(names[..5], first);
    assert_eq!(names[143], "m-256x-arm64-windows");
}

#[test]
fn prices_of_the_standard_list() {
    let types = Catalogue::hypothetical().types;
    for (name, spot, on_demand) in [
        ("c-1x-amd64-linux", 0.019003238553599998, 0.027147483648),
        ("m-256x-amd64-linux", 6.019316278886399, 6.019316278886399 / 0.7),
    ] {
        for pair in named(&types, name).offerings.chunks(2) {
            assert_eq!(pair[0].capacity_type(), Some("spot"));
            assert_eq!(pair[1].capacity_type(), Some("on-demand"));
            assert_eq!(pair[0].zone(), pair[1].zone());
            assert_eq!(pair[0].price, spot, "{name}");
            assert!(close(pair[1].price, on_demand), "{name}");
            assert!(pair[0].available && pair[1].available);
        }
    }
    assert_eq!(named(&types, "c-1x-amd64-linux").offerings[1].price, 0.027147483648);
    for of in &types {
        let zones: Vec<_> = of.offerings.iter().step_by(2).filter_map(|offering| offering.zone()).collect();
        assert_eq!(zones, ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"]);
        let cpu = of.capacity["cpu"].value_saturating() as f64;
        let bytes = of.capacity["memory"].value_saturating() as f64;
        assert!(close(of.offerings[1].price, 0.025 * cpu + 0.001 * bytes / 1e9), "{}", of.name);
        assert!(close(of.offerings[0].price, 0.7 * of.offerings[1].price), "{}", of.name);
    }
}

#[test]
fn capacity_and_labels_of_the_standard_list() {
    let types = Catalogue::hypothetical().types;
    for (name, capacity, allocatable) in [
        (
            "c-1x-amd64-linux",
            "cpu=1 ephemeral-storage=20Gi memory=2Gi pods=16",
            "cpu=900m ephemeral-storage=20Gi memory=2038Mi pods=16",
        ),
        (
            "m-256x-arm64-windows",
            "cpu=256 ephemeral-storage=20Gi memory=2Ti pods=1024",
            "cpu=255900m ephemeral-storage=20Gi memory=2097142Mi pods=1024",
        ),
        (
            "s-48x-arm64-linux",
            "cpu=48 ephemeral-storage=20Gi memory=192Gi pods=768",
            "cpu=47900m ephemeral-storage=20Gi memory=196598Mi pods=768",
        ),
    ] {
        let of = named(&types, name);
        assert_eq!(
            (resources(&of.capacity).as_str(), resources(&of.allocatable()).as_str()),
            (capacity, allocatable)
        );
    }
    let of = named(&types, "m-256x-arm64-windows");
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "m-256x-arm64-windows"),
        ("kubernetes.io/arch", "arm64"),
        ("kubernetes.io/os", "windows"),
        ("topology.kubernetes.io/zone", "test-zone-a|test-zone-b|test-zone-c|test-zone-d"),
        ("karpenter.sh/capacity-type", "on-demand|spot"),
        ("karpenter.kwok.sh/instance-family", "m"),
        ("karpenter.kwok.sh/instance-size", "256"),
        ("karpenter.kwok.sh/instance-cpu", "256"),
        ("karpenter.kwok.sh/instance-memory", "2Ti"),
    ] {
        assert_eq!(label(of, key), value, "{key}");
    }
    assert_eq!(of.requirements.len(), 9);
}

#[test]
fn the_standard_list_makes_six_keys_well_known() {
    assert_eq!(
        Catalogue::hypothetical().well_known,
        [
            "karpenter.kwok.sh/instance-cpu",
            "karpenter.kwok.sh/instance-family",
            "karpenter.kwok.sh/instance-memory",
            "karpenter.kwok.sh/instance-size",
            "karpenter.sh/capacity-type",
            "topology.kubernetes.io/zone",
        ]
    );
}

fn small() -> Parameters {
    Parameters {
        cpus: vec![2, 4],
        memory_factors: vec![MemoryFactor::new(4), MemoryFactor::new(16)],
        operating_systems: vec!["linux".to_owned()],
        architectures: vec!["amd64".to_owned()],
        zones: ["x", "y", "z"].map(str::to_owned).to_vec(),
        ..Parameters::default()
    }
}

#[test]
fn other_parameters_give_other_lists() {
    let row = GpuRow {
        family: "g".to_owned(),
        cpu: 8,
        memory_gib: 32,
        resource: "nvidia.com/gpu".to_owned(),
        count: 2,
        price_per_gpu: 0.5,
    };
    let parameters =
        Parameters { zone_skew: 0.1, spot_factor: 0.5, price_per_gb: 0.0, gpu_rows: vec![row], ..small() };
    let types = generate(&parameters).expect("good parameters");
    let names: Vec<&str> = types.iter().map(|of| of.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "s-2x-amd64-linux",
            "e-2x-amd64-linux",
            "s-4x-amd64-linux",
            "e-4x-amd64-linux",
            "g-8x-2gpu-amd64-linux"
        ]
    );
    let gpu = named(&types, "g-8x-2gpu-amd64-linux");
    assert_eq!(
        resources(&gpu.capacity),
        "cpu=8 ephemeral-storage=20Gi memory=32Gi nvidia.com/gpu=2 pods=128"
    );
    let prices: Vec<f64> = gpu.offerings.iter().map(|offering| offering.price).collect();
    let expected = [0.6, 1.2, 0.66, 1.32, 0.72, 1.44];
    assert!(prices.iter().zip(expected).all(|(a, b)| close(*a, b)), "{prices:?}");
    assert_eq!(label(named(&types, "e-4x-amd64-linux"), "karpenter.kwok.sh/instance-memory"), "64Gi");
}

#[test]
fn impossible_parameters_are_refused() {
    let word = |text: &str| vec![text.to_owned()];
    let factors = |numbers: &[u32]| numbers.iter().map(|number| MemoryFactor::new(*number)).collect();
    for (parameters, expected) in [
        (Parameters { cpus: vec![], ..small() }, "`cpus` is empty: give at least one value"),
        (Parameters { zones: vec![], ..small() }, "`zones` is empty: give at least one value"),
        (Parameters { cpus: vec![0], ..small() }, "`cpus` holds 0: every value must be between 1 and 65536"),
        (
            Parameters { memory_factors: factors(&[70000]), ..small() },
            "`memory factors` holds 70000: every value must be between 1 and 65536",
        ),
        (
            Parameters { spot_factor: f64::NAN, ..small() },
            "`spot factor` is `NaN`: give a number between 0 and 1000000000",
        ),
        (
            Parameters { price_per_cpu: -1.0, ..small() },
            "`price per cpu` is `-1`: give a number between 0 and 1000000000",
        ),
        (
            Parameters { zones: word("a b"), ..small() },
            "`a b` of `zones` cannot be a label value: use letters, digits, `-`, `_`, `.`, alphanumeric at both ends",
        ),
        (
            Parameters { memory_factors: factors(&[16, 32]), ..small() },
            "two types would be called `e-2x-amd64-linux`: name the memory factors and GPU rows by different families",
        ),
        (
            Parameters { zones: ["a", "b", "a"].map(str::to_owned).to_vec(), ..small() },
            "zone `a` is named twice",
        ),
    ] {
        let error: ParameterError = generate(&parameters).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

/// A Node that the original wrote for a type of its list: labels, price and allocatable come out the same here.
#[test]
fn a_recorded_node_agrees() {
    let node: serde_json::Value =
        serde_json::from_str(include_str!("../data/node-without-kubelet.json")).expect("a JSON document");
    let labels = &node["metadata"]["labels"];
    let text = |key: &str| labels[key].as_str().unwrap_or_else(|| panic!("the node has no label `{key}`"));
    let types = Catalogue::hypothetical().types;
    let of = named(&types, text("node.kubernetes.io/instance-type"));
    let mut compared = 0;
    for requirement in &of.requirements {
        match requirement.single_value() {
            Some(value) => assert_eq!(value, text(&requirement.key)),
            None => assert!(requirement.values.iter().any(|value| value == text(&requirement.key))),
        }
        compared += 1;
    }
    assert_eq!(compared, 9);
    let offering = of
        .offerings
        .iter()
        .find(|offering| {
            offering.zone() == Some(text("topology.kubernetes.io/zone"))
                && offering.capacity_type() == Some(text("karpenter.sh/capacity-type"))
        })
        .expect("the node's offering");
    assert_eq!(format!("{:.6}", offering.price), text("eks-node-viewer/instance-price"));
    let allocatable = node["status"]["allocatable"].as_object().expect("a table");
    for (name, amount) in of.allocatable() {
        assert_eq!(allocatable[&name].as_str(), Some(amount.to_string().as_str()), "{name}");
    }
    assert_eq!(allocatable.len(), of.capacity.len());
}
