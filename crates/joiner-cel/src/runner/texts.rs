//! Values as texts: `string(…)`, and clauses of `format`.

use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Key;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as Cel};

use super::functions::by_the_library;

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function("string", |of: Cel| string(of));
    all.add_function("format", |This(text): This<Arc<String>>, values: Arc<Vec<Cel>>| -> ResolveResult {
        Ok(Cel::String(Arc::new(format(&text, &values)?)))
    });
}

fn string(of: Cel) -> ResolveResult {
    match of {
        // An address.
        Cel::Opaque(_) => by_the_library("string", of),
        of => Ok(Cel::String(Arc::new(text_of(&of).ok_or(ExecutionError::NoSuchOverload)?))),
    }
}

/// The text of a value that converts to one.
fn text_of(of: &Cel) -> Option<String> {
    Some(match of {
        Cel::String(text) => text.as_ref().clone(),
        Cel::Bool(value) => value.to_string(),
        Cel::Int(value) => value.to_string(),
        Cel::UInt(value) => value.to_string(),
        Cel::Float(value) => double(*value),
        Cel::Bytes(bytes) => String::from_utf8(bytes.as_ref().clone()).ok()?,
        Cel::Duration(length) => {
            let nanoseconds = length.num_nanoseconds()?;
            let (whole, part) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
            format!("{}s", whole as f64 + part as f64 / 1e9)
        }
        Cel::Timestamp(time) => time_of(&time.to_rfc3339()),
        _ => return None,
    })
}

/// The library writes all three, six or nine digits of a fraction, and zero hours for UTC.
fn time_of(text: &str) -> String {
    let zone = text.rfind(['+', '-']).unwrap_or(text.len());
    let (time, zone) = text.split_at(zone);
    let time = if time.contains('.') { time.trim_end_matches('0').trim_end_matches('.') } else { time };
    format!("{time}{}", if zone == "+00:00" { "Z" } else { zone })
}

/// A number as Go writes it in short: with an exponent from a million on.
fn double(value: f64) -> String {
    if value.is_nan() || value.is_infinite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        }
        .to_owned();
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) || value == 0.0 {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Puts values into a text, in the place of its clauses.
fn format(text: &str, values: &[Cel]) -> Result<String, ExecutionError> {
    let failed = |why: &str| ExecutionError::function_error("format", why);
    let (mut result, mut rest, mut values) = (String::new(), text, values.iter());
    while let Some((before, after)) = rest.split_once('%') {
        result.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            result.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = match after.strip_prefix('.') {
            Some(after) => {
                let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
                (
                    after[..end].parse().map_err(|_| failed("unable to convert precision to integer"))?,
                    &after[end..],
                )
            }
            None => (6, after),
        };
        let mut letters = after.chars();
        let verb = letters.next().ok_or_else(|| failed("unexpected end of string"))?;
        let value = values.next().ok_or_else(|| failed("index out of range"))?;
        let put = clause(verb, precision, value);
        result.push_str(&put.ok_or_else(|| failed(&format!("clause %{verb} cannot be used on this value")))?);
        rest = letters.as_str();
    }
    result.push_str(rest);
    Ok(result)
}

/// So many digits at most: nobody reads more, and a text must not grow with a number in it.
const MOST_DIGITS: usize = 100;

fn clause(verb: char, precision: usize, value: &Cel) -> Option<String> {
    let precision = precision.min(MOST_DIGITS);
    match (verb, value) {
        ('s', Cel::List(_) | Cel::Map(_)) => inside(value),
        ('s', Cel::Null) => Some("null".to_owned()),
        ('s', value) => text_of(value),
        ('d', Cel::Int(_) | Cel::UInt(_)) => text_of(value),
        ('d', Cel::Float(number)) if !number.is_finite() => Some(double(*number)),
        ('f' | 'e', Cel::Float(number)) if !number.is_finite() => Some(endless(*number)),
        ('f', Cel::Float(number)) => Some(grouped(&format!("{number:.precision$}"))),
        ('e', Cel::Float(number)) => Some(scientific(*number)),
        ('b', Cel::Bool(value)) => Some(u8::from(*value).to_string()),
        ('b' | 'o' | 'x' | 'X', Cel::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            Some(format!("{sign}{}", in_base(verb, number.unsigned_abs())))
        }
        ('b' | 'o' | 'x' | 'X', Cel::UInt(number)) => Some(in_base(verb, *number)),
        ('x' | 'X', Cel::String(text)) => Some(hexadecimal(verb, text.as_bytes())),
        ('x' | 'X', Cel::Bytes(bytes)) => Some(hexadecimal(verb, bytes)),
        _ => None,
    }
}

fn in_base(verb: char, number: u64) -> String {
    match verb {
        'b' => format!("{number:b}"),
        'o' => format!("{number:o}"),
        'x' => format!("{number:x}"),
        _ => format!("{number:X}"),
    }
}

fn hexadecimal(verb: char, bytes: &[u8]) -> String {
    bytes.iter().map(|byte| if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") }).collect()
}

fn endless(number: f64) -> String {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    }
    .to_owned()
}

/// A decimal number with commas between thousands, as English readers have it.
fn grouped(text: &str) -> String {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut result = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            result.push(',');
        }
        result.push(digit);
    }
    if !fraction.is_empty() {
        result.push('.');
        result.push_str(fraction);
    }
    result
}

