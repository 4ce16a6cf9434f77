//! Quantities against recorded answers of Kubernetes' own parser, and properties over arbitrary text.

use joiner_api::quantity::{Error, Format, Quantity};
use serde_json::Value;

fn lines() -> Vec<Value> {
    let text = include_str!("data/golden/quantities.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("golden lines are JSON")).collect()
}

/// Negative numbers that Kubernetes keeps in its slow representation lose their sign or their high digits
/// when they are turned into integers. The text it prints for them is right, and so are these value and
/// milli.
const WRONG_WHEN_RECORDED: [(&str, Option<i64>, Option<i64>); 3] = [
    ("-0.5n", Some(-1), Some(-1)),
    ("-3Pi", Some(-3 << 50), Some((-3 << 50) * 1000)),
    ("-3Ei", Some(-3 << 60), None),
];

#[test]
fn every_recorded_quantity_agrees() {
    let lines = lines();
    assert_eq!(lines.len(), 426);
    for line in &lines {
        let text = line["in"].as_str().expect("text");
        let parsed = Quantity::parse(text);
        if line["ok"] == false {
            let error = parsed.expect_err(text);
            let suffix = line["error"].as_str().is_some_and(|error| error.contains("suffix"));
            assert_eq!(matches!(error, Error::Suffix(_)), suffix, "{text}: {error}");
            continue;
        }
        let quantity = parsed.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(line["canonical"].as_str(), Some(quantity.to_string().as_str()), "canonical of {text}");
        assert_eq!(line["exact"].as_str(), Some(quantity.exact().as_str()), "exact of {text}");
        let recorded = (line["value"].as_i64(), line["milli"].as_i64());
        let expected = WRONG_WHEN_RECORDED.iter().find(|(wrong, ..)| *wrong == text);
        let (value, milli) = expected.map_or(recorded, |(_, value, milli)| {
            assert_ne!((*value, *milli), recorded, "{text} no longer needs an exception");
            (*value, *milli)
        });
        assert_eq!((quantity.value(), quantity.milli()), (value, milli), "value and milli of {text}");
        assert_eq!(line["format"].as_str(), Some(quantity.format().name()), "format of {text}");
    }
}

#[test]
fn canonical_text_means_the_same_amount() {
    for line in lines().iter().filter(|line| line["ok"] == true) {
        let quantity = Quantity::parse(line["in"].as_str().expect("text")).expect("valid");
        let canonical = Quantity::parse(&quantity.to_string()).expect("canonical text parses");
        assert_eq!(canonical, quantity, "{line}");
        assert_eq!(canonical.to_string(), quantity.to_string(), "{line}");
    }
}

#[track_caller]
fn check_sum(left: &str, right: &str, sum: &str, difference: &str) {
    let (left, right) = (Quantity::parse(left).expect("left"), Quantity::parse(right).expect("right"));
    assert_eq!((left + right).to_string(), sum);
    assert_eq!((left - right).to_string(), difference);
}

#[test]
fn arithmetic_is_exact_and_keeps_the_family_of_the_left_side() {
    check_sum("0.1", "0.2", "300m", "-100m");
    check_sum("1Gi", "1Gi", "2Gi", "0");
    check_sum("0", "1Gi", "1Gi", "-1Gi");
    check_sum("1Gi", "0", "1Gi", "1Gi");
    check_sum("1k", "1Ki", "2024", "-24");
    check_sum("1Ki", "1k", "2024", "24");
    check_sum("1e3", "1", "1001", "999");
    check_sum("1024Gi", "1024Gi", "2Ti", "0");
    check_sum("1", "1n", "1000000001n", "999999999n");
    check_sum("7Ei", "7Ei", "14Ei", "0");
    check_sum("600E", "400E", "1000E", "200E");
}

#[test]
fn amounts_beyond_every_integer_stay_ordered_and_never_shrink() {
    let huge = Quantity::parse("1e400").expect("huge");
    let more = Quantity::parse("10000e397").expect("more");
    assert!(huge < more && -more < -huge && Quantity::parse("1").expect("one") < huge);
    assert_eq!((huge.value(), huge.nano()), (None, None));
    assert_eq!((huge.value_saturating(), (-huge).milli_saturating()), (i64::MAX, i64::MIN));
    assert!(huge + Quantity::parse("1n").expect("nano") > huge, "a lost digit rounds away from zero");
    assert_eq!(huge + -huge, Quantity::ZERO);
    let long = "9".repeat(5000);
    assert!(Quantity::parse(&long).expect("long") >= Quantity::parse(&"9".repeat(4999)).expect("shorter"));
    assert_eq!(Quantity::parse(&format!("0.{}1Gi", "0".repeat(5000))).expect("tiny").to_string(), "1n");
    assert_eq!(Quantity::parse("1e-99999999999").expect("tiny").to_string(), "1e-9");
    assert!(matches!(Quantity::parse("1e1001"), Err(Error::Exponent(_))));
    assert!(matches!(Quantity::parse("1e99999999999"), Err(Error::Exponent(_))));
}

#[test]
fn constructors_and_ranges() {
    assert_eq!(Quantity::from_milli(1500).to_string(), "1500m");
    assert_eq!(Quantity::from_value(-2000).to_string(), "-2k");
    assert_eq!(Quantity::from_bytes(3 << 30).to_string(), "3Gi");
    assert_eq!(Quantity::from_value(1024).with_format(Format::BinarySi).to_string(), "1Ki");
    assert_eq!(Quantity::from_milli(1).nano(), Some(1_000_000));
    assert_eq!(Quantity::parse("1Gi"), Quantity::parse("1024Mi"));
    let total: Quantity = ["250m", "1.75"].iter().map(|text| Quantity::parse(text).expect("valid")).sum();
    assert_eq!(total, Quantity::from_value(2));
}

#[test]
fn json_may_be_a_string_or_a_number() {
    let read = |json: &str| serde_json::from_str::<Quantity>(json).map(|quantity| quantity.to_string());
    for (json, text) in [
        ("\"500m\"", "500m"),
        ("\" 1Gi \"", "1Gi"),
        ("2", "2"),
        ("1.5", "1500m"),
        ("-3", "-3"),
        ("18446744073709551615", "18446744073709551615"),
        ("null", "0"),
    ] {
        assert_eq!(read(json).expect(json), text);
    }
    assert!(read("\"1 Gi\"").is_err() && read("true").is_err() && read("[]").is_err());
    assert_eq!(serde_json::to_string(&Quantity::from_milli(500)).expect("json"), "\"500m\"");
}

#[test]
fn kubernetes_types_hold_the_text() {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
    assert_eq!(Quantity::try_from(&WireQuantity("1.5Gi".to_owned())), Ok(Quantity::from_bytes(1536 << 20)));
    assert_eq!(WireQuantity::from(Quantity::from_bytes(1536 << 20)).0, "1536Mi");
    assert!(Quantity::try_from(&WireQuantity("much".to_owned())).is_err());
}

#[track_caller]
fn check_round_trip(text: &str) {
    let quantity = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let again = Quantity::parse(&quantity.to_string()).expect("canonical text parses");
    assert_eq!(again.to_string(), quantity.to_string(), "{text}");
    assert_eq!(again, quantity, "{text}");
    assert_eq!(Quantity::parse(&quantity.exact()).expect("exact text parses"), quantity, "{text}");
    assert_eq!(quantity + -quantity, Quantity::ZERO, "{text}");
    assert_eq!(quantity + Quantity::ZERO, quantity, "{text}");
    let json = serde_json::to_string(&quantity).expect("json");
    assert_eq!(serde_json::from_str::<Quantity>(&json).expect("json"), quantity, "{text}");
}

#[test]
fn every_well_formed_text_round_trips() {
    use proptest::prelude::*;
    let texts = "[+-]?[0-9]{1,45}(\\.[0-9]{0,45})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?";
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(text in texts)| check_round_trip(&text));
    for text in ["1e1000", "-9e999", "99999999999999999999999999999999999999999e990", "1e-1000", "0e1000"] {
        check_round_trip(text);
    }
}

