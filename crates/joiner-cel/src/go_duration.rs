//! Durations as Go writes them: `1h30m`.
//!
//! Not read by `joiner_api::duration`: its errors speak to authors of manifests, and a server has to answer in the words of Go's library.

use serde_json::json;

/// How many nanoseconds a duration has.
///
/// # Errors
/// It is none; the error is what Go says.
pub fn nanoseconds(given: &str) -> Result<i64, String> {
    let invalid = || format!("invalid duration {}", json!(given));
    let (negative, mut rest) = match given.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, given.strip_prefix('+').unwrap_or(given)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let length = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit());
        let (mut amount, mut after) = rest.split_at(length.unwrap_or(rest.len()));
        // A second point begins the unit.
        if let Some((second, _)) = amount.match_indices('.').nth(1) {
            (amount, after) = rest.split_at(second);
        }
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let length = after.find(|letter: char| letter == '.' || letter.is_ascii_digit());
        let (unit, next) = after.split_at(length.unwrap_or(after.len()));
        let scale: i64 = match unit {
            "" => return Err(format!("missing unit in duration {}", json!(given))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(format!("unknown unit {} in duration {}", json!(unit), json!(given))),
        };
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        // Below a nanosecond nothing counts.
        let fraction = format!("0.{fraction}").parse::<f64>().unwrap_or(0.0) * scale as f64;
        let part = whole.checked_mul(scale).and_then(|part| part.checked_add(fraction as i64));
        sum = part.and_then(|part| sum.checked_add(part)).ok_or_else(invalid)?;
        rest = next;
    }
    Ok(if negative { -sum } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (right, length) in [
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("-1s", -1_000_000_000),
            ("0", 0),
            ("+.5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1µs", 1_000),
            ("1.9ns", 1),
            ("2562047h47m16.854775807s", i64::MAX),
        ] {
            assert_eq!(nanoseconds(right), Ok(length), "{right}");
        }
        for (wrong, complaint) in [
            ("", "invalid duration \"\""),
            ("-", "invalid duration \"-\""),
            ("x", "invalid duration \"x\""),
            (".s", "invalid duration \".s\""),
            ("5", "missing unit in duration \"5\""),
            ("1..5s", "missing unit in duration \"1..5s\""),
            ("5d", "unknown unit \"d\" in duration \"5d\""),
            ("9999999h", "invalid duration \"9999999h\""),
        ] {
            assert_eq!(nanoseconds(wrong).unwrap_err(), complaint, "{wrong}");
        }
    }
}
