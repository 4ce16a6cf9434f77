//! `--edit KIND/NAME:PATH=VALUE`: setting one field of one object.
//!
//! A path is made of names, `[N]` for the N-th of a list (one past the end appends), `[key=value]` for the element of a list whose field `key`
//! is `value`, and `[name]` for a key with dots: `metadata.labels[example.com/team]`. What is missing on the way is made.

use serde_json::{Map, Value};

use super::objects::{Target, wrong};
use crate::report::InputError;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field.
    Key(String),
    /// The N-th of a list.
    Index(usize),
    /// The element of a list whose field has a value.
    Where(String, String),
}

/// What to set where.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The object.
    pub target: Target,
    /// The field.
    pub path: Vec<Step>,
    /// The field as written.
    pub written_path: String,
    /// Its new value; null removes the field.
    pub value: Value,
}

const SYNTAX: &str = "write KIND/NAME:PATH=VALUE, e.g. `nodepool/default:spec.limits.cpu=2000`";

impl Edit {
    /// Reads an edit.
    pub fn parse(text: &str, namespace: Option<&str>) -> Result<Self, InputError> {
        let fault = |message: String| wrong("--edit", text, message, SYNTAX);
        let (target, assignment) = text
            .split_once(':')
            .ok_or_else(|| fault("there is no `:` between object and field".to_owned()))?;
        let target = Target::parse("--edit", target, namespace)?;
        let equals = outside_brackets(assignment, '=')
            .ok_or_else(|| fault("there is no `=` between field and value".to_owned()))?;
        let (path, value) = (&assignment[..equals], &assignment[equals + 1..]);
        let steps = steps(path).map_err(&fault)?;
        let value = serde_saphyr::from_str::<Value>(if value.trim().is_empty() { "null" } else { value })
            .map_err(|_| fault(format!("`{value}` is not valid YAML")))?;
        Ok(Self { target, path: steps, written_path: path.to_owned(), value })
    }

    /// Sets the field; says what is in the way if it can't be done.
    pub fn apply(&self, object: &mut Value) -> Result<(), String> {
        let Some((last, way)) = self.path.split_last() else { return Ok(()) };
        let mut here = object;
        for (at, step) in way.iter().enumerate() {
            let next_is_list = !matches!(self.path[at + 1], Step::Key(_));
            here = enter(here, step, next_is_list)?;
        }
        set(here, last, self.value.clone())
    }
}

/// Where a letter stands that is not in brackets.
fn outside_brackets(text: &str, wanted: char) -> Option<usize> {
    let mut depth = 0usize;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if letter == wanted && depth == 0 => return Some(at),
            _ => {}
        }
        None
    })
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut out = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = inner.find(']').ok_or("a `[` of the path has no `]`")?;
            let token = inner[..end].trim_matches(['"', '\'']);
            out.push(match (token.parse(), token.split_once('=')) {
                (Ok(index), _) => Step::Index(index),
                (_, Some((key, value))) => Step::Where(key.to_owned(), value.to_owned()),
                _ if token.is_empty() => return Err("there is nothing between `[` and `]`".to_owned()),
                _ => Step::Key(token.to_owned()),
            });
            rest = &inner[end + 1..];
        } else {
            let dotted = rest.strip_prefix('.');
            if dotted.is_none() != out.is_empty() {
                return Err("fields of the path are separated by `.`".to_owned());
            }
            rest = dotted.unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err("a name in the path is empty".to_owned());
            }
            out.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    if out.is_empty() { Err("the path is empty".to_owned()) } else { Ok(out) }
}

fn enter<'v>(here: &'v mut Value, step: &Step, next_is_list: bool) -> Result<&'v mut Value, String> {
    let fresh = || if next_is_list { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
    let found = match step {
        Step::Key(key) => map_of(here, key)?.entry(key.clone()).or_insert(Value::Null),
        Step::Index(index) => {
            let list = list_of(here)?;
            if *index == list.len() {
                list.push(Value::Null);
            }
            let length = list.len();
            list.get_mut(*index).ok_or_else(|| too_far(*index, length))?
        }
        Step::Where(key, value) => {
            let list = list_of(here)?;
            let at = position(list, key, value)?;
            &mut list[at]
        }
    };
    // A key in brackets (`labels[a.b/c]`) follows a map, not a list: both begin as nothing and become what the next step needs.
    if found.is_null() {
        *found = fresh();
    }
    Ok(found)
}

