//! The text of an object: version and kind first, and known where the resource version stands.

use std::cell::RefCell;
use std::ops::Range;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::slim::RECORD;
use crate::json_text::{close, write_name, write_value};

thread_local! {
    /// Texts are written here first: what is kept then has the very length it needs.
    static DRAFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A draft that has grown beyond this is given back.
const LONGEST_DRAFT: usize = 1 << 20;

/// The text of an object, and what is where in it.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub text: Bytes,
    /// Where the fields after kind and version begin.
    pub rest_at: usize,
    /// Where the digits of the resource version begin; 0 if there are none.
    pub version_at: usize,
    /// Where the record of owners is, if it was handed in as text.
    pub record_at: Range<usize>,
}

/// Writes an object; `record` is the text of its `metadata.managedFields`, if that is not in it.
pub(super) fn written(value: &Value, record: Option<&[u8]>) -> Written {
    let Value::Object(fields) = value else {
        return Written { text: Bytes::from(value.to_string()), ..Written::default() };
    };
    DRAFT.with_borrow_mut(|draft| {
        draft.clear();
        let mut written = write_object(fields, record, draft);
        written.text = Bytes::copy_from_slice(draft);
        if draft.capacity() > LONGEST_DRAFT {
            *draft = Vec::new();
        }
        written
    })
}

fn write_object(fields: &Map<String, Value>, record: Option<&[u8]>, draft: &mut Vec<u8>) -> Written {
    const IDENTITY: [&str; 2] = ["apiVersion", "kind"];
    let mut written = Written::default();
    draft.push(b'{');
    for name in IDENTITY {
        if let Some(value) = fields.get(name) {
            write_entry(name, value, draft);
        }
    }
    let rest_at = draft.len();
    for (name, value) in fields.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str())) {
        match value {
            Value::Object(metadata) if name == "metadata" => {
                write_metadata(metadata, record, draft, &mut written);
            }
            _ => write_entry(name, value, draft),
        }
    }
    close(draft, b'{', b'}');
    written.rest_at = rest_at.min(draft.len() - 1);
    written
}

fn write_metadata(
    metadata: &Map<String, Value>,
    record: Option<&[u8]>,
    draft: &mut Vec<u8>,
    written: &mut Written,
) {
    draft.extend_from_slice(b"\"metadata\":{");
    let mut write_record = |record: &[u8], draft: &mut Vec<u8>| {
        write_name(RECORD, draft);
        written.record_at = draft.len()..draft.len() + record.len();
        draft.extend_from_slice(record);
        draft.push(b',');
    };
    let mut record = record;
    for (name, value) in metadata {
        if name.as_str() > RECORD
            && let Some(record) = record.take()
        {
            write_record(record, draft);
        }
        if name == "resourceVersion" && value.is_string() {
            written.version_at = draft.len() + "\"resourceVersion\":\"".len();
        }
        write_entry(name, value, draft);
    }
    if let Some(record) = record {
        write_record(record, draft);
    }
    close(draft, b'{', b'}');
    draft.push(b',');
}

/// Writes a field and the comma after it.
fn write_entry(name: &str, value: &Value, draft: &mut Vec<u8>) {
    write_name(name, draft);
    write_value(value, draft);
    draft.push(b',');
}
