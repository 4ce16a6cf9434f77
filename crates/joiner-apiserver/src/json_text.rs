//! Writes JSON, byte for byte as `serde_json` does. Every object is written once and the record of its owners with it, so that
//! this is done more often than anything else; nearly all of it are short texts in which nothing has to be escaped, and those are
//! looked at in words and copied.

use serde::Serialize;
use serde_json::{Map, Value};

/// Writes a value.
pub(crate) fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => write_text(text, out),
        Value::Object(fields) => write_object(fields, out),
        Value::Array(items) => {
            out.push(b'[');
            for item in items {
                write_value(item, out);
                out.push(b',');
            }
            close(out, b'[', b']');
        }
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_slowly(number, out),
    }
}

fn write_object(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, value) in fields {
        write_name(name, out);
        write_value(value, out);
        out.push(b',');
    }
    close(out, b'{', b'}');
}

/// Writes the name of a field and the colon after it.
pub(crate) fn write_name(name: &str, out: &mut Vec<u8>) {
    write_text(name, out);
    out.push(b':');
}

/// The last comma becomes the bracket that closes.
pub(crate) fn close(out: &mut Vec<u8>, open: u8, close: u8) {
    if out.last() != Some(&open) {
        out.pop();
    }
    out.push(close);
}

/// Writes a text in quotes.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    if is_plain(text.as_bytes()) {
        out.reserve(text.len() + 2);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        write_slowly(text, out);
    }
}

fn write_slowly(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) {
    // Writing JSON into memory fails only for keys that are no strings, and there are none.
    let done = serde_json::to_writer(out, value);
    debug_assert!(done.is_ok(), "values can be written");
}

/// Whether a text has neither quotes nor backslashes nor control characters in it.
fn is_plain(text: &[u8]) -> bool {
    match text.last_chunk::<8>() {
        // The last word may overlap the one before.
        Some(last) => is_plain_word(*last) && text.as_chunks::<8>().0.iter().all(|word| is_plain_word(*word)),
        None => text.iter().all(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\')),
    }
}

fn is_plain_word(word: [u8; 8]) -> bool {
    const LOW: u64 = u64::MAX / 255;
    const HIGH: u64 = LOW << 7;
    // What is taken off a byte that is smaller shows in its highest bit; bytes beyond ASCII have that bit already, and are no match.
    let below = |word: u64, bound: u64| word.wrapping_sub(LOW * bound) & !word;
    let word = u64::from_le_bytes(word);
    let control = below(word, 0x20);
    let quote = below(word ^ (LOW * u64::from(b'"')), 1);
    let backslash = below(word ^ (LOW * u64::from(b'\\')), 1);
    (control | quote | backslash) & HIGH == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn written(value: &Value) -> String {
        let mut out = Vec::new();
        write_value(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_byte_at_every_place_is_written_as_serde_json_writes_it() {
        for letter in (0..=0xff_u8).map(char::from).chain(['ä', '\u{2028}', '😀']) {
            for before in 0..20 {
                let text = json!(format!("{}{letter}{}", "x".repeat(before), "y".repeat(3)));
                assert_eq!(written(&text), text.to_string());
            }
        }
    }

    #[test]
    fn values_are_written_as_serde_json_writes_them() {
        for value in [
            json!({}),
            json!([]),
            json!([[], {}, null, true, false, 0, -1, 1.5, 1e300, u64::MAX, i64::MIN, ""]),
            json!({"a\"b": {"c": [{"d": "e\\f"}]}, "": null}),
        ] {
            assert_eq!(written(&value), value.to_string());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text in any::<String>()) {
            let text = Value::from(text);
            prop_assert_eq!(written(&text), text.to_string());
        }
    }
}
