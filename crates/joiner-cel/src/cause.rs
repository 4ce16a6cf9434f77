//! One reason why an object is refused.

use serde_json::Value;

/// One thing wrong with an object, as it stands in `details.causes` of a `Status`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueRequired`.
    pub reason: String,
    /// The message, without the field.
    pub message: String,
    /// The path of the field; `<nil>` for the object as a whole.
    pub field: String,
}

impl Cause {
    fn new(reason: &str, field: &str, message: String) -> Cause {
        let field = if field.is_empty() { "<nil>" } else { field };
        Cause { reason: reason.to_owned(), message, field: field.to_owned() }
    }

    /// The field is missing.
    pub fn required(field: &str, detail: &str) -> Cause {
        Cause::new("FieldValueRequired", field, with_detail("Required value", detail))
    }

    /// The value is wrong, and shown.
    pub fn invalid(field: &str, value: &Value, detail: &str) -> Cause {
        Cause::new("FieldValueInvalid", field, with_detail(&format!("Invalid value: {value}"), detail))
    }

    /// The value is wrong, and shown in a form of its own.
    pub fn invalid_shown(field: &str, shown: &str, detail: &str) -> Cause {
        Cause::new("FieldValueInvalid", field, with_detail(&format!("Invalid value: {shown}"), detail))
    }

    /// The value is wrong, and too large to be shown.
    pub fn invalid_omitted(field: &str, detail: &str) -> Cause {
        Cause::new("FieldValueInvalid", field, with_detail("Invalid value", detail))
    }

    /// The value is of the wrong type.
    pub fn type_invalid(field: &str, value: &Value, detail: &str) -> Cause {
        Cause::new("FieldValueTypeInvalid", field, with_detail(&format!("Invalid value: {value}"), detail))
    }

    /// The value may not be there.
    pub fn forbidden(field: &str, detail: &str) -> Cause {
        Cause::new("FieldValueForbidden", field, with_detail("Forbidden", detail))
    }

    /// The value is there already.
    pub fn duplicate(field: &str, value: Option<&Value>) -> Cause {
        let message = match value {
            Some(value) => format!("Duplicate value: {value}"),
            None => "Duplicate value".to_owned(),
        };
        Cause::new("FieldValueDuplicate", field, message)
    }

    /// The value is none of the allowed ones.
    pub fn not_supported(field: &str, value: &Value, supported: &[Value]) -> Cause {
        let supported: Vec<String> = supported
            .iter()
            .map(|value| match value {
                Value::String(text) => format!("{text:?}"),
                other => format!("{:?}", other.to_string()),
            })
            .collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Cause::new("FieldValueNotSupported", field, format!("Unsupported value: {value}: {detail}"))
    }

    /// The text is too long.
    pub fn too_long(field: &str, max: u64) -> Cause {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        Cause::new("FieldValueTooLong", field, format!("Too long: may not be more than {max} {bytes}"))
    }

    /// There are too many elements or keys.
    pub fn too_many(field: &str, actual: usize, max: u64) -> Cause {
        let items = if max == 1 { "item" } else { "items" };
        Cause::new("FieldValueTooMany", field, format!("Too many: {actual}: must have at most {max} {items}"))
    }

    /// Whether CEL rules are not tried on an object with this fault.
    pub fn blocks_rules(&self) -> bool {
        let blocking = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        blocking.contains(&self.reason.as_str())
    }
}

/// Joins a path and a field name.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn with_detail(message: &str, detail: &str) -> String {
    if detail.is_empty() { message.to_owned() } else { format!("{message}: {detail}") }
}
