//! Sets of fields: which places of an object somebody owns.
//!
//! A place is a path of elements; each element is kept as the text under which `FieldsV1` stores it: `f:NAME` for a field,
//! `k:{…}` for a list element by its keys, `v:…` for an element of a set. `.` in the stored form says that the place itself, and not only
//! something below it, is owned.
//!
//! A set is a tree of ordered lists: it is built in order, and two sets are put together by walking both at once.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::schema::{Shape, TypeRef};

/// The text of an element.
pub(super) type Name = Arc<str>;

/// The text of a named field.
pub(super) fn field_element(name: &str) -> String {
    ["f:", name].concat()
}

/// A set of places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// In the order of their names. Each stands for something: itself, or places below it.
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: Name,
    /// Whether the place itself is in the set.
    itself: bool,
    below: FieldSet,
}

impl FieldSet {
    /// Reads the stored form. Elements of unknown kinds are left out, as Kubernetes does.
    pub fn from_fields_v1(fields: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        for (element, below) in fields.as_object().into_iter().flatten() {
            if element == "." || !["f:", "k:", "v:", "i:"].iter().any(|kind| element.starts_with(kind)) {
                continue;
            }
            let child = FieldSet::from_fields_v1(below);
            let itself = child.is_empty() || below.get(".").is_some();
            set.put(canonical(element), itself, child);
        }
        set
    }

    /// The stored form.
    pub fn to_fields_v1(&self) -> Value {
        let mut map = Map::new();
        for entry in &self.entries {
            let mut below = match entry.below.to_fields_v1() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if entry.itself && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(String::from(&*entry.name), Value::Object(below));
        }
        Value::Object(map)
    }

    /// A set of paths of plain field names.
    pub(super) fn of_fields(paths: &[&[&str]]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            let path: Vec<String> = path.iter().map(|name| field_element(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, element: &str) -> Option<&Entry> {
        let place = self.entries.binary_search_by(|entry| (*entry.name).cmp(element)).ok()?;
        self.entries.get(place)
    }

    /// Adds an element and what is below it to what is there. Cheap when it comes after all others.
    pub(super) fn put(&mut self, name: Name, itself: bool, below: FieldSet) {
        if !itself && below.is_empty() {
            return;
        }
        if self.entries.last().is_none_or(|last| *last.name < *name) {
            self.entries.push(Entry { name, itself, below });
            return;
        }
        match self.entries.binary_search_by(|entry| (*entry.name).cmp(&name)) {
            Ok(place) => {
                let entry = &mut self.entries[place];
                entry.itself |= itself;
                entry.below = std::mem::take(&mut entry.below).plus(below);
            }
            Err(place) => self.entries.insert(place, Entry { name, itself, below }),
        }
    }

    /// Adds a place; the whole object is no place.
    pub fn insert(&mut self, path: &[String]) {
        if let [first, rest @ ..] = path {
            let mut below = FieldSet::default();
            below.insert(rest);
            self.put(first.as_str().into(), rest.is_empty(), below);
        }
    }

    /// Whether the place itself is in it.
    pub fn contains(&self, path: &[String]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.find(first).is_some_and(|entry| entry.below.contains(rest)),
        }
    }

    /// Whether the element one level down is in it.
    pub(super) fn has(&self, element: &str) -> bool {
        self.find(element).is_some_and(|entry| entry.itself)
    }

    /// What is below an element, if anything.
    pub(super) fn below(&self, element: &str) -> Option<&FieldSet> {
        self.find(element).map(|entry| &entry.below).filter(|below| !below.is_empty())
    }

    /// Places in either.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        self.clone().plus(other.clone())
    }

    /// As [`FieldSet::union`], of sets that nobody needs any more.
    #[must_use]
    pub(super) fn plus(self, other: FieldSet) -> FieldSet {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut entries = Vec::with_capacity(self.entries.len() + other.entries.len());
        let (mut ours, mut theirs) =
            (self.entries.into_iter().peekable(), other.entries.into_iter().peekable());
        loop {
            let order = match (ours.peek(), theirs.peek()) {
                (Some(our), Some(their)) => our.name.cmp(&their.name),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return FieldSet { entries },
            };
            let (our, their) = match order {
                Ordering::Less => (ours.next(), None),
                Ordering::Greater => (None, theirs.next()),
                Ordering::Equal => (ours.next(), theirs.next()),
            };
            match (our, their) {
                (Some(our), Some(their)) => entries.push(Entry {
                    name: our.name,
                    itself: our.itself || their.itself,
                    below: our.below.plus(their.below),
                }),
                (one, other) => entries.extend(one.or(other)),
            }
        }
    }

