use super::*;

const FIRST: Duration = Duration::from_secs(180);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn class(name: &str) -> NodeClassReference {
    NodeClassReference { group: "example.com".to_owned(), kind: "Class".to_owned(), name: name.to_owned() }
}

fn key(instance_type: &str, zone: &str, capacity_type: &str) -> OfferingKey {
    OfferingKey {
        instance_type: instance_type.to_owned(),
        zone: Some(zone.to_owned()),
        capacity_type: Some(capacity_type.to_owned()),
        reservation: None,
    }
}

fn offering(of: Option<&str>, key: OfferingKey) -> Scope {
    Scope::Offering { class: of.map(class), offering: key }
}

fn is_out(health: &Health, of: &str, key: &OfferingKey, seconds: i64) -> bool {
    health.unavailable("cloud", &class(of), at(seconds)).contains(key)
}

#[test]
fn an_offering_rests_for_its_pause_and_for_its_provider_only() {
    let mut health = Health::new(FIRST);
    let spot = key("large", "a", "spot");
    health.failed("cloud", offering(None, spot.clone()), None, at(0));
    assert!(is_out(&health, "x", &spot, 0) && is_out(&health, "x", &spot, 179));
    assert!(!is_out(&health, "x", &spot, 180));
    assert_eq!(health.next_recovery(at(1)), Some(at(180)));
    assert!(!is_out(&health, "x", &key("large", "b", "spot"), 0));
    assert!(health.unavailable("other", &class("x"), at(0)).is_empty());
    let reserved = OfferingKey { reservation: Some("r-1".to_owned()), ..spot };
    assert!(!is_out(&health, "x", &reserved, 0), "a reservation is an offering of its own");
}

#[test]
fn reserved_capacity_can_be_left_out() {
    let mut unavailable = Health::new(FIRST).unavailable("cloud", &class("x"), at(0));
    let reserved = OfferingKey { reservation: Some("r-1".to_owned()), ..key("large", "a", "reserved") };
    assert!(!unavailable.contains(&reserved) && unavailable.is_empty());
    unavailable.leave_out_reserved();
    assert!(unavailable.contains(&reserved) && !unavailable.is_empty());
    assert!(unavailable.contains(&key("large", "a", "reserved")), "whatever its reservation is called");
    assert!(!unavailable.contains(&key("large", "a", "spot")));
}

#[test]
fn pauses_double_in_a_row_and_end_with_a_success() {
    let mut health = Health::new(FIRST);
    let spot = key("large", "a", "spot");
    let mut now = 0;
    for pause in [180, 360, 720, 1440, 1800, 1800] {
        health.failed("cloud", offering(None, spot.clone()), None, at(now));
        // The same outage, told again by a launch that was under way.
        health.failed("cloud", offering(None, spot.clone()), None, at(now));
        assert!(is_out(&health, "x", &spot, now + pause - 1), "{pause}");
        now += pause;
        assert!(!is_out(&health, "x", &spot, now), "{pause}");
    }
    health.succeeded("cloud", &class("x"), &spot);
    health.failed("cloud", offering(None, spot.clone()), None, at(now));
    assert!(!is_out(&health, "x", &spot, now + 180), "the row has ended");
}

#[test]
fn a_row_is_forgotten_after_a_while_and_a_named_time_counts() {
    let mut health = Health::new(FIRST);
    let spot = key("large", "a", "spot");
    health.failed("cloud", offering(None, spot.clone()), None, at(0));
    health.failed("cloud", offering(None, spot.clone()), None, at(400));
    assert!(!is_out(&health, "x", &spot, 580), "two failures far apart are no row");
    health.failed("cloud", offering(None, spot.clone()), Some(Duration::from_secs(7)), at(1000));
    assert!(is_out(&health, "x", &spot, 1006) && !is_out(&health, "x", &spot, 1007));
}

#[test]
fn a_clock_set_back_does_not_prolong_a_pause() {
    let mut health = Health::new(FIRST);
    let spot = key("large", "a", "spot");
    health.failed("cloud", offering(None, spot.clone()), None, at(3600));
    assert!(!is_out(&health, "x", &spot, 0));
}

#[test]
fn scopes_take_out_what_they_cover() {
    let mut health = Health::new(FIRST);
    let zone = Scope::Zone { zone: "a".to_owned(), capacity_type: Some("spot".to_owned()) };
    let quota = Scope::Quota {
        quota: "standard vCPUs".to_owned(),
        instance_types: ["huge".to_owned()].into(),
        capacity_type: None,
    };
    health.failed("cloud", zone, None, at(0));
    health.failed("cloud", quota, None, at(0));
    health.failed("cloud", offering(Some("x"), key("large", "b", "spot")), None, at(0));
    for (of, key, out) in [
        ("x", key("large", "a", "spot"), true),
        ("x", key("large", "a", "on-demand"), false),
        ("x", key("huge", "c", "on-demand"), true),
        ("x", key("large", "b", "spot"), true),
        ("y", key("large", "b", "spot"), false),
    ] {
        assert_eq!(is_out(&health, of, &key, 0), out, "{of} {key:?}");
    }
    health.succeeded("cloud", &class("y"), &key("large", "a", "spot"));
    assert!(!is_out(&health, "x", &key("large", "a", "spot"), 0));
    assert!(
        is_out(&health, "x", &key("large", "b", "spot"), 0),
        "another class's success tells nothing of it"
    );
}

#[test]
fn a_zone_goes_with_the_last_of_its_subnets() {
    let mut health = Health::new(FIRST);
    let subnet = |name: &str| Scope::Subnet {
        class: class("x"),
        zone: "a".to_owned(),
        subnet: name.to_owned(),
        subnets_of_zone: ["s-1".to_owned(), "s-2".to_owned()].into(),
    };
    let in_a = key("large", "a", "spot");
    health.failed("cloud", subnet("s-2"), None, at(0));
    let unavailable = health.unavailable("cloud", &class("x"), at(0));
    assert!(!unavailable.contains(&in_a) && unavailable.subnets().contains("s-2"));
    health.failed("cloud", subnet("s-1"), None, at(0));
    assert!(is_out(&health, "x", &in_a, 0));
    assert!(!is_out(&health, "y", &in_a, 0), "another class may have other subnets there");
}
