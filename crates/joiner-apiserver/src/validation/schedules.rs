//! Rules of schedules of cron jobs, and of the time zones they are meant in.
//!
//! Not read by `joiner_api::schedule`: the first fault counts, in the order and the words of the library that Kubernetes uses, and nothing is kept
//! of a schedule that is right.

use serde_json::{Value, json};

use super::place::text;
use crate::rest::Cause;

const SCHEDULE: &str = "spec.schedule";
const ZONE: &str = "spec.timeZone";

/// The names of the zones, sorted.
const ZONES: &str = include_str!("../../data/time-zones.txt");

/// Judges the schedule by itself.
pub(super) fn check(spec: &Value, causes: &mut Vec<Cause>) {
    let schedule = text(&spec["schedule"]);
    if schedule.is_empty() {
        causes.push(Cause::required(SCHEDULE, ""));
    } else if let Err(complaint) = read(schedule) {
        causes.push(Cause::invalid(SCHEDULE, &json!(schedule), &complaint));
    }
}

/// What is wrong with the zone of a new cron job.
pub(super) fn on_create(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    zone_in_schedule(&Value::Null, &object["spec"], &mut causes);
    zone(&object["spec"], &mut causes);
    causes
}

/// The same of a changed one: a zone that was there before may stay.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    zone_in_schedule(&old["spec"], &new["spec"], &mut causes);
    if old["spec"]["timeZone"] != new["spec"]["timeZone"] {
        zone(&new["spec"], &mut causes);
    }
    causes
}

fn zone_in_schedule(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let schedule = text(&new["schedule"]);
    if !schedule.contains("TZ") {
        return;
    }
    let detail = if !text(&old["schedule"]).contains("TZ") {
        "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    } else if new["timeZone"].is_string() {
        "cannot use both timeZone field and TZ or CRON_TZ in schedule"
    } else {
        return;
    };
    causes.push(Cause::invalid(SCHEDULE, &json!(schedule), detail));
}

fn zone(spec: &Value, causes: &mut Vec<Cause>) {
    let Some(name) = spec["timeZone"].as_str() else { return };
    let mut refuse = |detail: &str| causes.push(Cause::invalid(ZONE, &json!(name), detail));
    let right = |part: &str| {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || ".-_+".contains(letter);
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.chars().all(letters)
    };
    if name.is_empty() {
        return refuse("timeZone must be nil or non-empty string");
    }
    if !name.split('/').all(right) {
        return refuse(&format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("local") {
        refuse("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if let Err(complaint) = find_zone(name) {
        refuse(&complaint);
    }
}

fn find_zone(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    let known = ZONES.lines().any(|zone| zone == name);
    if known { Ok(()) } else { Err(format!("unknown time zone {name}")) }
}

/// One of the five fields: its limits, and words that stand for numbers, from the lowest on.
struct Field {
    lowest: u64,
    highest: u64,
    words: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { lowest: 0, highest: 59, words: &[] },
    Field { lowest: 0, highest: 23, words: &[] },
    Field { lowest: 1, highest: 31, words: &[] },
    Field { lowest: 1, highest: 12, words: &MONTHS },
    Field { lowest: 0, highest: 6, words: &WEEKDAYS },
];

/// Reads a schedule as Kubernetes does. The first fault is told.
fn read(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        let Some((zone, after)) = rest.split_once(' ') else {
            // Kubernetes stumbles over its own feet, and says so.
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        find_zone(zone).map_err(|complaint| format!("provided bad location {zone}: {complaint}"))?;
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let given: Vec<&str> = rest.split_whitespace().collect();
    if given.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", given.len(), given.join(" ")));
    }
    let mut ranges = given
        .iter()
        .zip(&FIELDS)
        .flat_map(|(given, field)| given.split(',').map(move |range| (range, field)));
    ranges.try_for_each(|(range, field)| if range.is_empty() { Ok(()) } else { field.check(range) })
}

impl Field {
    /// `5`, `5-10`, `*`, each with or without `/2` behind it.
    fn check(&self, range: &str) -> Result<(), String> {
        let mut parts = range.split('/');
        let (ends, step_given, further) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let mut bounds = ends.split('-');
        let (low, high) = (bounds.next().unwrap_or_default(), bounds.next());
        let (start, mut end) = if matches!(low, "*" | "?") {
            (self.lowest, self.highest)
        } else {
            let start = self.number(low)?;
            let end = match (high, bounds.next()) {
                (None, _) => start,
                (Some(high), None) => self.number(high)?,
                (Some(_), Some(_)) => return Err(format!("too many hyphens: {range}")),
            };
            (start, end)
        };
        if further.is_some() {
            return Err(format!("too many slashes: {range}"));
        }
        let step = step_given.map_or(Ok(1), number)?;
        // With a step, one number begins a range that goes on to the end.
        if step_given.is_some() && high.is_none() {
            end = self.highest;
        }
        if start < self.lowest {
            return Err(format!("beginning of range ({start}) below minimum ({}): {range}", self.lowest));
        }
        if end > self.highest {
            return Err(format!("end of range ({end}) above maximum ({}): {range}", self.highest));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {range}"));
        }
        Ok(())
    }

    fn number(&self, given: &str) -> Result<u64, String> {
        let word = self.words.iter().zip(self.lowest..).find(|(word, _)| given.eq_ignore_ascii_case(word));
        word.map_or_else(|| number(given), |(_, number)| Ok(number))
    }
}

fn number(given: &str) -> Result<u64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match given.parse::<i64>() {
        Ok(number) => {
            u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {given}"))
        }
        Err(error) => {
            let fault = match error.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            let quoted = json!(given);
            Err(format!("failed to parse int from {given}: strconv.Atoi: parsing {quoted}: {fault}"))
        }
    }
}

fn descriptor(given: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] =
        ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if KNOWN.contains(&given) {
        return Ok(());
    }
    match given.strip_prefix("@every ") {
        Some(duration) => joiner_cel::go_duration_nanoseconds(duration)
            .map(|_| ())
            .map_err(|complaint| format!("failed to parse duration {given}: time: {complaint}")),
        None => Err(format!("unrecognized descriptor: {given}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_sorted_and_known() {
        assert!(ZONES.lines().is_sorted());
        assert!(find_zone("Europe/Berlin").is_ok() && find_zone("Etc/GMT+1").is_ok());
        assert_eq!(find_zone("europe/berlin").unwrap_err(), "unknown time zone europe/berlin");
    }
}
