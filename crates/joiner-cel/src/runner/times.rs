//! Parts of times and durations. The library takes the hour that a text gives; CEL takes UTC, or the zone it is asked for.

use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as Cel};

/// What a function takes from a time.
type Part = fn(&Zoned) -> i64;

/// Names of functions, and what each of them takes.
const PARTS: [(&str, Part); 10] = [
    ("getFullYear", |time| time.year().into()),
    ("getMonth", |time| i64::from(time.month()) - 1),
    ("getDayOfYear", |time| i64::from(time.day_of_year()) - 1),
    ("getDayOfMonth", |time| i64::from(time.day()) - 1),
    ("getDate", |time| time.day().into()),
    ("getDayOfWeek", |time| time.weekday().to_sunday_zero_offset().into()),
    ("getHours", |time| time.hour().into()),
    ("getMinutes", |time| time.minute().into()),
    ("getSeconds", |time| time.second().into()),
    ("getMilliseconds", |time| time.millisecond().into()),
];

pub(super) fn register(all: &mut Context<'_>) {
    for (name, part) in PARTS {
        all.add_function(name, move |This(of): This<Cel>, Arguments(zone): Arguments| {
            part_of(name, part, &of, &zone)
        });
    }
}

fn part_of(name: &str, part: Part, of: &Cel, zone: &[Cel]) -> ResolveResult {
    let failed = |why: &str| ExecutionError::function_error(name, why);
    let (time, zone) = match (of, zone) {
        (Cel::Duration(length), []) => {
            let whole = match name {
                "getHours" => length.num_hours(),
                "getMinutes" => length.num_minutes(),
                "getSeconds" => length.num_seconds(),
                "getMilliseconds" => length.num_milliseconds(),
                _ => return Err(ExecutionError::NoSuchOverload),
            };
            return Ok(Cel::Int(whole));
        }
        (Cel::Timestamp(time), []) => (time, TimeZone::UTC),
        (Cel::Timestamp(time), [Cel::String(zone)]) => {
            (time, zone_of(zone).ok_or_else(|| failed(&format!("unknown time zone {zone}")))?)
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let nanosecond = i32::try_from(time.timestamp_subsec_nanos().min(999_999_999)).unwrap_or(0);
    let time = Timestamp::new(time.timestamp(), nanosecond).map_err(|_| failed("time out of range"))?;
    Ok(Cel::Int(part(&time.to_zoned(zone))))
}

/// A zone by its name, or by how far it is ahead: `-03:30`.
fn zone_of(text: &str) -> Option<TimeZone> {
    let Some((hours, minutes)) = text.split_once(':') else {
        // No name is UTC's, and a server has no place of its own.
        let is_utc = ["", "UTC", "Local"].contains(&text);
        return if is_utc { Some(TimeZone::UTC) } else { TimeZone::get(text).ok() };
    };
    let (sign, hours) = match hours.strip_prefix('-') {
        Some(hours) => (-1, hours),
        None => (1, hours),
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let ahead = hours.checked_mul(60)?.checked_add(minutes)?.checked_mul(60 * sign)?;
    Offset::from_seconds(ahead).ok().map(TimeZone::fixed)
}
