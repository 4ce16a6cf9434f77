//! Walking values along their type: the fields a value sets, what differs between two values, a value without some fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, field_element};
use crate::schema::{ListType, Shape, TypeRef};

/// How a value is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One value as a whole.
    Leaf,
    /// Field by field.
    Object,
    /// Element by element.
    List,
}

/// The form of a value at a place; without a value, what the type says.
pub(super) fn form(ty: TypeRef<'_>, value: Option<&Value>) -> Form {
    match ty.shape() {
        Shape::Struct | Shape::Map(_) if ty.is_atomic() => Form::Leaf,
        Shape::Struct | Shape::Map(_) => Form::Object,
        Shape::List(_) if ty.list_type() == Some(ListType::Atomic) => Form::Leaf,
        Shape::List(_) => Form::List,
        Shape::Any if value.is_some_and(Value::is_object) && !ty.is_atomic() => Form::Object,
        _ => Form::Leaf,
    }
}

/// What names a list element: its keys, or its value.
///
/// # Errors
///
/// If the element cannot be named; the words are those of Kubernetes.
pub(super) fn element_name(list: TypeRef<'_>, item: &Value) -> Result<String, String> {
    if list.list_type() != Some(ListType::Map) {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(format!("v:{scalar}")),
        };
    }
    let Some(item) = item.as_object() else {
        let what = if item.is_null() { "a null element" } else { "non-map elements" };
        return Err(format!("associative list with keys may not have {what}"));
    };
    let mut keys = Map::new();
    for key in list.map_keys() {
        let field = list.element().and_then(|element| element.field(key));
        if let Some(value) = item.get(key).or_else(|| field.and_then(TypeRef::default_value)) {
            keys.insert(key.clone(), value.clone());
        }
    }
    if keys.is_empty() {
        let names: Vec<String> = list.map_keys().iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    Ok(format!("k:{}", Value::Object(keys)))
}

/// The places that a value sets.
pub(super) fn field_set(ty: TypeRef<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(ty, value, &mut Vec::new(), &mut set);
    set
}

