//! The functions that the templates call.

use serde_json::{Map, Value};

use super::go_yaml;

/// Whether a condition holds: what is empty does not.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_so) => *is_so,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// A value as text.
pub fn printed(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Calls a function.
///
/// # Errors
/// There is no such function, or it makes no sense of its arguments.
pub fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let text = |value: &Value| printed(value);
    Ok(match (name, arguments) {
        ("toYaml", [value]) => Value::String(go_yaml::write(value).trim_end_matches('\n').to_owned()),
        ("toString", [value]) => Value::String(text(value)),
        ("quote", [Value::Null]) => Value::String(String::new()),
        ("quote", [value]) => Value::String(quoted(&text(value))),
        ("nindent", [Value::Number(count), value]) => {
            Value::String(format!("\n{}", indented(count.as_u64().unwrap_or(0), &text(value))))
        }
        ("indent", [Value::Number(count), value]) => {
            Value::String(indented(count.as_u64().unwrap_or(0), &text(value)))
        }
        ("default", [usual, value]) => if is_true(value) { value } else { usual }.clone(),
        ("not", [value]) => Value::Bool(!is_true(value)),
        ("eq", [a, b]) => Value::Bool(a == b),
        ("ne", [a, b]) => Value::Bool(a != b),
        ("hasKey", [Value::Object(fields), Value::String(key)]) => Value::Bool(fields.contains_key(key)),
        ("kindIs", [Value::String(kind), value]) => Value::Bool(kind_of(value) == kind),
        ("dict", pairs) if pairs.len() % 2 == 0 => {
            let pairs = pairs.chunks_exact(2).map(|pair| (text(&pair[0]), pair[1].clone()));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        ("trunc", [Value::Number(most), value]) => {
            let most = usize::try_from(most.as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
            Value::String(text(value).chars().take(most).collect())
        }
        ("trimSuffix", [ending, value]) => {
            let (ending, value) = (text(ending), text(value));
            Value::String(value.strip_suffix(&ending).unwrap_or(&value).to_owned())
        }
        ("replace", [old, new, value]) => Value::String(text(value).replace(&text(old), &text(new))),
        ("join", [between, Value::Array(items)]) => {
            Value::String(items.iter().map(text).collect::<Vec<_>>().join(&text(between)))
        }
        ("printf", [form, rest @ ..]) => Value::String(formatted(&text(form), rest)),
        ("fail", [why]) => return Err(text(why)),
        _ => return Err(format!("no function `{name}` for {} arguments of these kinds", arguments.len())),
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn indented(count: u64, text: &str) -> String {
    let blanks = " ".repeat(usize::try_from(count).unwrap_or(0));
    format!("{blanks}{}", text.replace('\n', &format!("\n{blanks}")))
}

/// As Go writes a text in quotes.
pub fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() && u32::from(letter) < 0x80 => {
                out.push_str(&format!("\\x{:02x}", u32::from(letter)));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// `%s` and `%v`, one argument after the other.
fn formatted(form: &str, arguments: &[Value]) -> String {
    let mut arguments = arguments.iter();
    let mut out = String::new();
    let mut letters = form.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '%' => match letters.next() {
                Some('s' | 'v') => out.push_str(&arguments.next().map(printed).unwrap_or_default()),
                Some(other) => out.push(other),
                None => {}
            },
            letter => out.push(letter),
        }
    }
    out
}
