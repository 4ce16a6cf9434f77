//! Values of fields, and the messages that are not objects in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::wire::{Field, Wire};
use super::{message, single};

pub(super) fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
}

pub(super) fn mismatch(kind: &str) -> String {
    format!("proto: wrong wireType for a field of type {kind}")
}

/// The value of a field that is no message; nothing if its type is one.
pub(super) fn scalar(kind: &str, content: Field<'_>) -> Result<Option<Value>, String> {
    let value = match (kind, content) {
        ("string", Field::Bytes(bytes)) => text(bytes)?.into(),
        ("bytes", Field::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        ("bool", Field::Number(number)) => (number != 0).into(),
        ("int32" | "int64", Field::Number(number)) => number.cast_signed().into(),
        ("uint32" | "uint64", Field::Number(number)) => number.into(),
        ("double", Field::Eight(bytes)) => json!(f64::from_le_bytes(bytes)),
        ("float", Field::Four(bytes)) => json!(f32::from_le_bytes(bytes)),
        ("string" | "bytes" | "bool" | "int32" | "int64" | "uint32" | "uint64" | "double" | "float", _) => {
            return Err(mismatch(kind));
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Adds to a list. Several numbers may come in one field.
pub(super) fn push(
    list: &mut Vec<Value>,
    kind: &str,
    content: Field<'_>,
    depth: usize,
) -> Result<(), String> {
    if let (true, Field::Bytes(bytes)) =
        (matches!(kind, "bool" | "int32" | "int64" | "uint32" | "uint64"), content)
    {
        let mut packed = Wire::new(bytes);
        while !packed.is_empty() {
            let number = packed.number().ok_or("unexpected EOF")?;
            list.extend(scalar(kind, Field::Number(number))?);
        }
        return Ok(());
    }
    list.push(single(kind, content, depth)?);
    Ok(())
}

/// Messages that have a form of their own in JSON.
pub(super) fn special(name: &str, bytes: &[u8], depth: usize) -> Result<Option<Value>, String> {
    const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.";
    const EXTENSIONS: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.";
    let value = match name {
        "k8s.io.apimachinery.pkg.api.resource.Quantity" => match first(bytes, 1)? {
            Some(Field::Bytes(quantity)) if !quantity.is_empty() => text(quantity)?.into(),
            _ => "0".into(),
        },
        "k8s.io.apimachinery.pkg.util.intstr.IntOrString" => {
            let is_text = matches!(first(bytes, 1)?, Some(Field::Number(1)));
            match (first(bytes, 2)?, first(bytes, 3)?) {
                (_, Some(Field::Bytes(value))) if is_text => text(value)?.into(),
                (_, None) if is_text => "".into(),
                // A number of 32 bits, negative ones in all 64.
                (Some(Field::Number(number)), _) => number.cast_signed().into(),
                _ => 0.into(),
            }
        }
        "k8s.io.apimachinery.pkg.runtime.RawExtension" => raw(bytes)?,
        _ => match (name.strip_prefix(META), name.strip_prefix(EXTENSIONS)) {
            (Some("Time"), _) => time(bytes, false)?,
            (Some("MicroTime"), _) => time(bytes, true)?,
            (Some("FieldsV1"), _) => raw(bytes)?,
            (Some("Duration"), _) => match first(bytes, 1)? {
                Some(Field::Number(nanoseconds)) => format!("{}ns", nanoseconds.cast_signed()).into(),
                _ => "0s".into(),
            },
            (_, Some("JSON")) => raw(bytes)?,
            (_, Some("JSONSchemaPropsOrBool")) => match (first(bytes, 1)?, first(bytes, 2)?) {
                (_, Some(Field::Bytes(schema))) => {
                    message(&format!("{EXTENSIONS}JSONSchemaProps"), schema, depth + 1)?
                }
                (allows, _) => matches!(allows, Some(Field::Number(1))).into(),
            },
            (_, Some("JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray")) => match first(bytes, 1)? {
                Some(Field::Bytes(schema)) => {
                    message(&format!("{EXTENSIONS}JSONSchemaProps"), schema, depth + 1)?
                }
                _ => {
                    let kind = if name.ends_with("StringArray") {
                        "string".to_owned()
                    } else {
                        format!("{EXTENSIONS}JSONSchemaProps")
                    };
                    let mut list = Vec::new();
                    for field in Wire::new(bytes) {
                        if let (2, content) = field? {
                            list.push(single(&kind, content, depth)?);
                        }
                    }
                    Value::Array(list)
                }
            },
            _ => return Ok(None),
        },
    };
    Ok(Some(value))
}

fn first(bytes: &[u8], wanted: u32) -> Result<Option<Field<'_>>, String> {
    for field in Wire::new(bytes) {
        let (number, content) = field?;
        if number == wanted {
            return Ok(Some(content));
        }
    }
    Ok(None)
}

/// JSON within protobuf.
fn raw(bytes: &[u8]) -> Result<Value, String> {
    match first(bytes, 1)? {
        Some(Field::Bytes(text)) if !text.is_empty() => {
            serde_json::from_slice(text).map_err(|error| format!("json: {error}"))
        }
        _ => Ok(Value::Null),
    }
}

fn time(bytes: &[u8], micro: bool) -> Result<Value, String> {
    let number = |wanted| -> Result<i64, String> {
        Ok(match first(bytes, wanted)? {
            Some(Field::Number(number)) => number.cast_signed(),
            _ => 0,
        })
    };
    let (seconds, nanoseconds) = (number(1)?, number(2)?);
    if seconds == 0 && nanoseconds == 0 {
        return Ok(Value::Null);
    }
    let nanoseconds = i32::try_from(nanoseconds).unwrap_or(0);
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| "a time is out of range".to_owned())?;
    Ok(if micro { format!("{time:.6}").into() } else { crate::clock::format_time(time).into() })
}
