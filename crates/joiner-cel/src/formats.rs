//! Named formats of strings. Formats nobody knows match everything, as in Kubernetes.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::go_duration;

const SECOND: i64 = 1_000_000_000;

/// Whether text has a format.
pub fn matches(format: &str, text: &str) -> bool {
    match format {
        "date" => is_date(text),
        "date-time" | "datetime" => is_date_time(text),
        "duration" => nanoseconds(text).is_some(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some(b'3')),
        "uuid4" => is_uuid(text, Some(b'4')),
        "uuid5" => is_uuid(text, Some(b'5')),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "uri" => is_uri(text),
        "byte" => is_base64(text),
        "mac" => is_mac(text),
        _ => true,
    }
}

fn number(text: &str, digits: usize) -> Option<u32> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut next = |digits| parts.next().and_then(|part| number(part, digits));
    let (Some(year), Some(month), Some(day)) = (next(4), next(2), next(2)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let (Some(clock), Some(rest)) = (time.get(..8), time.get(8..)) else { return false };
    let mut parts = clock.split(':');
    let mut next = |max| parts.next().and_then(|part| number(part, 2)).is_some_and(|value| value <= max);
    let clock = next(23) && next(59) && next(59);
    let rest = match rest.strip_prefix('.') {
        Some(after) => {
            let zone = after.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == after.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let offset = |rest: &str| {
        rest.len() == 6
            && rest.starts_with(['+', '-'])
            && rest.get(1..3).is_some_and(|hours| number(hours, 2).is_some())
            && rest.get(3..4) == Some(":")
            && rest.get(4..6).is_some_and(|minutes| number(minutes, 2).is_some())
    };
    is_date(date) && clock && (rest.eq_ignore_ascii_case("z") || offset(rest))
}

/// How long a duration is: one of Go (`1h30m`), or words (`3 days`).
pub(super) fn nanoseconds(text: &str) -> Option<i64> {
    go_duration::nanoseconds(text).ok().or_else(|| in_words(text))
}

fn in_words(text: &str) -> Option<i64> {
    let text = text.trim();
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let amount: f64 = rest[..rest.len() - after.len()].parse().ok()?;
        let after = after.trim_start();
        let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit: i64 = match after[..end].to_lowercase().as_str() {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "μs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
            "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * SECOND,
            "d" | "day" | "days" => 86_400 * SECOND,
            "w" | "week" | "weeks" => 7 * 86_400 * SECOND,
            _ => return None,
        };
        sum = sum.saturating_add((amount * unit as f64) as i64);
        rest = after[end..].trim_start();
    }
    Some(if negative { -sum } else { sum })
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let bits = length.parse::<u8>().ok().filter(|_| !length.starts_with('+'));
    match bits {
        Some(bits) if address.parse::<Ipv4Addr>().is_ok() => bits <= 32,
        Some(bits) if address.parse::<Ipv6Addr>().is_ok() => bits <= 128,
        _ => false,
    }
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let bare: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let dashes = text.bytes().enumerate().filter(|(_, byte)| *byte == b'-').map(|(place, _)| place);
    let placed = dashes.eq([8, 13, 18, 23]) || !text.contains('-');
    bare.len() == 32
        && placed
        && bare.iter().all(u8::is_ascii_hexdigit)
        && version.is_none_or(|version| bare[12] == version)
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    !text.is_empty() && text.len() <= 255 && text.trim_end_matches('.').split('.').all(label)
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let plain = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    !local.is_empty() && local.chars().all(plain) && is_hostname(domain)
}

fn is_uri(text: &str) -> bool {
    // An absolute address or an absolute path.
    let scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let clean = !text.is_empty() && !text.contains(|c: char| c.is_ascii_control() || c == ' ');
    clean && (text.starts_with('/') || text.split_once(':').is_some_and(|(start, _)| scheme(start)))
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    [6, 8, 20].contains(&parts.len())
        && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        for (format, good, bad) in [
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2026-01-01T00:00:00.5Z", "yesterday"),
            ("date-time", "2026-01-01T00:00:00+02:00", "2026-01-01T24:00:00Z"),
            ("duration", "1h30m", "1x"),
            ("duration", "3 days", ""),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("uuid", "00000000-0000-4000-8000-000000000000", "0000"),
            ("uuid4", "00000000-0000-4000-8000-000000000000", "00000000-0000-3000-8000-000000000000"),
            ("hostname", "a.example.com", "-a"),
            ("email", "a@example.com", "a"),
            ("uri", "https://example.com/x", "no address"),
            ("byte", "aGVsbG8=", "a$=="),
            ("mac", "00:00:5e:00:53:01", "00:00"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("colour-of-the-sky", "anything"));
    }
}
