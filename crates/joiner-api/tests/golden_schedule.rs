//! Schedules against hits recorded with the cron library that sets the dialect.

use jiff::Timestamp;
use joiner_api::schedule::{Schedule, matches_pattern};
use serde_json::Value;

#[test]
fn every_recorded_schedule_agrees() {
    let text = include_str!("data/golden/cron.jsonl");
    assert_eq!(text.lines().count(), 165);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("golden lines are JSON");
        let expression = line["expr"].as_str().expect("text");
        assert_eq!(line["crd"], matches_pattern(expression), "schema: {line}");
        let parsed = Schedule::parse(expression);
        assert_eq!(line["ok"], parsed.is_ok(), "{parsed:?}: {line}");
        let Ok(schedule) = parsed else { continue };
        let mut instant: Timestamp = line["start"].as_str().expect("start").parse().expect("instant");
        let mut hits = Vec::new();
        while let Some(next) = schedule.next_after(instant) {
            hits.push(Value::from(next.to_string()));
            instant = next;
            if hits.len() == 5 {
                break;
            }
        }
        assert_eq!(line["next"].as_array().cloned().unwrap_or_default(), hits, "{line}");
    }
}

#[test]
fn errors_name_the_field_and_the_reason() {
    let message = |text: &str| Schedule::parse(text).expect_err(text).to_string();
    assert_eq!(message("0 0 * * 7"), "schedule `0 0 * * 7`: day of week `7` is outside 0 to 6");
    assert_eq!(message("0 22-2 * * *"), "schedule `0 22-2 * * *`: hour `22-2` ends before it starts");
    assert_eq!(
        message("0 0 * Juni *"),
        "schedule `0 0 * Juni *`: month `Juni` holds `Juni`, which is not a number or a known three-letter name"
    );
    assert_eq!(
        message("@every 1d"),
        "schedule `@every 1d`: duration `1d` has an unknown unit `d`; use `h`, `m` or `s` (a day is `24h`)"
    );
}

#[test]
fn the_ends_of_time_are_not_an_accident() {
    for text in ["@yearly", "* * * * *", "@every 2562047h", "0 0 29 2 *", "0 0 30 2 *"] {
        let schedule = Schedule::parse(text).expect(text);
        assert_eq!(schedule.next_after(Timestamp::MAX), None, "{text}");
        let first = schedule.next_after(Timestamp::MIN);
        assert!(first.is_none_or(|first| first > Timestamp::MIN), "{text}");
    }
    // Eight years without a leap day around 2100.
    let leap_day = Schedule::parse("0 0 29 2 *").expect("valid");
    assert_eq!(leap_day.next_after("2096-03-01T00:00:00Z".parse().expect("instant")), None);
    assert!(leap_day.next_after("2099-01-01T00:00:00Z".parse().expect("instant")).is_some());
}