/// Text that looks enough like a quantity to get past the first check now and then.
fn from_bytes(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"0123456789019.+-eEinumkKMGTP x";
    bytes.iter().map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()] as char).collect()
}

#[test]
fn no_text_breaks_the_parser() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        for text in [from_bytes(bytes), String::from_utf8_lossy(bytes).into_owned()] {
            if Quantity::parse(&text).is_ok() {
                check_round_trip(&text);
            }
        }
    });
}

#[test]
fn sums_and_order_agree_with_integers() {
    bolero::check!().with_type::<(i64, i64, u8, u8)>().with_iterations(20_000).for_each(
        |(left, right, left_scale, right_scale)| {
            let quantity = |number: i64, scale: u8| {
                let exponent = i32::from(scale % 19) - 9;
                (Quantity::parse(&format!("{number}e{exponent}")).expect("valid"), exponent)
            };
            let nano = |number: i64, exponent: i32| i128::from(number) * 10_i128.pow((exponent + 9) as u32);
            let ((a, ea), (b, eb)) = (quantity(*left, *left_scale), quantity(*right, *right_scale));
            let (x, y) = (nano(*left, ea), nano(*right, eb));
            assert_eq!(a.nano(), Some(x));
            assert_eq!(a.cmp(&b), x.cmp(&y));
            assert_eq!((a + b).nano(), Some(x + y));
            assert_eq!((a - b).nano(), Some(x - y));
            assert_eq!(
                a.value(),
                i64::try_from(x.signum() * ((x.abs() + 999_999_999) / 1_000_000_000))
                    .ok()
                    .filter(|v| *v != i64::MIN)
            );
        },
    );
}
