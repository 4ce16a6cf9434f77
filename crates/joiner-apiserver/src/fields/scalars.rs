//! Is a value of the form its field asks for? The answers are the words of Go's readers.

use serde_json::Number;

use super::document::Leaf;
use super::quantity;
use crate::schema::{Shape, TypeRef};

/// Checks a value that is not followed further. `mismatch` makes the message from what was found and what was wanted.
pub(super) fn check(
    ty: TypeRef<'_>,
    leaf: Leaf<'_>,
    mismatch: impl Fn(&str, &str) -> String,
) -> Result<(), String> {
    let wrong = || Err(mismatch(kind(leaf), &ty.go_name()));
    match (ty.shape(), leaf) {
        (Shape::String, Leaf::String(_))
        | (Shape::Boolean, Leaf::Bool)
        | (Shape::Number, Leaf::Number(_)) => Ok(()),
        (Shape::Int32, Leaf::Number(number)) => integer(number, i64::from(i32::MIN), i64::from(i32::MAX))
            .ok_or_else(|| mismatch(&format!("number {number}"), "int32")),
        (Shape::Int64, Leaf::Number(number)) => {
            integer(number, i64::MIN, i64::MAX).ok_or_else(|| mismatch(&format!("number {number}"), "int64"))
        }
        (Shape::IntOrString, Leaf::String(_)) => Ok(()),
        (Shape::IntOrString, Leaf::Number(number)) => {
            integer(number, i64::from(i32::MIN), i64::from(i32::MAX))
                .ok_or_else(|| format!("json: cannot unmarshal number {number} into Go value of type int32"))
        }
        (Shape::IntOrString, _) => {
            Err(format!("json: cannot unmarshal {} into Go value of type int32", kind(leaf)))
        }
        (Shape::Quantity, Leaf::String(text)) => quantity::check(text),
        (Shape::Quantity, Leaf::Number(number)) => quantity::check(&number.to_string()),
        (Shape::Quantity, _) => quantity::check(""),
        (Shape::Time, Leaf::String(text)) => time(text, false),
        (Shape::MicroTime, Leaf::String(text)) => time(text, true),
        (Shape::Time | Shape::MicroTime, _) => {
            Err(format!("json: cannot unmarshal {} into Go value of type string", kind(leaf)))
        }
        (Shape::Bytes, Leaf::String(text)) => base64(text),
        _ => wrong(),
    }
}

fn kind(leaf: Leaf<'_>) -> &'static str {
    match leaf {
        Leaf::Null => "null",
        Leaf::Bool => "bool",
        Leaf::Number(_) => "number",
        Leaf::String(_) => "string",
        Leaf::Array => "array",
        Leaf::Object => "object",
    }
}

fn integer(number: &Number, min: i64, max: i64) -> Option<()> {
    number.as_i64().filter(|value| (min..=max).contains(value)).map(|_| ())
}

fn base64(text: &str) -> Result<(), String> {
    // Line breaks are skipped, padding stands only at the end.
    let bytes: Vec<(usize, u8)> =
        text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\n' | b'\r')).collect();
    let body = bytes.iter().rev().skip_while(|(_, byte)| *byte == b'=').count();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let odd = bytes[..body].iter().find(|(_, byte)| !allowed(*byte)).map(|(place, _)| *place);
    match odd {
        Some(place) => Err(format!("illegal base64 data at input byte {place}")),
        None if !bytes.len().is_multiple_of(4) || bytes.len() - body > 2 => {
            Err(format!("illegal base64 data at input byte {}", body / 4 * 4))
        }
        None => Ok(()),
    }
}

/// RFC 3339. Microseconds must be written with exactly six decimals, whole seconds may carry any fraction.
fn time(text: &str, micro: bool) -> Result<(), String> {
    let layout = if micro { "2006-01-02T15:04:05.000000Z07:00" } else { "2006-01-02T15:04:05Z07:00" };
    let mut rest = text;
    let fail = |rest: &str, wanted: &str| {
        Err(format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}"))
    };
    for (digits, wanted, after) in
        [(4, "2006", "-"), (2, "01", "-"), (2, "02", "T"), (2, "15", ":"), (2, "04", ":"), (2, "05", "")]
    {
        let number = rest.get(..digits).filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(number) = number.and_then(|part| part.parse::<u32>().ok()) else {
            return fail(rest, wanted);
        };
        let range = match wanted {
            "01" => 1..=12,
            "02" => 1..=31,
            "15" => 0..=23,
            "04" | "05" => 0..=59,
            _ => 0..=9999,
        };
        if !range.contains(&number) {
            let name = match wanted {
                "01" => "month",
                "02" => "day",
                "15" => "hour",
                "04" => "minute",
                _ => "second",
            };
            return Err(format!("parsing time {text:?}: {name} out of range"));
        }
        rest = &rest[digits..];
        match rest.strip_prefix(after) {
            Some(next) => rest = next,
            None => return fail(rest, after),
        }
    }
    let decimals = rest.strip_prefix('.').map(|after| after.bytes().take_while(u8::is_ascii_digit).count());
    match decimals {
        Some(count) if if micro { count == 6 } else { count > 0 } => rest = &rest[count + 1..],
        None if !micro => {}
        _ if micro => return fail(rest, ".000000"),
        _ => return fail(rest, "Z07:00"),
    }
    let bytes = rest.as_bytes();
    let offset = bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && [1, 2, 4, 5].iter().all(|&place| bytes[place].is_ascii_digit());
    if rest == "Z" || offset { Ok(()) } else { fail(rest, "Z07:00") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_checked() {
        assert_eq!(base64("aGVsbG8="), Ok(()));
        assert_eq!(base64(""), Ok(()));
        assert_eq!(base64("a$b="), Err("illegal base64 data at input byte 1".to_owned()));
        assert!(base64("abc").is_err());
    }

    #[test]
    fn times_are_checked() {
        for good in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00+02:00"] {
            assert_eq!(time(good, false), Ok(()), "{good}");
        }
        for bad in ["2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", ""] {
            assert!(time(bad, false).is_err(), "{bad}");
        }
        assert_eq!(time("2026-01-01T00:00:00.000001Z", true), Ok(()));
        assert!(time("2026-01-01T00:00:00.01Z", true).is_err());
    }
}