fn collect(ty: TypeRef<'_>, value: &Value, path: &mut Vec<String>, set: &mut FieldSet) {
    match (form(ty, Some(value)), value) {
        (Form::Object, Value::Object(map)) => {
            for (name, value) in map {
                let Some(field) = ty.field(name) else { continue };
                path.push(field_element(name));
                collect(field, value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !ty.has_field(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Form::List, Value::Array(items)) => {
            for (name, items) in by_name(ty, items) {
                path.push(name);
                if let ([item], Some(element)) = (items.as_slice(), ty.element()) {
                    collect(element, item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        (Form::Leaf, _) => set.insert(path),
        _ => {}
    }
}

/// Elements by name; several under one name are duplicates.
fn by_name<'v>(list: TypeRef<'_>, items: &'v [Value]) -> BTreeMap<String, Vec<&'v Value>> {
    let mut named: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(name) = element_name(list, item) {
            named.entry(name).or_default().push(item);
        }
    }
    named
}

/// What differs between two values.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Difference {
    /// Without the places that a filter takes out.
    pub fn filtered(self, keep: impl Fn(&FieldSet) -> FieldSet) -> Difference {
        Difference { removed: keep(&self.removed), modified: keep(&self.modified), added: keep(&self.added) }
    }
}

/// Compares two values of one type.
pub(super) fn difference(ty: TypeRef<'_>, old: &Value, new: &Value) -> Difference {
    let mut result = Difference::default();
    compare(ty, Some(old), Some(new), &mut Vec::new(), &mut result);
    result
}

fn compare(
    ty: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    result: &mut Difference,
) {
    let forms = (old.map(|value| form(ty, Some(value))), new.map(|value| form(ty, Some(value))));
    let leaf = match forms {
        (Some(before), Some(after)) if before != after => {
            compare_as(before, ty, old, None, path, result);
            compare_as(after, ty, old, new, path, result)
        }
        (Some(form), _) | (None, Some(form)) => compare_as(form, ty, old, new, path, result),
        (None, None) => true,
    };
    if !leaf {
        match (old, new) {
            (None, _) => result.added.insert(path),
            (_, None) => result.removed.insert(path),
            _ => {}
        }
    }
}

/// Compares as one form; says whether the place was taken as a whole.
fn compare_as(
    form: Form,
    ty: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    result: &mut Difference,
) -> bool {
    let object =
        |value: Option<&'_ Value>| value.and_then(Value::as_object).filter(|map| !map.is_empty()).cloned();
    let list =
        |value: Option<&'_ Value>| value.and_then(Value::as_array).filter(|list| !list.is_empty()).cloned();
    match form {
        Form::Object => {
            let (before, after) = (object(old), object(new));
            if before.is_none() && after.is_none() {
                return compare_leaf(old, new, path, result);
            }
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let Some(field) = ty.field(name) else { continue };
                path.push(field_element(name));
                compare(field, before.get(name), after.get(name), path, result);
                path.pop();
            }
            false
        }
        Form::List => {
            let (before, after) = (list(old), list(new));
            if before.is_none() && after.is_none() {
                return compare_leaf(old, new, path, result);
            }
            let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
            compare_elements(ty, &before, &after, path, result);
            false
        }
        Form::Leaf => compare_leaf(old, new, path, result),
    }
}

fn compare_elements(
    list: TypeRef<'_>,
    before: &[Value],
    after: &[Value],
    path: &mut Vec<String>,
    result: &mut Difference,
) {
    let Some(element) = list.element() else { return };
    let (before, after) = (by_name(list, before), by_name(list, after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let old = before.get(name).map(Vec::as_slice).unwrap_or_default();
        let new = after.get(name).map(Vec::as_slice).unwrap_or_default();
        path.push(name.clone());
        match (old, new) {
            // Elements with one name twice are owned together, as a whole.
            ([_, _, ..], [_, _, ..]) => {
                if old != new {
                    result.modified.insert(path);
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    compare(element, None, Some(new), path, result);
                }
                result.removed.insert(path);
            }
            (_, [_, _, ..]) => {
                if let Some(old) = old.first() {
                    compare(element, Some(old), None, path, result);
                }
                result.added.insert(path);
            }
            _ => compare(element, old.first().copied(), new.first().copied(), path, result),
        }
        path.pop();
    }
}

fn compare_leaf(old: Option<&Value>, new: Option<&Value>, path: &[String], result: &mut Difference) -> bool {
    match (old, new) {
        (None, _) => result.added.insert(path),
        (_, None) => result.removed.insert(path),
        (Some(old), Some(new)) if !same(old, new) => result.modified.insert(path),
        _ => {}
    }
    true
}

/// Equality of values; numbers are equal if they are the same number.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => left == right,
    }
}

/// A value without some places. What becomes empty that way becomes null: its owners, if any, still own it.
pub(super) fn remove(ty: TypeRef<'_>, value: &Value, gone: &FieldSet) -> Value {
    match (form(ty, Some(value)), value) {
        (Form::Object, Value::Object(map)) => {
            let mut kept = Map::new();
            for (name, value) in map {
                let element = field_element(name);
                if gone.has(&element) {
                    continue;
                }
                let value = match (gone.below(&element), ty.field(name)) {
                    (Some(below), Some(field)) => remove(field, value, below),
                    _ => value.clone(),
                };
                kept.insert(name.clone(), value);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Form::List, Value::Array(items)) => {
            let mut kept = Vec::new();
            for item in items {
                let name = element_name(ty, item).unwrap_or_default();
                if gone.has(&name) {
                    continue;
                }
                kept.push(match (gone.below(&name), ty.element()) {
                    (Some(below), Some(element)) => remove(element, item, below),
                    _ => item.clone(),
                });
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        // Below a whole there is nothing to pick: the whole goes.
        (Form::Leaf, Value::Object(_) | Value::Array(_)) => Value::Null,
        (_, value) => value.clone(),
    }
}
