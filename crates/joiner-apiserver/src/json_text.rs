//! JSON as text, written by hand: every write of an object does it, and most of an object are short texts without anything to escape.

use serde_json::Value;

/// Writes a value as `serde_json` does.
pub(crate) fn write_value(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Null => text.extend_from_slice(b"null"),
        Value::Bool(true) => text.extend_from_slice(b"true"),
        Value::Bool(false) => text.extend_from_slice(b"false"),
        Value::Number(_) => write_json(value, text),
        Value::String(content) => write_string(content, text),
        Value::Array(items) => {
            text.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_value(item, text);
            }
            text.push(b']');
        }
        Value::Object(fields) => {
            text.push(b'{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_entry(name, value, text);
            }
            text.push(b'}');
        }
    }
}

/// Writes a member of an object.
pub(crate) fn write_entry(name: &str, value: &Value, text: &mut Vec<u8>) {
    write_string(name, text);
    text.push(b':');
    write_value(value, text);
}

fn write_string(content: &str, text: &mut Vec<u8>) {
    if needs_escapes(content.as_bytes()) {
        write_json(content, text);
        return;
    }
    text.reserve(content.len() + 2);
    text.push(b'"');
    text.extend_from_slice(content.as_bytes());
    text.push(b'"');
}

/// Whether a text has quotes, backslashes or control characters. Eight bytes are looked at in one step.
fn needs_escapes(bytes: &[u8]) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // A byte that is zero borrows from above it, which sets its high bit; those that had it set do not count.
    let has_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH != 0;
    let repeated = |byte: u8| u64::from_ne_bytes([byte; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    let in_words = words.iter().any(|word| {
        let word = u64::from_ne_bytes(*word);
        let below_space = word.wrapping_sub(repeated(b' ')) & !word & HIGH != 0;
        below_space || has_zero(word ^ repeated(b'"')) || has_zero(word ^ repeated(b'\\'))
    });
    in_words || rest.iter().any(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\')
}

fn write_json(value: &(impl serde::Serialize + ?Sized), text: &mut Vec<u8>) {
    // Writing JSON into memory fails only for keys that are no strings, and there are none.
    let done = serde_json::to_writer(text, value);
    debug_assert!(done.is_ok(), "values can be written");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn written(value: &Value) -> String {
        let mut text = Vec::new();
        write_value(value, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn values_are_written_as_json_has_them() {
        let value = json!({"a\"b": ["\n", "\\", "\u{7f}", "é", "\u{1}", ""], "n": [0, -1, 1.5, u64::MAX], "e": {}, "l": [],
            "t": [true, false, null]});
        assert_eq!(written(&value), value.to_string());
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=127_u8 {
            for place in 0..18 {
                let mut text = "abcdefghijklmnopqr".to_owned();
                text.replace_range(place..=place, &char::from(byte).to_string());
                let value = Value::from(text);
                assert_eq!(written(&value), value.to_string());
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_written_as_json_has_it(text in any::<String>()) {
            let value = Value::from(text);
            prop_assert_eq!(written(&value), value.to_string());
        }
    }
}
