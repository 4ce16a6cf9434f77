//! Resource quantities: are they well formed, and how does Kubernetes write them?
//!
//! The canonical form keeps the family of the suffix (decimal, binary, exponent), has no fraction, and uses the largest suffix that
//! leaves a whole number. Digits beyond nano are rounded up.
//!
//! Apart from `joiner_api::quantity`, which brings the types of Kubernetes: this server keeps objects as their JSON text and needs none of them.

const PATTERN: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NANO: i128 = 1_000_000_000;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Binary,
    Exponent,
}

struct Parsed {
    nanos: i128,
    family: Family,
}

/// Whether the text is a quantity.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse(text).map(|_| ())
}

/// The canonical form of a quantity; none if it is none or beyond what 128 bits hold.
pub fn canonical_quantity(text: &str) -> Option<String> {
    let Parsed { nanos, family } = parse(text).ok()??;
    written(nanos, family)
}

/// A quantity in nanos of its unit.
pub(crate) fn quantity_nanos(text: &str) -> Option<i128> {
    parse(text).ok()?.map(|parsed| parsed.nanos)
}

/// The quantity of so many nanos of its unit, with binary or decimal suffixes.
pub(crate) fn quantity_from_nanos(nanos: i128, binary: bool) -> String {
    let family = if binary { Family::Binary } else { Family::Decimal };
    written(nanos, family).unwrap_or_default()
}

fn written(nanos: i128, family: Family) -> Option<String> {
    if nanos == 0 {
        return Some("0".to_owned());
    }
    if family == Family::Binary && nanos % NANO == 0 && (nanos / NANO).abs() >= 1024 {
        let (mut value, mut suffix) = (nanos / NANO, "");
        for next in BINARY {
            if value % 1024 != 0 {
                break;
            }
            (value, suffix) = (value / 1024, next);
        }
        return Some(format!("{value}{suffix}"));
    }
    let (mut value, mut exponent) = (nanos, -9);
    while value % 1000 == 0 && exponent < 18 {
        (value, exponent) = (value / 1000, exponent + 3);
    }
    if family == Family::Exponent {
        return Some(if exponent == 0 { value.to_string() } else { format!("{value}e{exponent}") });
    }
    let suffix = DECIMAL.iter().find(|(_, power)| *power == exponent).map_or("", |(suffix, _)| suffix);
    Some(format!("{value}{suffix}"))
}

/// The value in nanos; `Ok(None)` for a well-formed quantity that does not fit.
fn parse(text: &str) -> Result<Option<Parsed>, String> {
    let bad = || PATTERN.to_owned();
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (digits, suffix) = rest.split_at(split);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(bad());
    }
    let scale = |family, power: i32, binary: u32| (family, power, binary);
    let (family, power, binary) = if let Some(place) = BINARY.iter().position(|known| *known == suffix) {
        scale(Family::Binary, 0, u32::try_from(place).unwrap_or_default() + 1)
    } else if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        scale(Family::Decimal, *power, 0)
    } else if let Some(power) = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok()) {
        scale(Family::Exponent, power, 0)
    } else if suffix.bytes().all(|byte| b"eEinumkKMGTP+-0123456789".contains(&byte)) {
        return Err("unable to parse quantity's suffix".to_owned());
    } else {
        return Err(bad());
    };
    let nanos = nanos(whole, fraction, power, binary);
    Ok(nanos.map(|nanos| Parsed { nanos: if negative { -nanos } else { nanos }, family }))
}

fn nanos(whole: &str, fraction: &str, power: i32, binary: u32) -> Option<i128> {
    let mut digits = whole.bytes().chain(fraction.bytes()).map(|digit| i128::from(digit - b'0'));
    let value = digits.try_fold(0_i128, |value, digit| value.checked_mul(10)?.checked_add(digit))?;
    let value = value.checked_mul(1024_i128.checked_pow(binary)?)?;
    let exponent = 9 + power - i32::try_from(fraction.len()).ok()?;
    let factor = 10_i128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 {
        value.checked_mul(factor?)
    } else {
        // Rounded away from zero, as Kubernetes does.
        Some(factor.map_or(i128::from(value != 0), |factor| (value + factor - 1) / factor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        for (text, expected) in [
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("512Ki", "512Ki"),
            ("0.5Gi", "512Mi"),
            ("1000", "1k"),
            ("100", "100"),
            ("128974848", "128974848"),
            ("1e3", "1e3"),
            ("0Gi", "0"),
            ("1Ki", "1Ki"),
            ("-1000m", "-1"),
            ("0.0000000001", "1n"),
            ("1.5Gi", "1536Mi"),
            ("100Mi", "100Mi"),
            ("512", "512"),
        ] {
            assert_eq!(canonical_quantity(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity() {
        for text in ["two", "", "1 Gi", "1.2.3", "+"] {
            assert_eq!(check(text), Err(PATTERN.to_owned()), "{text}");
        }
        assert_eq!(check("1GiB"), Err(PATTERN.to_owned()));
        assert_eq!(check("1mi"), Err("unable to parse quantity's suffix".to_owned()));
        assert_eq!(check("123456789012345678901234567890123456789012345"), Ok(()));
    }
}