    /// Places in both.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet::default();
        for our in &self.entries {
            if let Some(their) = other.find(&our.name) {
                set.put(our.name.clone(), our.itself && their.itself, our.below.intersection(&their.below));
            }
        }
        set
    }

    /// Places in this one only.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.clone().minus(other)
    }

    /// As [`FieldSet::difference`], of a set that nobody needs any more.
    #[must_use]
    pub(super) fn minus(mut self, other: &FieldSet) -> FieldSet {
        if !other.is_empty() {
            self.entries.retain_mut(|our| match other.find(&our.name) {
                Some(their) => {
                    our.itself &= !their.itself;
                    our.below = std::mem::take(&mut our.below).minus(&their.below);
                    our.itself || !our.below.is_empty()
                }
                None => true,
            });
        }
        self
    }

    /// Without the places of `other` and everything below them.
    #[must_use]
    pub fn without_below(mut self, other: &FieldSet) -> FieldSet {
        self.entries.retain_mut(|our| match other.find(&our.name) {
            Some(their) if their.itself => false,
            Some(their) => {
                our.below = std::mem::take(&mut our.below).without_below(&their.below);
                our.itself || !our.below.is_empty()
            }
            None => true,
        });
        self
    }

    /// The set with every named field on the way to a place: to remove a place is to remove an empty parent too.
    #[must_use]
    pub(super) fn with_named_parents(&self, ty: TypeRef<'_>) -> FieldSet {
        let entries = self.entries.iter().map(|entry| {
            if entry.below.is_empty() {
                return entry.clone();
            }
            let mut itself = entry.itself;
            let inner = match entry.name.strip_prefix("f:") {
                Some(name) => {
                    itself |= ty.has_field(name);
                    ty.field(name)
                }
                None => match ty.shape() {
                    Shape::List(inner) => Some(inner),
                    _ => None,
                },
            };
            let below =
                inner.map_or_else(|| entry.below.clone(), |inner| entry.below.with_named_parents(inner));
            Entry { name: entry.name.clone(), itself, below }
        });
        FieldSet { entries: entries.collect() }
    }

    /// All places, parents before what is below them.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
        for entry in self.entries.iter().filter(|entry| entry.itself) {
            path.push(entry.name.to_string());
            all.push(path.clone());
            path.pop();
        }
        for entry in &self.entries {
            path.push(entry.name.to_string());
            entry.below.collect(path, all);
            path.pop();
        }
    }
}

/// Keys and values in one spelling, so that equal elements are equal text.
fn canonical(element: &str) -> Name {
    let (kind, text) = element.split_at(2);
    if kind != "k:" && kind != "v:" {
        return element.into();
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) => format!("{kind}{value}").into(),
        _ => element.into(),
    }
}

/// A path as messages show it: `.spec.containers[name="c"].image`.
pub fn display_path(path: &[String]) -> String {
    path.iter().map(|element| display_element(element)).collect()
}

/// One element as messages show it.
pub(super) fn display_element(element: &str) -> String {
    let (kind, text) = element.split_at(2);
    match kind {
        "k:" => match serde_json::from_str(text) {
            Ok(Value::Object(keys)) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("[{}]", keys.join(","))
            }
            _ => format!("[{text}]"),
        },
        "v:" => format!("[={text}]"),
        "i:" => format!("[{text}]"),
        _ => format!(".{text}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_stored_form_comes_back() {
        let stored = json!({"f:spec": {"f:template": {".": {}, "f:containers": {
            ".": {}, "k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}}}}, "f:replicas": {}},
            "f:metadata": {"f:finalizers": {"v:\"x.io/y\"": {}}}});
        assert_eq!(FieldSet::from_fields_v1(&stored).to_fields_v1(), stored);
    }

    #[test]
    fn keys_have_one_spelling() {
        let one = FieldSet::from_fields_v1(&json!({"k:{\"b\": 1, \"a\":\"x\"}": {}}));
        let other = FieldSet::from_fields_v1(&json!({"k:{\"a\":\"x\",\"b\":1}": {}}));
        assert_eq!(one, other);
        assert_eq!(display_path(&one.paths()[0]), "[a=\"x\",b=1]");
    }

    #[test]
    fn sets_are_sets() {
        let a = FieldSet::of_fields(&[&["a"], &["a", "b"], &["c"]]);
        let b = FieldSet::of_fields(&[&["a"], &["d"]]);
        assert_eq!(a.union(&b), FieldSet::of_fields(&[&["a"], &["a", "b"], &["c"], &["d"]]));
        assert_eq!(a.intersection(&b), FieldSet::of_fields(&[&["a"]]));
        assert_eq!(a.difference(&b), FieldSet::of_fields(&[&["a", "b"], &["c"]]));
        assert_eq!(a.clone().without_below(&b), FieldSet::of_fields(&[&["c"]]));
        assert!(a.difference(&a).is_empty());
        assert!(a.contains(&[field_element("a"), field_element("b")]));
    }
}