/// A number with a power of ten, always with six digits.
fn scientific(number: f64) -> String {
    let text = format!("{number:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let power = format!("{:02}", exponent.abs());
    let power: String = power.bytes().map(|digit| RAISED[usize::from(digit - b'0') % 10]).collect();
    let sign = if exponent < 0 { "⁻" } else { "" };
    format!("{digits}×10{sign}{power}")
}

/// A value inside a list or a map is written as it would be in a rule.
fn inside(value: &Cel) -> Option<String> {
    Some(match value {
        Cel::Null => "null".to_owned(),
        Cel::String(text) => quoted(text),
        Cel::Bytes(bytes) => format!("b{}", quoted(&String::from_utf8_lossy(bytes))),
        Cel::Float(number) if number.is_finite() => format!("{number:.6}"),
        Cel::Float(number) => quoted(&double(*number)),
        Cel::Duration(_) => format!("duration({})", quoted(&text_of(value)?)),
        Cel::Timestamp(_) => format!("timestamp({})", quoted(&text_of(value)?)),
        Cel::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(inside).collect();
            format!("[{}]", items?.join(", "))
        }
        Cel::Map(map) => {
            let mut pairs = Vec::new();
            for (key, value) in map.map.iter() {
                let key = match key {
                    Key::String(text) => quoted(text),
                    Key::Int(number) => number.to_string(),
                    Key::Uint(number) => number.to_string(),
                    Key::Bool(value) => value.to_string(),
                };
                pairs.push(format!("{key}:{}", inside(value)?));
            }
            pairs.sort();
            format!("{{{}}}", pairs.join(", "))
        }
        scalar => text_of(scalar)?,
    })
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a real server writes them.
    #[test]
    fn numbers() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (123_456_789.125, "1.23456789125e+08"),
            (1e300, "1e+300"),
            (1.0 / 3.0, "0.3333333333333333"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(double(number), text);
        }
    }

    #[test]
    fn times() {
        for (given, text) in [
            ("2024-02-29T12:34:56+00:00", "2024-02-29T12:34:56Z"),
            ("2024-02-29T12:34:56.100+00:00", "2024-02-29T12:34:56.1Z"),
            ("1999-12-31T23:59:59.120-01:00", "1999-12-31T23:59:59.12-01:00"),
            ("2024-02-20T10:00:00.000+10:00", "2024-02-20T10:00:00+10:00"),
        ] {
            assert_eq!(time_of(given), text);
        }
    }

    #[test]
    fn clauses() {
        let put = |text: &str, value: Cel| format(text, &[value]);
        for (text, value, expected) in [
            ("%s%%", Cel::Int(5), "5%"),
            ("%s", Cel::Float(1.0), "1"),
            ("%f", Cel::Float(1_234_567.891), "1,234,567.891000"),
            ("%.1f", Cel::Float(-1_234_567.891), "-1,234,567.9"),
            ("%.0f", Cel::Float(2.5), "2"),
            ("%f", Cel::Float(f64::NEG_INFINITY), "-∞"),
            ("%.2e", Cel::Float(-123_456.0), "-1.234560×10⁰⁵"),
            ("%e", Cel::Float(1.5e-7), "1.500000×10⁻⁰⁷"),
            ("%e", Cel::Float(1e100), "1.000000×10¹⁰⁰"),
            ("%x", Cel::Int(-255), "-ff"),
            ("%X", Cel::String(Arc::new("ü".to_owned())), "C3BC"),
            ("%b", Cel::Int(i64::MIN), "-1000000000000000000000000000000000000000000000000000000000000000"),
            ("%b", Cel::Bool(true), "1"),
            ("%o", Cel::UInt(8), "10"),
            ("%s", Cel::List(Arc::new(vec![Cel::Float(1e6), Cel::Null])), "[1000000.000000, null]"),
            ("%s", Cel::List(Arc::new(vec![Cel::Bytes(Arc::new(b"a\"b".to_vec()))])), "[b\"a\\\"b\"]"),
        ] {
            assert_eq!(put(text, value).as_deref(), Ok(expected), "{text}");
        }
        for wrong in ["%d", "%", "%z", "%s%s", "%.s"] {
            assert!(put(wrong, Cel::String(Arc::new("a".to_owned()))).is_err(), "{wrong}");
        }
    }
}
