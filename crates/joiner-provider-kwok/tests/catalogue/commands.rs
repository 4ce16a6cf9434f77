//! What the subcommands of `joiner instance-types` are made of.

use joiner_provider_kwok::{Availability, Catalogue, Filter, check, rows};

#[test]
fn rows_hold_a_type_each() {
    let catalogue =
        Catalogue::from_text("types.json", include_str!("../data/aws-us-west-2-excerpt.json")).unwrap();
    let rows = rows(&catalogue, &Filter::default());
    assert_eq!(rows.len(), 20);
    let row = rows.iter().find(|row| row.name == "g5.12xlarge").expect("in the list");
    assert_eq!(
        (row.architecture.as_str(), row.operating_systems.as_slice()),
        ("amd64", &["linux".to_owned()][..])
    );
    assert_eq!(format!("{} {} {}", row.cpu, row.memory, row.pods), "48 192Gi 768");
    let other: Vec<String> = row.other.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    assert_eq!(other, ["ephemeral-storage=20Gi"]);
    assert_eq!((row.on_demand, row.spot, row.reserved), (Some(5.672), Some(5.672 * 0.7), None));
    assert_eq!((row.offerings, row.available, row.zones.len()), (8, 8, 4));
}

#[test]
fn filters_narrow() {
    let catalogue = Catalogue::hypothetical();
    let some = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (Filter::default(), 144),
        (Filter { architecture: some("arm64"), ..Filter::default() }, 72),
        (Filter { architecture: some("arm64"), operating_system: some("linux"), ..Filter::default() }, 36),
        (Filter { name_contains: some("-64x-"), ..Filter::default() }, 12),
        (Filter { zone: some("test-zone-d"), capacity_type: some("spot"), ..Filter::default() }, 144),
        (Filter { zone: some("test-zone-e"), ..Filter::default() }, 0),
        (Filter { capacity_type: some("reserved"), ..Filter::default() }, 0),
    ] {
        assert_eq!(rows(&catalogue, &filter).len(), expected, "{filter:?}");
    }
}

#[test]
fn check_reports_good_and_bad() {
    let good = check("flat.json", include_str!("../data/types-flat.json"), Availability::Always);
    assert!(good.is_good());
    assert_eq!((good.types, good.offerings, good.prices), (1, 3, Some((1.525, 1.7))));
    assert_eq!(good.notes.len(), 1);
    let bad = check("nooff.json", include_str!("../data/types-nooff.json"), Availability::Always);
    assert!(!bad.is_good());
    assert_eq!((bad.types, bad.problems.len()), (0, 2));
    assert_eq!(bad.problems[0].key, "unknownKey");
    assert_eq!(bad.problems[1].entry.as_ref().and_then(|entry| entry.name.as_deref()), Some("nooff"));
}
