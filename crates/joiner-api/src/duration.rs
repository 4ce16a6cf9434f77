//! Lengths of time as the API writes them: Go's grammar (`1h30m`), plus `Never` where a timer may be off.
//!
//! Two types, because two kinds of field behave differently. [`Duration`] is rewritten in its normal form
//! when it is stored (`90s` comes back as `1m30s`); [`NillableDuration`] keeps the text its author wrote, and
//! has the extra value `Never`. The schema allows less than the reader does (no fractions, no signs, no units
//! below a second), so the three patterns are offered as predicates of their own. The embedded API server reads the grammar by itself, to name
//! faults in Go's words.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;

/// Schema pattern of `expireAfter` and `consolidateAfter`.
pub const NILLABLE_PATTERN: &str = r"^(([0-9]+(s|m|h))+|Never)$";
/// Schema pattern of `terminationGracePeriod`.
pub const GRACE_PERIOD_PATTERN: &str = r"^([0-9]+(s|m|h))+$";
/// Schema pattern of a disruption budget's `duration`.
pub const BUDGET_PATTERN: &str = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$";

const NEVER: &str = "Never";
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Magnitudes are summed unsigned; this is the magnitude of the most negative duration.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a sequence of numbers with units.
    #[error("duration `{0}` is not a sequence of numbers with units, such as `30s` or `1h30m`")]
    Syntax(String),
    /// A number without a unit.
    #[error("duration `{0}` has a number without a unit; use `h`, `m` or `s`")]
    MissingUnit(String),
    /// A unit nobody knows.
    #[error("duration `{text}` has an unknown unit `{unit}`; use `h`, `m` or `s` (a day is `24h`)")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// More than about 292 years.
    #[error("duration `{0}` is longer than `2562047h47m16s`")]
    Overflow(String),
}

/// A signed length of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration {
    nanos: i64,
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration { nanos: 0 };

    /// Reads Go's grammar: an optional sign, then numbers with units `h m s ms us µs ns`, fractions allowed;
    /// a bare `0`.
    pub fn parse(text: &str) -> Result<Duration, Error> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Duration::ZERO);
        }
        if rest.is_empty() {
            return Err(Error::Syntax(text.to_owned()));
        }
        let mut magnitude = 0_u64;
        while !rest.is_empty() {
            let (term, remainder) = term(text, rest)?;
            magnitude = magnitude
                .checked_add(term)
                .filter(|sum| *sum <= MAGNITUDE_MAX)
                .ok_or_else(|| Error::Overflow(text.to_owned()))?;
            rest = remainder;
        }
        let nanos =
            if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
        nanos.map(|nanos| Duration { nanos }).ok_or_else(|| Error::Overflow(text.to_owned()))
    }

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Duration {
        Duration { nanos }
    }

    /// So many seconds, with the nearest end of the range where that does not fit.
    pub const fn from_secs(seconds: i64) -> Duration {
        Duration { nanos: seconds.saturating_mul(NANOS_PER_SECOND as i64) }
    }

    /// The length in nanoseconds.
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// The length in whole seconds, the rest cut off.
    pub const fn whole_seconds(self) -> i64 {
        self.nanos / NANOS_PER_SECOND as i64
    }

    /// For arithmetic with instants.
    pub const fn to_signed_duration(self) -> SignedDuration {
        SignedDuration::from_nanos(self.nanos)
    }
}

/// One number with its unit from the start of `rest`, in nanoseconds, and what follows it.
fn term<'a>(text: &str, rest: &'a str) -> Result<(u64, &'a str), Error> {
    let overflow = || Error::Overflow(text.to_owned());
    let (whole, after_whole) = take_digits(rest);
    let (fraction, after_number) = match after_whole.strip_prefix('.') {
        Some(after_point) => take_digits(after_point),
        None => ("", after_whole),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(Error::Syntax(text.to_owned()));
    }
    let unit_end = after_number
        .bytes()
        .position(|byte| byte == b'.' || byte.is_ascii_digit())
        .unwrap_or(after_number.len());
    let (unit, remainder) = after_number.split_at(unit_end);
    if unit.is_empty() {
        return Err(Error::MissingUnit(text.to_owned()));
    }
    let nanos_per_unit = unit_nanos(unit)
        .ok_or_else(|| Error::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() })?;
    let number = whole
        .bytes()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .filter(|number| *number <= MAGNITUDE_MAX / nanos_per_unit)
        .ok_or_else(overflow)?;
    let magnitude = number * nanos_per_unit + fraction_nanos(fraction, nanos_per_unit);
    if magnitude > MAGNITUDE_MAX {
        return Err(overflow());
    }
    Ok((magnitude, remainder))
}

