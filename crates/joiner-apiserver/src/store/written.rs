//! The text of an object: version and kind first, and known where the resource version stands.

use std::cell::RefCell;

use bytes::Bytes;
use serde_json::{Map, Value};

thread_local! {
    /// Texts are written here first: what is kept then has the very length it needs.
    static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A draft that has grown beyond this is given back.
const LONGEST_DRAFT: usize = 1 << 20;

/// The text, where the fields after kind and version begin, and where the digits of the resource version do.
pub(super) fn written(value: &Value) -> (Bytes, usize, usize) {
    let Value::Object(fields) = value else {
        return (Bytes::from(value.to_string()), 0, 0);
    };
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        let (rest_at, version_at) = write_object(fields, draft);
        let text = Bytes::copy_from_slice(draft);
        if draft.capacity() > LONGEST_DRAFT {
            *draft = Vec::new();
        }
        (text, rest_at, version_at)
    })
}

fn write_object(fields: &Map<String, Value>, draft: &mut Vec<u8>) -> (usize, usize) {
    const IDENTITY: [&str; 2] = ["apiVersion", "kind"];
    draft.push(b'{');
    for name in IDENTITY {
        if let Some(value) = fields.get(name) {
            write_entry(name, value, draft);
            draft.push(b',');
        }
    }
    let mut version_at = 0;
    let rest_at = draft.len();
    for (name, value) in fields.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())) {
        match value {
            Value::Object(metadata) if name == "metadata" => {
                draft.extend_from_slice(b"\"metadata\":{");
                for (name, value) in metadata {
                    if name == "resourceVersion" && value.is_string() {
                        version_at = draft.len() + "\"resourceVersion\":\"".len();
                    }
                    write_entry(name, value, draft);
                    draft.push(b',');
                }
                close(draft, b'{');
            }
            _ => write_entry(name, value, draft),
        }
        draft.push(b',');
    }
    close(draft, b'{');
    (rest_at.min(draft.len() - 1), version_at)
}

/// The last comma becomes the brace that closes.
fn close(draft: &mut Vec<u8>, open: u8) {
    if draft.last() != Some(&open) {
        draft.pop();
    }
    draft.push(b'}');
}

fn write_entry(name: &str, value: &Value, draft: &mut Vec<u8>) {
    write_json(name, draft);
    draft.push(b':');
    write_json(value, draft);
}

fn write_json(value: &(impl serde::Serialize + ?Sized), draft: &mut Vec<u8>) {
    // Writing JSON into memory fails only for keys that are no strings, and there are none.
    let done = serde_json::to_writer(draft, value);
    debug_assert!(done.is_ok(), "values can be written");
}
