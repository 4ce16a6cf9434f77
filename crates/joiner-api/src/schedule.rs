//! When a disruption budget's window opens, or a CronJob is due: cron in five fields. Budgets mean UTC, CronJobs may name a time zone.
//!
//! The dialect is that of the schedules people already have. Its grammar differs from what cron libraries
//! take (weekday 7, `L`, `W`, `#`, a sixth field and ranges that wrap around are refused; `5/20` means
//! `5-59/20`; empty list items are skipped), so this module reads the text itself into sets of numbers, and
//! hands those sets to `croner` to walk the calendar. The embedded API server reads the same grammar by itself, to name faults in Kubernetes' words.
//!
//! Day of month and day of week combine as in classic cron: a field that contains a bare `*` or `?` leaves
//! the choice to the other one, and when both are restricted either may match.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use croner::parser::CronParser;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::duration::{self, Duration};

/// Schema pattern of a budget's `schedule`. It lets bad cron through; [`Schedule::parse`] is the real check.
pub const PATTERN: &str =
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$";

/// A hit is searched for in this year and so many after it, and not beyond.
const YEARS_SEARCHED: i16 = 5;

/// Why a text is not a schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not five fields.
    #[error("schedule `{text}` has {found} fields, not five: minute, hour, day of month, month, day of week")]
    FieldCount {
        /// The whole text.
        text: String,
        /// The number of fields in it.
        found: usize,
    },
    /// An unknown word after `@`.
    #[error(
        "schedule `{0}` is not a known shorthand; use `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` or `@annually`"
    )]
    Shorthand(String),
    /// The interval of `@every` is not a duration.
    #[error("schedule `{text}`: {source}")]
    Interval {
        /// The whole text.
        text: String,
        /// What is wrong with the interval.
        source: duration::Error,
    },
    /// One field cannot be read.
    #[error("schedule `{text}`: {field} `{item}` {problem}")]
    Field {
        /// The whole text.
        text: String,
        /// Which field, in words.
        field: &'static str,
        /// The part of it that is wrong.
        item: String,
        /// What is wrong, starting with a verb.
        problem: String,
    },
}

/// A schedule: the text and what it means.
#[derive(Debug, Clone)]
pub struct Schedule {
    text: Box<str>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Calendar(Box<Cron>),
    /// A fixed delay in whole seconds. It has no phase: every hit is counted from the instant asked about.
    Every {
        seconds: i64,
    },
    /// A date such as 30 February.
    Never,
}

impl Schedule {
    /// Reads five cron fields, a shorthand such as `@daily`, or `@every 1h`. Blanks around it do not matter.
    pub fn parse(text: &str) -> Result<Schedule, Error> {
        let trimmed = text.trim();
        let kind = match trimmed {
            "@yearly" | "@annually" => calendar("0 0 1 1 *")?,
            "@monthly" => calendar("0 0 1 * *")?,
            "@weekly" => calendar("0 0 * * 0")?,
            "@daily" | "@midnight" => calendar("0 0 * * *")?,
            "@hourly" => calendar("0 * * * *")?,
            _ => match trimmed.strip_prefix("@every ") {
                Some(interval) => every(text, interval)?,
                None if trimmed.starts_with('@') => return Err(Error::Shorthand(text.to_owned())),
                None => calendar(text)?,
            },
        };
        Ok(Schedule { text: text.into(), kind })
    }

    /// The first hit strictly after `instant` on the calendar of UTC; `None` when none comes within the next five calendar years.
    ///
    /// Hits fall on whole seconds.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        self.next_after_in(instant, &TimeZone::UTC)
    }

    /// The same on the calendar of a time zone. What its clocks skip when they are put forward is no hit; what they show twice is a hit twice.
    pub fn next_after_in(&self, instant: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let second = Timestamp::from_second(instant.as_nanosecond().div_euclid(1_000_000_000) as i64).ok()?;
        let cron = match &self.kind {
            Kind::Never => return None,
            Kind::Every { seconds } => {
                return second.checked_add(jiff::SignedDuration::from_secs(*seconds)).ok();
            }
            Kind::Calendar(cron) => cron,
        };
        let mut start = second.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
        let last_year = zone.to_datetime(start).year().saturating_add(YEARS_SEARCHED);
        // From one change of the clocks to the next, local time runs as evenly as UTC does.
        let mut changes = zone.following(second);
        loop {
            let offset = zone.to_offset(start);
            let hit = cron.find_next_occurrence(&offset.to_datetime(start), true).ok()?;
            let change = changes.next().map(|change| change.timestamp());
            match (offset.to_timestamp(hit), change) {
                (Ok(at), change) if change.is_none_or(|change| at < change) => {
                    return (hit.year() <= last_year).then_some(at);
                }
                (_, Some(change)) if offset.to_datetime(change).year() <= last_year => start = change,
                _ => return None,
            }
        }
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Schedule, Error> {
        Schedule::parse(text)
    }
}

/// Whether the schema takes this text for a budget's `schedule` ([`PATTERN`]).
pub fn matches_pattern(text: &str) -> bool {
    const SHORTHANDS: [&str; 7] =
        ["@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    // The pattern binds its first anchor to the shorthands only and its last one to the five fields only.
    if SHORTHANDS.iter().any(|shorthand| text.starts_with(shorthand)) {
        return true;
    }
    // One bit per field: those that have begun (awaiting a character) and those with at least one.
    let (mut awaiting, mut filled) = (0_u8, 0_u8);
    for c in text.chars() {
        awaiting |= 1;
        let next_field = if matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r') { filled << 1 } else { 0 };
        filled = if c == '\n' { 0 } else { filled | awaiting };
        awaiting = next_field & 0b11111;
    }
    filled & 0b10000 != 0
}

fn every(text: &str, interval: &str) -> Result<Kind, Error> {
    let interval =
        Duration::parse(interval).map_err(|source| Error::Interval { text: text.to_owned(), source })?;
    Ok(Kind::Every { seconds: interval.whole_seconds().max(1) })
}

/// One of the five fields: its name in messages, its range, its words.
struct Field {
    name: &'static str,
    min: u64,
    max: u64,
    words: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, words: &[] },
    Field { name: "hour", min: 0, max: 23, words: &[] },
    Field { name: "day of month", min: 1, max: 31, words: &[] },
    Field { name: "month", min: 1, max: 12, words: &MONTHS },
    Field { name: "day of week", min: 0, max: 6, words: &WEEKDAYS },
];

