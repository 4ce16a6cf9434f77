//! Files that load, in every accepted shape.

use joiner_api::instance_type::Reservation;
use joiner_provider_kwok::{Availability, Catalogue, LoadError};

use crate::{label, named, resources};

const CASE: &str = include_str!("../data/types-case.json");
const FLAT: &str = include_str!("../data/types-flat.json");

#[test]
fn any_key_case_loads() -> Result<(), LoadError> {
    let catalogue = Catalogue::from_text("types-case.json", CASE)?;
    let of = named(&catalogue.types, "x.large");
    assert_eq!(resources(&of.allocatable()), "cpu=7900m memory=2097142Mi pods=110");
    for (key, value) in [
        ("karpenter.kwok.sh/instance-memory", "2Ti"),
        ("karpenter.kwok.sh/instance-size", "large"),
        ("karpenter.kwok.sh/instance-family", "x"),
        ("karpenter.kwok.sh/instance-cpu", "8"),
        ("topology.kubernetes.io/zone", "zz"),
        ("karpenter.sh/capacity-type", "on-demand"),
    ] {
        assert_eq!(label(of, key), value, "{key}");
    }
    assert_eq!(of.offerings[0].single_value("example.com/rack"), Some("r1"));
    assert_eq!(of.offerings[0].price, 1.25);
    assert!(catalogue.well_known.contains(&"example.com/rack".to_owned()));
    assert!(!catalogue.well_known.iter().any(|key| key.starts_with("karpenter.k8s.aws/")));
    Ok(())
}

#[test]
fn unavailable_offerings_are_offered_unless_asked_otherwise() -> Result<(), LoadError> {
    let catalogue = Catalogue::from_text("types-case.json", CASE)?;
    assert!(catalogue.types[0].offerings[0].available);
    assert_eq!(
        catalogue.notes,
        ["`Available: false` is ignored, as the KWOK provider does: 1 offering, first of type `x.large`"]
    );
    let catalogue = Catalogue::from_text_with("types-case.json", CASE, Availability::AsWritten)?;
    assert!(!catalogue.types[0].offerings[0].available);
    assert_eq!(catalogue.notes.len(), 1);
    Ok(())
}

#[test]
fn flat_offerings_become_requirements() -> Result<(), LoadError> {
    let catalogue = Catalogue::from_text("types-flat.json", FLAT)?;
    let of = named(&catalogue.types, "g5.4xlarge");
    let offerings: Vec<_> = of
        .offerings
        .iter()
        .map(|offering| (offering.zone(), offering.capacity_type(), offering.price))
        .collect();
    let on_demand = Some("on-demand");
    assert_eq!(
        offerings,
        [
            (Some("us-east-1a"), on_demand, 1.624),
            (Some("us-east-1b"), on_demand, 1.7),
            (Some("us-east-1c"), on_demand, 1.525)
        ]
    );
    assert_eq!(of.cheapest().map(|offering| offering.price), Some(1.525));
    assert_eq!(
        resources(&of.capacity),
        "cpu=16 ephemeral-storage=600Gi memory=64Gi nvidia.com/gpu=1 pods=110"
    );
    for (key, value) in [
        ("topology.kubernetes.io/zone", "us-east-1a|us-east-1b|us-east-1c"),
        ("karpenter.k8s.aws/instance-category", "g"),
        ("karpenter.k8s.aws/instance-memory", "65536"),
        ("karpenter.k8s.aws/instance-gpu-count", "1"),
        ("karpenter.k8s.aws/instance-gpu-name", "a10g"),
    ] {
        assert_eq!(label(of, key), value, "{key}");
    }
    assert_eq!(catalogue.notes.len(), 1);
    assert!(catalogue.notes[0].starts_with("older flat form"));
    assert!(catalogue.notes[0].ends_with(": 3 offerings, first of type `g5.4xlarge`"));
    Ok(())
}

#[test]
fn a_type_without_aws_shape_says_it_lacks_aws_labels() -> Result<(), LoadError> {
    let entry = |name: &str| {
        format!(
            "{{name: {name}, architecture: amd64, operatingSystems: [linux], resources: {{cpu: 1, memory: 1Gi}}, \
             offerings: [{{price: 1, zone: a, capacityType: spot}}]}}"
        )
    };
    let text = format!("[{}, {}]", entry("own-name"), entry("c5.large"));
    let catalogue = Catalogue::from_text("mixed.yaml", &text)?;
    assert_eq!(label(named(&catalogue.types, "own-name"), "karpenter.k8s.aws/instance-category"), "-");
    assert_eq!(label(named(&catalogue.types, "c5.large"), "karpenter.k8s.aws/instance-category"), "c");
    assert_eq!(label(named(&catalogue.types, "c5.large"), "karpenter.k8s.aws/instance-gpu-count"), "-");
    assert!(catalogue.well_known.contains(&"karpenter.k8s.aws/instance-gpu-count".to_owned()));
    Ok(())
}

