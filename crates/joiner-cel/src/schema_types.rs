//! What a schema says about values before there are any: their type in CEL, and how large they can be.
//!
//! Sizes follow from the limits that the schema sets; where it sets none, from the largest request that the server reads.

use std::sync::LazyLock;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// The largest request, in bytes.
const LARGEST_REQUEST: u64 = 3 * 1024 * 1024;

/// The type of a value in CEL.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    Bool,
    Int,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    /// A list; the schema of the list.
    List(&'a Value),
    /// Names with values of one type; the schema of the map.
    Map(&'a Value),
    /// An object with fields; its schema, and whether it is a whole object with metadata.
    Object(&'a Value, bool),
    /// Anything, or nothing known.
    Open,
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// The values of a schema are whole objects, with metadata.
pub(super) fn is_embedded(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
}

/// What the type of a value with fields is called. Kubernetes makes up a name that differs every time; here equal schemas have equal ones.
pub(super) fn name_of(schema: &Value) -> String {
    format!("selfType{}", xxh3_64(schema.to_string().as_bytes()) % 1_000_000_000)
}

fn number(schema: &Value, name: &str) -> Option<u64> {
    schema.get(name).and_then(Value::as_i64).map(|number| u64::try_from(number).unwrap_or(0))
}

fn word<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The values of a map are described by a schema.
fn values_of(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|inner| inner.is_object())
}

/// The type of the values of a schema; nothing where rules cannot see them. `whole`: an object with metadata.
pub(super) fn type_of(schema: &Value, whole: bool) -> Option<Type<'_>> {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some(Type::Open);
    }
    match (word(schema, "type"), word(schema, "format")) {
        ("array", _) => {
            let items = schema.get("items")?;
            type_of(items, is_embedded(items))?;
            Some(Type::List(schema))
        }
        ("object", _) => match values_of(schema) {
            Some(values) => {
                type_of(values, is_embedded(values))?;
                Some(Type::Map(schema))
            }
            None => Some(Type::Object(schema, whole)),
        },
        ("string", "byte") => Some(Type::Bytes),
        ("string", "duration") => Some(Type::Duration),
        ("string", "date" | "date-time") => Some(Type::Timestamp),
        ("string", _) => Some(Type::Text),
        ("boolean", _) => Some(Type::Bool),
        ("number", _) => Some(Type::Double),
        ("integer", _) => Some(Type::Int),
        _ => None,
    }
}

/// What rules see of the metadata of an object.
static METADATA: LazyLock<Value> = LazyLock::new(
    || json!({"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}),
);
static TEXT: LazyLock<Value> = LazyLock::new(|| json!({"type": "string"}));

/// The schema of a field of an object, by its name in CEL.
pub(super) fn field<'a>(schema: &'a Value, whole: bool, name: &str) -> Option<&'a Value> {
    match name {
        "apiVersion" | "kind" if whole => return Some(&TEXT),
        "metadata" if whole => return Some(&METADATA),
        _ => {}
    }
    let properties = schema.get("properties")?.as_object()?;
    let named = |property: &str| names_in_rules(property).any(|own| own == name);
    let (_, property) = properties.iter().find(|(property, _)| named(property))?;
    type_of(property, is_embedded(property)).map(|_| property)
}

/// The type of a field, an element or a value.
pub(super) fn inner(schema: &Value) -> Type<'_> {
    type_of(schema, is_embedded(schema)).unwrap_or(Type::Open)
}

/// Words that cannot be names.
const KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// What the name of a property can be in a rule. Keywords may be written out.
pub(super) fn names_in_rules(name: &str) -> impl Iterator<Item = String> {
    let plain = KEYWORDS.contains(&name).then(|| name.to_owned());
    escaped(name).into_iter().chain(plain)
}

/// How the name of a property is written in a rule; nothing where it cannot be.
fn escaped(name: &str) -> Option<String> {
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.-/".contains(letter);
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || !name.chars().all(allowed)
    {
        return None;
    }
    let name = name.replace("__", "\u{0}").replace('.', "__dot__").replace('-', "__dash__");
    Some(name.replace('/', "__slash__").replace('\u{0}', "__underscores__"))
}

/// How many elements, entries or bytes a value of a schema can have.
pub(super) fn largest(schema: &Value) -> Option<u64> {
    let text = LARGEST_REQUEST - 2;
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some(number(schema, "maxLength").map_or(text, |most| most.saturating_mul(4)));
    }
    match (word(schema, "type"), word(schema, "format")) {
        ("array", _) => {
            let fitting = || text / (smallest(schema.get("items").unwrap_or(&Value::Null)) + 1);
            Some(number(schema, "maxItems").unwrap_or_else(fitting))
        }
        ("object", _) => {
            let values = values_of(schema)?;
            Some(number(schema, "maxProperties").unwrap_or_else(|| text / (smallest(values) + 6)))
        }
        ("string", "byte") => Some(number(schema, "maxLength").unwrap_or(text)),
        ("string", "duration" | "date-time") => Some(32),
        ("string", "date") => Some(12),
        ("string", _) => {
            let words = schema.get("enum").and_then(Value::as_array).filter(|words| !words.is_empty());
            Some(match (number(schema, "maxLength"), words) {
                (Some(most), _) => most.saturating_mul(4),
                (None, Some(words)) => {
                    let lengths = words.iter().filter_map(Value::as_str).map(|word| word.len() as u64);
                    lengths.max().unwrap_or(0)
                }
                (None, None) => text,
            })
        }
        ("boolean" | "number" | "integer", _) => Some(1),
        _ => None,
    }
}

/// How many bytes a value of a schema has at least when it is written.
fn smallest(schema: &Value) -> u64 {
    if flag(schema, "x-kubernetes-int-or-string") {
        return 1;
    }
    match (word(schema, "type"), word(schema, "format")) {
        ("object", _) if values_of(schema).is_none() => {
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let fields = required.filter_map(Value::as_str).filter_map(|name| {
                let property = schema.get("properties")?.get(name)?;
                type_of(property, false)?;
                let given = property.get("default").is_none();
                given.then(|| name.len() as u64 + smallest(property) + 4)
            });
            2 + fields.sum::<u64>()
        }
        ("string", "duration") => 3,
        ("string", "date") => 12,
        ("string", "date-time") => 21,
        ("boolean", _) => 4,
        ("number" | "integer", _) => 1,
        _ => 2,
    }
}

/// How many values of a schema one request can hold.
pub(super) fn most_in_a_request(schema: &Value) -> u64 {
    LARGEST_REQUEST / (smallest(schema) + 1)
}

/// How often what is directly below a place occurs for each time the place itself does; nothing where there is no limit.
pub(super) fn occurrences_below(schema: &Value) -> Option<u64> {
    match word(schema, "type") {
        "object" if schema.get("additionalProperties").is_some() => number(schema, "maxProperties"),
        "array" => number(schema, "maxItems"),
        _ => Some(1),
    }
}