/// What robfig/cron 3.0.1, which Kubernetes reads the schedules of CronJobs with, says of the next moments.
#[test]
fn clocks_that_change_skip_and_repeat() {
    #[rustfmt::skip]
    let recorded = [
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z", "2026-03-11T06:30:00Z"]),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"]),
        ("30 * * * *", "America/New_York", "2026-11-01T04:00:00Z", ["2026-11-01T04:30:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", ["2026-03-28T02:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]),
        ("0 0 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", ["2026-01-01T18:30:00Z", "2026-01-02T18:30:00Z", "2026-01-03T18:30:00Z"]),
        ("*/30 * * * *", "Australia/Lord_Howe", "2026-04-04T13:30:00Z", ["2026-04-04T14:00:00Z", "2026-04-04T14:30:00Z", "2026-04-04T15:00:00Z"]),
        ("0 0 1 * *", "Pacific/Auckland", "2026-03-15T00:00:00Z", ["2026-03-31T11:00:00Z", "2026-04-30T12:00:00Z", "2026-05-31T12:00:00Z"]),
        ("15 0 * * *", "America/Sao_Paulo", "2018-11-03T00:00:00Z", ["2018-11-03T03:15:00Z", "2018-11-05T02:15:00Z", "2018-11-06T02:15:00Z"]),
    ];
    for (text, zone, from, expected) in recorded {
        let (schedule, name) = (Schedule::parse(text).expect(text), zone);
        let zone = jiff::tz::TimeZone::get(zone).expect(zone);
        let mut at: Timestamp = from.parse().expect(from);
        for moment in expected {
            at = schedule.next_after_in(at, &zone).expect(text);
            assert_eq!(at.to_string(), moment, "{text} in {name}");
        }
    }
    let leap_day = Schedule::parse("0 0 29 2 *").expect("valid");
    let zone = jiff::tz::TimeZone::get("Europe/Berlin").expect("known");
    assert_eq!(leap_day.next_after_in("2096-03-01T00:00:00Z".parse().expect("instant"), &zone), None);
    assert_eq!(leap_day.next_after_in(Timestamp::MAX, &zone), None);
}

/// What a field says about a number, straight from the rules and without the module's bit sets.
fn allows(list: &str, number: i64, max: i64) -> bool {
    list.split(',').any(|item| {
        let (range, step) =
            item.split_once('/').map_or((item, 1), |(range, step)| (range, step.parse().expect("step")));
        let (start, end) = match range.split_once('-') {
            _ if range == "*" => (if max == 31 || max == 12 { 1 } else { 0 }, max),
            Some((start, end)) => (start.parse().expect("start"), end.parse().expect("end")),
            None => {
                let start = range.parse().expect("number");
                (start, if item.contains('/') { max } else { start })
            }
        };
        (start..=end).contains(&number) && (number - start) % step == 0
    })
}

fn matches(fields: &[String; 5], instant: Timestamp) -> bool {
    let time = instant.to_zoned(jiff::tz::TimeZone::UTC);
    let allows = |index: usize, number: i8, max: i64| allows(&fields[index], i64::from(number), max);
    let day = allows(2, time.day(), 31);
    let weekday = allows(4, time.weekday().to_sunday_zero_offset(), 6);
    let starred = |index: usize| fields[index].split(',').any(|item| item == "*" || item == "*/1");
    let day_matches = if starred(2) || starred(4) { day && weekday } else { day || weekday };
    day_matches && allows(0, time.minute(), 59) && allows(1, time.hour(), 23) && allows(3, time.month(), 12)
}

#[test]
fn hits_match_the_fields_and_none_is_skipped() {
    use proptest::prelude::*;
    let item = |min: i64, max: i64| {
        prop_oneof![
            4 => Just("*".to_owned()),
            2 => (2..=max).prop_map(|step| format!("*/{step}")),
            3 => (min..=max).prop_map(|number| number.to_string()),
            2 => (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            1 => (min..=max, 1..=max).prop_map(|(start, step)| format!("{start}/{step}")),
            1 => (min..=max, min..=max).prop_map(|(a, b)| format!("{a},{b}")),
        ]
    };
    let fields = [item(0, 59), item(0, 23), item(1, 31), item(1, 12), item(0, 6)];
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(fields in fields, second in 0_i64..4_000_000_000, minutes in 0_i64..100_000)| {
        let schedule = Schedule::parse(&fields.join(" ")).expect("generated schedules are valid");
        let start = Timestamp::from_second(second).expect("in range");
        let next = schedule.next_after(start);
        if let Some(next) = next {
            prop_assert!(next > start);
            prop_assert!(next.as_second() % 60 == 0 && matches(&fields, next), "{:?} does not hit {}", fields, next);
        }
        // No minute before the hit matches: all of them when it is near, one at random when it is far.
        let limit = next.map_or(second + 400 * 86_400, Timestamp::as_second);
        let first_minute = second / 60 + 1;
        let between = (limit + 59) / 60 - first_minute;
        let probes: Vec<i64> = if between < 2_000 { (0..between).collect() } else { vec![minutes % between] };
        for probe in probes {
            let minute = Timestamp::from_second((first_minute + probe) * 60).expect("in range");
            prop_assert!(!matches(&fields, minute), "{:?} skipped {} after {}", fields, minute, start);
        }
    });
}

#[test]
fn no_text_breaks_the_parser() {
    const ALPHABET: &[u8] = b"0123456789*/?,-  @ev junsLW#\t";
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let looks_like: String =
            bytes.iter().map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()] as char).collect();
        for text in [looks_like, String::from_utf8_lossy(bytes).into_owned()] {
            matches_pattern(&text);
            if let Ok(schedule) = Schedule::parse(&text) {
                assert_eq!(schedule.as_str(), text);
                let next = schedule.next_after(Timestamp::UNIX_EPOCH);
                assert!(next.is_none_or(|next| next > Timestamp::UNIX_EPOCH), "{text}");
            }
        }
    });
}
