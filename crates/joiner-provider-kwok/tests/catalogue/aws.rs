//! The shipped AWS list: its facts, and agreement with the JSON it was made from.

use std::collections::BTreeMap;

use joiner_api::instance_type::InstanceType;
use joiner_provider_kwok::{Catalogue, LoadError};

use crate::{label, named, resources};

const EXCERPT: &str = include_str!("../data/aws-us-west-2-excerpt.json");

fn price_sum<'a>(types: impl IntoIterator<Item = &'a InstanceType>, capacity_type: &str) -> f64 {
    types
        .into_iter()
        .flat_map(|of| &of.offerings)
        .filter(|offering| offering.capacity_type() == Some(capacity_type))
        .map(|offering| offering.price)
        .sum()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b
}

#[test]
fn the_list_has_the_facts_of_its_source() {
    let types = Catalogue::aws().types;
    assert_eq!(types.len(), 848);
    assert!(types.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, no name twice");
    assert!(types.iter().all(|of| of.offerings.len() == 8 && of.zones().len() == 4));
    assert!(close(price_sum(&types, "on-demand"), 18163.59672));
    assert!(close(price_sum(&types, "spot"), 12714.517704));
    let total = |resource: &str| types.iter().map(|of| of.capacity[resource].value_saturating()).sum::<i64>();
    assert_eq!((total("cpu"), total("pods")), (41345, 419600));
    assert_eq!(total("memory") >> 30, 390_776);
    assert_eq!(total("ephemeral-storage") >> 30, 848 * 20);
    let arm = types.iter().filter(|of| label(of, "kubernetes.io/arch") == "arm64").count();
    assert_eq!((arm, types.len() - arm), (227, 621));
    let prices = || types.iter().flat_map(|of| &of.offerings).map(|offering| offering.price);
    assert_eq!(prices().min_by(f64::total_cmp), Some(0.005879999999999999));
    assert_eq!(prices().max_by(f64::total_cmp), Some(407.68));
}

#[test]
fn general_purpose_types_can_be_chosen_by_aws_labels() {
    let types = Catalogue::aws().types;
    let general = types.iter().filter(|of| {
        ["c", "m", "r"].contains(&label(of, "karpenter.k8s.aws/instance-category").as_str())
            && label(of, "karpenter.k8s.aws/instance-generation").parse::<u32>().is_ok_and(|n| n > 4)
            && label(of, "karpenter.k8s.aws/instance-capability-flex") == "false"
    });
    assert_eq!(general.count(), 544);
}

#[test]
fn accelerators_are_there() {
    let types = Catalogue::aws().types;
    let mut machines: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for of in &types {
        for (resource, amount) in of.capacity.iter().filter(|(name, _)| name.contains('/')) {
            let (count, devices) = machines.entry(resource).or_default();
            *count += 1;
            *devices += amount.value_saturating();
        }
    }
    let (nvidia, amd) = (machines["nvidia.com/gpu"], machines["amd.com/gpu"]);
    assert_eq!(nvidia.0 + amd.0 + machines["aws.amazon.com/neuron"].0 + machines["habana.ai/gaudi"].0, 65);
    for (name, count, model) in [
        ("g4dn.8xlarge", "1", "t4"),
        ("g4dn.metal", "8", "t4"),
        ("g5.12xlarge", "4", "a10g"),
        ("g5g.metal", "2", "t4g"),
        ("g6.xlarge", "1", "l4"),
        ("p3dn.24xlarge", "8", "v100"),
        ("p4d.24xlarge", "8", "a100"),
        ("p5.48xlarge", "8", "h100"),
        ("m5.large", "-", "-"),
        ("inf2.24xlarge", "-", "-"),
    ] {
        let of = named(&types, name);
        assert_eq!(label(of, "karpenter.k8s.aws/instance-gpu-count"), count, "{name}");
        assert_eq!(label(of, "karpenter.k8s.aws/instance-gpu-name"), model, "{name}");
    }
    assert_eq!(named(&types, "inf2.24xlarge").capacity["aws.amazon.com/neuron"].to_string(), "6");
    let has_gpu = |of: &&InstanceType| label(of, "karpenter.k8s.aws/instance-gpu-count") != "-";
    let without_model =
        types.iter().filter(has_gpu).find(|of| label(of, "karpenter.k8s.aws/instance-gpu-name") == "-");
    assert_eq!(without_model.map(|of| &of.name), None);
}

/// Category, family, generation, size, cpu, memory and flex as AWS machines report them.
#[test]
fn labels_agree_with_aws() {
    let types = Catalogue::aws().types;
    for (name, expected) in [
        ("a1.large", ["a", "a1", "1", "large", "2", "4096", "false"]),
        ("m5.metal", ["m", "m5", "5", "metal", "96", "393216", "false"]),
        ("m6idn.32xlarge", ["m", "m6idn", "6", "32xlarge", "128", "524288", "false"]),
        ("m7i-flex.large", ["m", "m7i-flex", "7", "large", "2", "8192", "true"]),
        ("m8g.metal-48xl", ["m", "m8g", "8", "metal-48xl", "192", "786432", "false"]),
        ("c5n.18xlarge", ["c", "c5n", "5", "18xlarge", "72", "196608", "false"]),
        ("r7iz.metal-32xl", ["r", "r7iz", "7", "metal-32xl", "128", "1048576", "false"]),
        ("u-6tb1.56xlarge", ["u", "u-6tb1", "1", "56xlarge", "224", "6291456", "false"]),
        ("u7i-12tb.224xlarge", ["u", "u7i-12tb", "7", "224xlarge", "896", "12582912", "false"]),
        ("im4gn.large", ["im", "im4gn", "4", "large", "2", "8192", "false"]),
        ("inf1.xlarge", ["inf", "inf1", "1", "xlarge", "4", "8192", "false"]),
        ("vt1.3xlarge", ["vt", "vt1", "1", "3xlarge", "12", "24576", "false"]),
    ] {
        let keys = ["category", "family", "generation", "size", "cpu", "memory", "capability-flex"];
        let of = named(&types, name);
        let found = keys.map(|key| label(of, &format!("karpenter.k8s.aws/instance-{key}")));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn the_source_format_gives_the_same_types() -> Result<(), LoadError> {
    let loaded = Catalogue::from_text("aws_instance_types.json", EXCERPT)?;
    assert_eq!((loaded.types.len(), loaded.notes.len()), (20, 0));
    assert!(close(price_sum(&loaded.types, "on-demand") + price_sum(&loaded.types, "spot"), 3237.781988));
    let shipped = Catalogue::aws();
    assert_eq!(loaded.well_known, shipped.well_known);
    for of in &loaded.types {
        let mut same = named(&shipped.types, &of.name).clone();
        // Accelerators and the labels that follow from them are not in the source.
        same.capacity.retain(|name, _| !name.contains('/'));
        for (found, expected) in of.requirements.iter().zip(&mut same.requirements) {
            if found.key.contains("instance-gpu") {
                expected.clone_from(found);
            }
        }
        assert_eq!(*of, same);
        for (a, b) in of.offerings.iter().zip(&same.offerings) {
            assert_eq!(a.price.to_bits(), b.price.to_bits(), "{}", of.name);
        }
    }
    Ok(())
}

#[test]
fn one_machine_in_full() {
    let types = Catalogue::aws().types;
    let of = named(&types, "c5.large");
    assert_eq!(resources(&of.capacity), "cpu=2 ephemeral-storage=20Gi memory=4Gi pods=32");
    assert_eq!(resources(&of.allocatable()), "cpu=1900m ephemeral-storage=20Gi memory=4086Mi pods=32");
    let first: Vec<_> = of.offerings[..2]
        .iter()
        .map(|offering| (offering.zone(), offering.capacity_type(), offering.price))
        .collect();
    let zone = Some("us-west-2a");
    assert_eq!(first, [(zone, Some("spot"), 0.09 * 0.7), (zone, Some("on-demand"), 0.09)]);
    assert_eq!(label(of, "karpenter.kwok.sh/instance-size"), "large");
    assert_eq!(label(of, "karpenter.kwok.sh/instance-family"), "c5");
}