fn set(here: &mut Value, step: &Step, value: Value) -> Result<(), String> {
    match step {
        Step::Key(key) => {
            let map = map_of(here, key)?;
            if value.is_null() {
                map.remove(key);
            } else {
                map.insert(key.clone(), value);
            }
        }
        Step::Index(index) => {
            let list = list_of(here)?;
            let length = list.len();
            if *index > length || (value.is_null() && *index == length) {
                return Err(too_far(*index, length));
            }
            place(list, *index, value);
        }
        Step::Where(key, wanted) => {
            let list = list_of(here)?;
            let at = position(list, key, wanted)?;
            place(list, at, value);
        }
    }
    Ok(())
}

fn place(list: &mut Vec<Value>, at: usize, value: Value) {
    if value.is_null() {
        list.remove(at);
    } else if at == list.len() {
        list.push(value);
    } else {
        list[at] = value;
    }
}

fn map_of<'v>(here: &'v mut Value, key: &str) -> Result<&'v mut Map<String, Value>, String> {
    let what = kind_of(here);
    here.as_object_mut().ok_or_else(|| format!("`{key}` can't be found in {what}"))
}

fn list_of(here: &mut Value) -> Result<&mut Vec<Value>, String> {
    let what = kind_of(here);
    here.as_array_mut().ok_or_else(|| format!("expected a list, but there is {what}"))
}

fn position(list: &[Value], key: &str, value: &str) -> Result<usize, String> {
    let is_it = |item: &Value| match item.get(key) {
        Some(Value::String(text)) => text == value,
        // Numbers and truth values are meant as they are written.
        Some(other) => *value == *other.to_string(),
        None => false,
    };
    list.iter().position(is_it).ok_or_else(|| format!("no element of the list has `{key}` `{value}`"))
}

fn too_far(index: usize, length: usize) -> String {
    format!("the list has {length} elements, so there is no `[{index}]`")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(text: &str) -> Result<Value, String> {
        let mut object = json!({"spec": {
            "limits": {"cpu": 10},
            "requirements": [{"key": "a.b/c", "values": ["x"]}, {"key": "d", "values": ["y", "z"]}],
            "n": 1,
        }});
        let edit = Edit::parse(&format!("nodepool/default:{text}"), None).map_err(|error| error.message)?;
        edit.apply(&mut object)?;
        Ok(object["spec"].take())
    }

    #[test]
    fn fields_are_set_made_and_removed() {
        for (text, pointer, expected) in [
            ("spec.limits.cpu=2000", "/limits/cpu", json!(2000)),
            ("spec.limits.memory=10Gi", "/limits/memory", json!("10Gi")),
            ("spec.limits[nvidia.com/gpu]=4", "/limits/nvidia.com~1gpu", json!(4)),
            ("spec.limits.cpu=null", "/limits", json!({})),
            ("spec.limits.cpu=", "/limits", json!({})),
            ("spec.requirements[0].values=[p, q]", "/requirements/0/values", json!(["p", "q"])),
            ("spec.requirements[1].values[1]=w", "/requirements/1/values/1", json!("w")),
            ("spec.requirements[1].values[2]=w", "/requirements/1/values", json!(["y", "z", "w"])),
            ("spec.requirements[key=a.b/c].values[0]=w", "/requirements/0/values/0", json!("w")),
            ("spec.requirements[key=d]=null", "/requirements", json!([{"key": "a.b/c", "values": ["x"]}])),
            ("spec.requirements[2]={key: e, operator: Exists}", "/requirements/2/key", json!("e")),
            ("spec.template.labels[a=b]=c", "", json!(null)),
            ("spec.new.deep[0].x=1", "/new/deep/0/x", json!(1)),
            ("spec.a=\"1\"", "/a", json!("1")),
        ] {
            match edited(text) {
                Ok(spec) => assert_eq!(spec.pointer(pointer), Some(&expected), "{text}: {spec}"),
                Err(_) => assert!(pointer.is_empty(), "{text}"),
            }
        }
    }

    #[test]
    fn what_is_malformed_is_named() {
        for (text, part) in [
            ("spec.limits.cpu", "no `=`"),
            ("=1", "the path is empty"),
            ("spec..cpu=1", "a name in the path is empty"),
            ("spec.requirements[0=1", "no `=`"),
            ("spec.requirements[]=1", "nothing between"),
            ("spec.requirements[7].key=x", "there is no `[7]`"),
            ("spec.requirements[key=q].key=x", "no element"),
            ("spec.n.m=1", "can't be found in a number"),
            ("spec.n[0]=1", "expected a list, but there is a number"),
            ("spec.limits.cpu=[", "not valid YAML"),
        ] {
            let error = edited(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Edit::parse("nodepool/default", None).is_err());
    }
}