/// The fraction of a unit, cut to whole nanoseconds. Floats, because the last nanosecond then falls where the
/// other readers of the same manifest let it fall.
fn fraction_nanos(fraction: &str, nanos_per_unit: u64) -> u64 {
    let (mut number, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let next = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(digit - b'0')));
        // Digits that no longer fit are far below a nanosecond.
        let Some(next) = next.filter(|next| *next <= MAGNITUDE_MAX) else { break };
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (nanos_per_unit as f64 / scale)) as u64
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // U+00B5 micro sign and U+03BC greek letter mu look alike and both occur.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

impl fmt::Display for Duration {
    /// The normal form: `1h30m0s`, `1m30s`, `1.5s`, `100ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.nanos.unsigned_abs();
        let sign = if self.nanos < 0 { "-" } else { "" };
        let text = match magnitude {
            0 => "0s".to_owned(),
            1..1_000 => format!("{sign}{magnitude}ns"),
            1_000..1_000_000 => format!("{sign}{}\u{b5}s", with_fraction(magnitude, 1_000)),
            1_000_000..NANOS_PER_SECOND => format!("{sign}{}ms", with_fraction(magnitude, 1_000_000)),
            _ => {
                let minutes = magnitude / NANOS_PER_SECOND / 60;
                let seconds = with_fraction(magnitude - minutes * 60 * NANOS_PER_SECOND, NANOS_PER_SECOND);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => format!("{sign}{seconds}s"),
                    (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                    (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
                }
            }
        };
        f.pad(&text)
    }
}

fn with_fraction(nanos: u64, unit: u64) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

impl FromStr for Duration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Duration, Error> {
        Duration::parse(text)
    }
}

impl serde::Serialize for Duration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Duration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        Duration::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Duration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}

/// A duration that may be `Never`, printed as its author wrote it.
#[derive(Debug, Clone)]
pub struct NillableDuration {
    duration: Option<Duration>,
    text: Box<str>,
}

impl NillableDuration {
    /// Reads `Never` (in exactly this spelling) or a duration.
    pub fn parse(text: &str) -> Result<NillableDuration, Error> {
        let duration = if text == NEVER { None } else { Some(Duration::parse(text)?) };
        Ok(NillableDuration { duration, text: text.into() })
    }

    /// The timer that never rings.
    pub fn never() -> NillableDuration {
        NillableDuration { duration: None, text: NEVER.into() }
    }

    /// The length, or `None` for `Never`.
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// True for `Never`.
    pub fn is_never(&self) -> bool {
        self.duration.is_none()
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl From<Duration> for NillableDuration {
    fn from(duration: Duration) -> NillableDuration {
        NillableDuration { duration: Some(duration), text: duration.to_string().into() }
    }
}

/// Two spellings of the same length are the same value.
impl PartialEq for NillableDuration {
    fn eq(&self, other: &NillableDuration) -> bool {
        self.duration == other.duration
    }
}

impl Eq for NillableDuration {}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for NillableDuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<NillableDuration, Error> {
        NillableDuration::parse(text)
    }
}

impl serde::Serialize for NillableDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> serde::Deserialize<'de> for NillableDuration {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<NillableDuration, D::Error> {
        let text = String::deserialize(deserializer)?;
        NillableDuration::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for NillableDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NillableDuration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": NILLABLE_PATTERN})
    }
}

/// Whether the schema takes this text for `expireAfter` and `consolidateAfter` ([`NILLABLE_PATTERN`]).
pub fn matches_nillable_pattern(text: &str) -> bool {
    text == NEVER || matches_grace_period_pattern(text)
}

/// Whether the schema takes this text for `terminationGracePeriod` ([`GRACE_PERIOD_PATTERN`]).
pub fn matches_grace_period_pattern(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, remainder)) = strip_term(rest, &['s', 'm', 'h']) {
        rest = remainder;
    }
    !text.is_empty() && rest.is_empty()
}

/// Whether the schema takes this text for a budget's `duration` ([`BUDGET_PATTERN`]).
pub fn matches_budget_pattern(text: &str) -> bool {
    let Some((unit, rest)) = strip_term(text, &['h', 'm']) else { return false };
    let rest = match strip_term(rest, &['m']) {
        Some((_, rest)) if unit == 'h' => rest,
        _ => rest,
    };
    rest.is_empty() || rest == "0s"
}

/// Digits and one of the units off the start of the text.
fn strip_term<'a>(text: &'a str, units: &[char]) -> Option<(char, &'a str)> {
    let (digits, rest) = take_digits(text);
    let unit = rest.chars().next().filter(|unit| !digits.is_empty() && units.contains(unit))?;
    Some((unit, &rest[unit.len_utf8()..]))
}
