//! Durations against recorded answers of Go's parser and of the two decoders that sit on it.

use joiner_api::duration::{
    Duration, Error, NillableDuration, matches_budget_pattern, matches_grace_period_pattern,
    matches_nillable_pattern,
};
use serde_json::Value;

#[test]
fn every_recorded_duration_agrees() {
    let text = include_str!("data/golden/durations.jsonl");
    assert_eq!(text.lines().count(), 106);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("golden lines are JSON");
        let raw = &line["in"];
        if let Some(text) = raw.as_str() {
            let parsed = Duration::parse(text);
            assert_eq!(line["go"]["ok"], parsed.is_ok(), "{line}");
            if let Ok(duration) = parsed {
                assert_eq!(line["go"]["nanos"].as_i64().unwrap_or(0), duration.nanos(), "{line}");
                assert_eq!(line["go"]["text"], duration.to_string(), "{line}");
            }
        }
        let plain = serde_json::from_value::<Duration>(raw.clone());
        assert_eq!(line["plain"]["ok"], plain.is_ok(), "{line}");
        if let Ok(duration) = plain {
            assert_eq!(line["plain"]["nanos"].as_i64().unwrap_or(0), duration.nanos(), "{line}");
            assert_eq!(line["plain"]["written"], serde_json::to_string(&duration).expect("json"), "{line}");
        }
        let nillable = serde_json::from_value::<NillableDuration>(raw.clone());
        assert_eq!(line["nillable"]["ok"], nillable.is_ok(), "{line}");
        if let Ok(duration) = nillable {
            assert_eq!(line["nillable"]["never"] == true, duration.is_never(), "{line}");
            let nanos = duration.duration().map_or(0, Duration::nanos);
            assert_eq!(line["nillable"]["nanos"].as_i64().unwrap_or(0), nanos, "{line}");
            assert_eq!(
                line["nillable"]["written"],
                serde_json::to_string(&duration).expect("json"),
                "{line}"
            );
        }
        let schema = |predicate: fn(&str) -> bool| raw.as_str().is_some_and(predicate);
        assert_eq!(line["crd"]["expireAfterOrConsolidateAfter"], schema(matches_nillable_pattern), "{line}");
        assert_eq!(line["crd"]["terminationGracePeriod"], schema(matches_grace_period_pattern), "{line}");
        assert_eq!(line["crd"]["budgetDuration"], schema(matches_budget_pattern), "{line}");
    }
}

#[test]
fn errors_name_the_text_and_the_remedy() {
    let message = |text: &str| Duration::parse(text).expect_err(text).to_string();
    assert_eq!(message("1d"), "duration `1d` has an unknown unit `d`; use `h`, `m` or `s` (a day is `24h`)");
    assert_eq!(message("10"), "duration `10` has a number without a unit; use `h`, `m` or `s`");
    assert_eq!(message("2562048h"), "duration `2562048h` is longer than `2562047h47m16s`");
}

#[test]
fn the_ends_of_the_range_survive() {
    assert_eq!(Duration::from_nanos(i64::MIN).to_string(), "-2562047h47m16.854775808s");
    assert_eq!(Duration::parse("-2562047h47m16.854775808s"), Ok(Duration::from_nanos(i64::MIN)));
    assert!(Duration::parse("2562047h47m16.854775808s").is_err());
    assert_eq!(Duration::from_secs(i64::MAX), Duration::from_nanos(i64::MAX));
    assert_eq!(Duration::parse("0.999999999s").map(Duration::nanos), Ok(999_999_999));
    assert_eq!(Duration::parse("0.1234567890123456789012345s").map(Duration::nanos), Ok(123_456_789));
}

#[test]
fn no_text_breaks_the_parser() {
    const ALPHABET: &[char] = &['0', '1', '5', '9', '.', '-', '+', 'h', 'm', 's', 'n', 'u', 'µ', ' '];
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let looks_like: String =
            bytes.iter().map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()]).collect();
        for text in [looks_like, String::from_utf8_lossy(bytes).into_owned()] {
            let accepted_by_schema = matches_grace_period_pattern(&text) || matches_budget_pattern(&text);
            match Duration::parse(&text) {
                Ok(duration) => assert_eq!(Duration::parse(&duration.to_string()), Ok(duration), "{text}"),
                // What the schema lets through fails only by being too long.
                Err(error) => assert!(!accepted_by_schema || error.to_string().contains("longer"), "{text}"),
            }
        }
    });
}

#[test]
fn every_length_round_trips() {
    bolero::check!().with_type::<i64>().with_iterations(20_000).for_each(|nanos| {
        let duration = Duration::from_nanos(*nanos);
        let again = Duration::parse(&duration.to_string()).expect("normal form parses");
        assert_eq!(again, duration);
    });
}

#[test]
fn every_well_formed_text_is_read_or_too_long() {
    use proptest::prelude::*;
    let texts = "[+-]?([0-9]{1,12}(\\.[0-9]{0,25})?(h|m|s|ms|us|µs|ns)){1,4}";
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(text in texts)| {
        match Duration::parse(&text) {
            Ok(duration) => prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration)),
            Err(error) => prop_assert_eq!(error, Error::Overflow(text)),
        }
    });
}