/// One small type in each document form.
#[test]
fn every_document_form_gives_the_same_list() -> Result<(), LoadError> {
    let json = r#"{"name":"a","architecture":"arm64","operatingSystems":["linux"],
        "resources":{"cpu":"2","memory":"4Gi","pods":20},
        "offerings":[{"Price":2,"Requirements":[
            {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},
            {"key":"topology.kubernetes.io/zone","operator":"In","values":["z"]}]}]}"#;
    let other = json.replace(r#""name":"a""#, r#""name":"b""#);
    let yaml = "
name: a
architecture: arm64
operatingSystems: [linux]
resources: {cpu: 2, memory: 4Gi, pods: '20'}
offerings:
- Price: 2.0
  Requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  - {key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [z]}
";
    let other_yaml = yaml.replace("name: a", "name: b");
    let expected = Catalogue::from_text("list.json", &format!("[{json},{other}]"))?.types;
    assert_eq!(expected.len(), 2);
    for (file_name, text) in [
        ("list", format!("[{json},{other}]")),
        ("list.yml", format!("[{json},{other}]")),
        ("LIST.JSON", format!("\u{feff}[{json},{other}]")),
        ("list.yaml", format!("{yaml}---{other_yaml}")),
        ("list", format!("{yaml}---{other_yaml}")),
        ("list.yaml", format!("---\n# nothing here\n---{yaml}---{other_yaml}")),
        ("list.json", format!(r#"{{"kind":"List","apiVersion":"v1","items":[{json},{other}]}}"#)),
        ("list.json", format!(r#"{{"InstanceTypes":[{json},{other}]}}"#)),
        ("list.yaml", format!("[{json}]\n---\nitems: [{other}]\n")),
    ] {
        assert_eq!(Catalogue::from_text(file_name, &text)?.types, expected, "{file_name}: {text}");
    }
    assert_eq!(Catalogue::from_text("one.json", json)?.types, expected[..1]);
    assert_eq!(Catalogue::from_text("one.yaml", yaml)?.types, expected[..1]);
    Ok(())
}

fn with_offerings(offerings: &str) -> Result<Catalogue, LoadError> {
    let text = format!(
        "- {{name: t, architecture: amd64, operatingSystems: [linux, windows], resources: {{cpu: 1, memory: 1Gi}}, \
         offerings: [{offerings}]}}"
    );
    Catalogue::from_text("t.yaml", &text)
}

#[test]
fn reserved_offerings_name_their_reservation() -> Result<(), LoadError> {
    let catalogue = with_offerings(
        "{price: 0.1, reservationCapacity: 3, capacityType: reserved, zone: a, requirements: \
           [{key: karpenter.k8s.aws/capacity-reservation-id, operator: In, values: [cr-1]}]}, \
         {price: 0.1, reservationCapacity: 2, capacityType: reserved, zone: b}, \
         {price: 0.1, capacityType: reserved, zone: c}, \
         {price: 0.1, reservationCapacity: 2, capacityType: spot, zone: c}",
    )?;
    let reservations: Vec<_> =
        catalogue.types[0].offerings.iter().map(|offering| offering.reservation.clone()).collect();
    let reservation = |id: &str, capacity| Some(Reservation { id: id.to_owned(), capacity });
    assert_eq!(reservations, [reservation("cr-1", 3), reservation("t/b", 2), reservation("t/c", 0), None]);
    assert_eq!(catalogue.notes.len(), 3, "{:?}", catalogue.notes);
    assert!(catalogue.notes[1].contains("without `ReservationCapacity`"));
    assert!(catalogue.notes[2].contains("is ignored"));
    Ok(())
}

#[test]
fn wide_offerings_are_split() -> Result<(), LoadError> {
    let catalogue = with_offerings(
        "{price: 1, reservationCapacity: 1, requirements: \
           [{key: topology.kubernetes.io/zone, operator: In, values: [b, a]}, \
            {key: karpenter.sh/capacity-type, operator: In, values: [reserved, spot]}, \
            {key: example.com/rack, operator: In, values: [r1, r2]}]}",
    )?;
    let offerings: Vec<_> = catalogue.types[0]
        .offerings
        .iter()
        .map(|offering| {
            let reservation = offering.reservation.as_ref().map(|reservation| reservation.id.as_str());
            (offering.zone(), offering.capacity_type(), reservation)
        })
        .collect();
    assert_eq!(
        offerings,
        [
            (Some("b"), Some("reserved"), Some("t/b")),
            (Some("b"), Some("spot"), None),
            (Some("a"), Some("reserved"), Some("t/a")),
            (Some("a"), Some("spot"), None),
        ]
    );
    assert_eq!(catalogue.types[0].offerings[0].requirements[2].values, ["r1", "r2"]);
    assert!(catalogue.notes.iter().any(|note| note.contains("each combination became an offering")));
    Ok(())
}

#[test]
fn an_offering_without_zone_means_a_type_without_zone() -> Result<(), LoadError> {
    let catalogue = with_offerings("{price: 0, capacityOverride: {cpu: 2}}")?;
    let of = &catalogue.types[0];
    assert_eq!(label(of, "topology.kubernetes.io/zone"), "-");
    assert_eq!(label(of, "karpenter.sh/capacity-type"), "-");
    assert_eq!(label(of, "kubernetes.io/os"), "linux|windows");
    assert_eq!(of.allocatable_for(&of.offerings[0])["cpu"].to_string(), "1900m");
    assert_eq!(catalogue.notes.len(), 3, "no zone, no capacity type, no price: {:?}", catalogue.notes);
    Ok(())
}