/// The numbers a field allows, as bits, and whether it said so with a bare star.
#[derive(Clone, Copy, Default)]
struct Numbers {
    bits: u64,
    star: bool,
}

fn calendar(text: &str) -> Result<Kind, Error> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(Error::FieldCount { text: text.to_owned(), found: fields.len() });
    }
    let mut numbers = [Numbers::default(); 5];
    for ((numbers, field), item) in numbers.iter_mut().zip(&FIELDS).zip(fields) {
        *numbers = field.parse(text, item)?;
    }
    if never_comes(&numbers) {
        return Ok(Kind::Never);
    }
    let pattern = pattern(&numbers);
    let cron = CronParser::new().parse(&pattern).map_err(|error| Error::Field {
        text: text.to_owned(),
        field: "pattern",
        item: pattern,
        problem: format!("cannot be scheduled: {error}"),
    })?;
    Ok(Kind::Calendar(Box::new(cron)))
}

/// True when some field allows nothing (`,` is such a field) or no allowed month is long enough for an
/// allowed day.
fn never_comes(numbers: &[Numbers; 5]) -> bool {
    const LONGEST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let [minutes, hours, days, months, weekdays] = numbers;
    if minutes.bits == 0 || hours.bits == 0 || months.bits == 0 {
        return true;
    }
    let day_exists = (1..=12_u32).filter(|month| months.bits >> month & 1 == 1).any(|month| {
        let in_month = (1_u64 << (LONGEST[month as usize - 1] + 1)) - 1;
        days.bits & in_month != 0
    });
    match (days.star, weekdays.star) {
        (false, false) => !day_exists && weekdays.bits == 0,
        _ => !day_exists || weekdays.bits == 0,
    }
}

/// The sets in the plainest cron there is: a star or a list of numbers per field.
fn pattern(numbers: &[Numbers; 5]) -> String {
    let [.., days, _, weekdays] = numbers;
    // Either day field may match when both are restricted: one that allows every day then frees the other.
    let any_day =
        !days.star && !weekdays.star && (FIELDS[2].is_full(days.bits) || FIELDS[4].is_full(weekdays.bits));
    let parts = numbers.iter().zip(&FIELDS).enumerate().map(|(index, (numbers, field))| {
        let day_field = index == 2 || index == 4;
        if (day_field && any_day) || (field.is_full(numbers.bits)) || (day_field && numbers.bits == 0) {
            return "*".to_owned();
        }
        let allowed = (field.min..=field.max).filter(|number| numbers.bits >> number & 1 == 1);
        allowed.map(|number| number.to_string()).collect::<Vec<_>>().join(",")
    });
    parts.collect::<Vec<_>>().join(" ")
}

impl Field {
    fn is_full(&self, bits: u64) -> bool {
        (self.min..=self.max).all(|number| bits >> number & 1 == 1)
    }

    fn parse(&self, text: &str, list: &str) -> Result<Numbers, Error> {
        let mut numbers = Numbers::default();
        for item in list.split(',').filter(|item| !item.is_empty()) {
            let range = self.parse_item(item).map_err(|problem| Error::Field {
                text: text.to_owned(),
                field: self.name,
                item: item.to_owned(),
                problem,
            })?;
            numbers.bits |= range.bits;
            numbers.star |= range.star;
        }
        Ok(numbers)
    }

    /// One of `*`, `n`, `n-m`, each with an optional `/step`.
    fn parse_item(&self, item: &str) -> Result<Numbers, String> {
        let (range, step) = match item.split_once('/') {
            Some((_, step)) if step.contains('/') => return Err("has more than one `/`".to_owned()),
            Some((range, step)) => (range, Some(parse_number(step)?)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first, Some(last)),
            None => (range, None),
        };
        let starred = first == "*" || first == "?";
        let (start, end) = match last {
            _ if starred => (self.min, self.max),
            Some(last) if last.contains('-') => return Err("has more than one `-`".to_owned()),
            Some(last) => (self.parse_value(first)?, self.parse_value(last)?),
            None => {
                let start = self.parse_value(first)?;
                (start, if step.is_some() { self.max } else { start })
            }
        };
        if start < self.min || end > self.max {
            return Err(format!("is outside {} to {}", self.min, self.max));
        }
        if start > end {
            return Err("ends before it starts".to_owned());
        }
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err("has a step of zero".to_owned());
        }
        let mut numbers = Numbers { bits: 0, star: starred && step == 1 };
        let mut number = start;
        while number <= end {
            numbers.bits |= 1 << number;
            number = number.saturating_add(step);
        }
        Ok(numbers)
    }

    fn parse_value(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match self.words.iter().position(|word| *word == lower) {
            Some(position) => Ok(position as u64 + self.min),
            None => parse_number(text),
        }
    }
}

fn parse_number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) if number >= 0 => Ok(number.unsigned_abs()),
        Ok(_) => Err("is negative".to_owned()),
        Err(_) => Err(format!("holds `{text}`, which is not a number or a known three-letter name")),
    }
}
