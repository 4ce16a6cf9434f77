//! Walking values along their type: the fields a value sets, what differs between two values, a value without some fields.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::{FieldSet, Name, field_element};
use crate::json_text;
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
    if let [key] = list.map_keys()
        && let Some(value) = item.get(key)
    {
        // Nearly every list has one key.
        let mut name = b"k:{".to_vec();
        json_text::write_name(key, &mut name);
        json_text::write_value(value, &mut name);
        name.push(b'}');
        return Ok(String::from_utf8(name).unwrap_or_default());
    }
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
    collect(ty, value).1
}

/// Whether a value sets the place it is at, and what it sets below.
fn collect(ty: TypeRef<'_>, value: &Value) -> (bool, FieldSet) {
    let mut below = FieldSet::default();
    match (form(ty, Some(value)), value) {
        (Form::Object, Value::Object(map)) => {
            for (name, value) in map {
                let Some((field, listed)) = ty.member(name) else { continue };
                let (mut itself, set) = collect(field, value);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                itself |= empty || listed.is_none();
                below.put(element(listed, name), itself, set);
            }
        }
        (Form::List, Value::Array(items)) => {
            for (name, items) in by_name(ty, items) {
                let set = match (items.as_slice(), ty.element()) {
                    ([item], Some(element)) => collect(element, item).1,
                    _ => FieldSet::default(),
                };
                below.put(name.into(), true, set);
            }
        }
        (Form::Leaf, _) => return (true, below),
        _ => {}
    }
    (false, below)
}

/// The name of a field in a set; those that a type lists have it ready.
fn element(listed: Option<&Name>, name: &str) -> Name {
    listed.cloned().unwrap_or_else(|| field_element(name).into())
}

/// Elements by name; several under one name are duplicates.
pub(super) fn by_name<'v>(list: TypeRef<'_>, items: &'v [Value]) -> BTreeMap<String, Vec<&'v Value>> {
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
    pub fn filtered(self, keep: impl Fn(FieldSet) -> FieldSet) -> Difference {
        Difference { removed: keep(self.removed), modified: keep(self.modified), added: keep(self.added) }
    }

    /// Adds what was found at an element and below it.
    fn put(&mut self, name: impl FnOnce() -> Name, marks: Marks, below: Difference) {
        let sets = [
            (&mut self.removed, marks.removed, below.removed),
            (&mut self.modified, marks.modified, below.modified),
            (&mut self.added, marks.added, below.added),
        ];
        if sets.iter().all(|(_, itself, below)| !itself && below.is_empty()) {
            return;
        }
        let name = name();
        for (set, itself, below) in sets {
            set.put(name.clone(), itself, below);
        }
    }
}

/// What happened to the very place of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    removed: bool,
    modified: bool,
    added: bool,
}

/// Compares two values of one type.
pub(super) fn difference(ty: TypeRef<'_>, old: &Value, new: &Value) -> Difference {
    let mut result = Difference::default();
    compare(ty, Some(old), Some(new), &mut result);
    result
}

/// Compares what is at one place; what differs below it goes into `below`.
fn compare(ty: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>, below: &mut Difference) -> Marks {
    let mut marks = Marks::default();
    if old == new {
        return marks;
    }
    let forms = (old.map(|value| form(ty, Some(value))), new.map(|value| form(ty, Some(value))));
    let leaf = match forms {
        (Some(before), Some(after)) if before != after => {
            compare_as(before, ty, old, None, below, &mut marks);
            compare_as(after, ty, old, new, below, &mut marks)
        }
        (Some(form), _) | (None, Some(form)) => compare_as(form, ty, old, new, below, &mut marks),
        (None, None) => true,
    };
    if !leaf {
        match (old, new) {
            (None, _) => marks.added = true,
            (_, None) => marks.removed = true,
            _ => {}
        }
    }
    marks
}

/// Compares as one form; says whether the place was taken as a whole.
fn compare_as(
    form: Form,
    ty: TypeRef<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    below: &mut Difference,
    marks: &mut Marks,
) -> bool {
    match form {
        Form::Object => {
            let (before, after) = (filled_object(old), filled_object(new));
            if before.is_none() && after.is_none() {
                return compare_leaf(old, new, marks);
            }
            for (name, old, new) in in_step(before.into_iter().flatten(), after.into_iter().flatten()) {
                let Some((field, listed)) = ty.member(name) else { continue };
                let mut inner = Difference::default();
                let marks = compare(field, old, new, &mut inner);
                below.put(|| element(listed, name), marks, inner);
            }
            false
        }
        Form::List => {
            let (before, after) = (items_of(old), items_of(new));
            if before.is_empty() && after.is_empty() {
                return compare_leaf(old, new, marks);
            }
            compare_elements(ty, before, after, below);
            false
        }
        Form::Leaf => compare_leaf(old, new, marks),
    }
}

fn filled_object(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|map| !map.is_empty())
}

fn items_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Walks two ordered maps at once.
fn in_step<'n, V>(
    before: impl Iterator<Item = (&'n String, V)>,
    after: impl Iterator<Item = (&'n String, V)>,
) -> impl Iterator<Item = (&'n str, Option<V>, Option<V>)> {
    let (mut before, mut after) = (before.peekable(), after.peekable());
    std::iter::from_fn(move || {
        let order = match (before.peek(), after.peek()) {
            (Some((old, _)), Some((new, _))) => old.cmp(new),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        let old = if order == Ordering::Greater { None } else { before.next() };
        let new = if order == Ordering::Less { None } else { after.next() };
        let name = old.as_ref().or(new.as_ref()).map(|(name, _)| name.as_str())?;
        Some((name, old.map(|(_, value)| value), new.map(|(_, value)| value)))
    })
}

fn compare_elements(list: TypeRef<'_>, before: &[Value], after: &[Value], below: &mut Difference) {
    let Some(element) = list.element() else { return };
    let (before, after) = (by_name(list, before), by_name(list, after));
    for (name, old, new) in in_step(before.iter(), after.iter()) {
        let old = old.map(Vec::as_slice).unwrap_or_default();
        let new = new.map(Vec::as_slice).unwrap_or_default();
        let mut inner = Difference::default();
        let mut marks = Marks::default();
        match (old, new) {
            // Elements with one name twice are owned together, as a whole.
            ([_, _, ..], [_, _, ..]) => marks.modified = old != new,
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    marks = compare(element, None, Some(new), &mut inner);
                }
                marks.removed = true;
            }
            (_, [_, _, ..]) => {
                if let Some(old) = old.first() {
                    marks = compare(element, Some(old), None, &mut inner);
                }
                marks.added = true;
            }
            _ => marks = compare(element, old.first().copied(), new.first().copied(), &mut inner),
        }
        below.put(|| name.into(), marks, inner);
    }
}

fn compare_leaf(old: Option<&Value>, new: Option<&Value>, marks: &mut Marks) -> bool {
    match (old, new) {
        (None, _) => marks.added = true,
        (_, None) => marks.removed = true,
        (Some(old), Some(new)) if !same(old, new) => marks.modified = true,
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
