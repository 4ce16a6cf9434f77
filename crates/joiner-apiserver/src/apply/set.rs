//! Sets of fields: which places of an object somebody owns.
//!
//! A place is a path of elements; each element is kept as the text under which `FieldsV1` stores it: `f:NAME` for a field,
//! `k:{…}` for a list element by its keys, `v:…` for an element of a set. `.` in the stored form says that the place itself, and not only
//! something below it, is owned.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::schema::{Shape, TypeRef};

/// The text of a named field.
pub(super) fn field_element(name: &str) -> String {
    format!("f:{name}")
}

/// A set of places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    members: BTreeSet<String>,
    children: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// Reads the stored form. Elements of unknown kinds are left out, as Kubernetes does.
    pub fn from_fields_v1(fields: &Value) -> FieldSet {
        let mut set = FieldSet::default();
        for (element, below) in fields.as_object().into_iter().flatten() {
            if element == "." || !["f:", "k:", "v:", "i:"].iter().any(|kind| element.starts_with(kind)) {
                continue;
            }
            let element = canonical(element);
            let child = FieldSet::from_fields_v1(below);
            let itself = child.is_empty() || below.get(".").is_some();
            if itself {
                set.members.insert(element.clone());
            }
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        set
    }

    /// The stored form.
    pub fn to_fields_v1(&self) -> Value {
        let mut map: Map<String, Value> =
            self.members.iter().map(|element| (element.clone(), Value::Object(Map::new()))).collect();
        for (element, child) in &self.children {
            let mut below = match child.to_fields_v1() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if self.members.contains(element) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.clone(), Value::Object(below));
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
        self.members.is_empty() && self.children.values().all(FieldSet::is_empty)
    }

    /// Adds a place; the whole object is no place.
    pub fn insert(&mut self, path: &[String]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether the place itself is in it.
    pub fn contains(&self, path: &[String]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.contains(rest)),
        }
    }

    /// Whether the element one level down is in it.
    pub(super) fn has(&self, element: &str) -> bool {
        self.members.contains(element)
    }

    /// What is below an element, if anything.
    pub(super) fn below(&self, element: &str) -> Option<&FieldSet> {
        self.children.get(element).filter(|child| !child.is_empty())
    }

    /// Places in either.
    #[must_use]
    pub fn union(&self, other: &FieldSet) -> FieldSet {
        let mut set = self.clone();
        set.members.extend(other.members.iter().cloned());
        for (element, theirs) in &other.children {
            let ours = set.children.entry(element.clone()).or_default();
            *ours = ours.union(theirs);
        }
        set
    }

    /// Places in both.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.intersection(&other.members).cloned().collect();
        self.with_children(members, |element, ours| Some(other.children.get(element)?.intersection(ours)))
    }

    /// Places in this one only.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.difference(&other.members).cloned().collect();
        self.with_children(members, |element, ours| match other.children.get(element) {
            Some(theirs) => Some(ours.difference(theirs)),
            None => Some(ours.clone()),
        })
    }

    /// Without the places of `other` and everything below them.
    #[must_use]
    pub fn without_below(&self, other: &FieldSet) -> FieldSet {
        let members = self.members.difference(&other.members).cloned().collect();
        self.with_children(members, |element, ours| {
            if other.members.contains(element) {
                return None;
            }
            Some(
                other.children.get(element).map_or_else(|| ours.clone(), |theirs| ours.without_below(theirs)),
            )
        })
    }

    fn with_children(
        &self,
        members: BTreeSet<String>,
        child: impl Fn(&str, &FieldSet) -> Option<FieldSet>,
    ) -> FieldSet {
        let children = self.children.iter().filter_map(|(element, ours)| {
            child(element, ours).filter(|set| !set.is_empty()).map(|set| (element.clone(), set))
        });
        FieldSet { members, children: children.collect() }
    }

    /// The set with every named field on the way to a place: to remove a place is to remove an empty parent too.
    #[must_use]
    pub(super) fn with_named_parents(&self, ty: TypeRef<'_>) -> FieldSet {
        let mut set = FieldSet { members: self.members.clone(), children: BTreeMap::new() };
        for (element, child) in &self.children {
            let inner = match element.strip_prefix("f:") {
                Some(name) => {
                    if ty.has_field(name) {
                        set.members.insert(element.clone());
                    }
                    ty.field(name)
                }
                None => match ty.shape() {
                    Shape::List(inner) => Some(inner),
                    _ => None,
                },
            };
            let child = inner.map_or_else(|| child.clone(), |inner| child.with_named_parents(inner));
            set.children.insert(element.clone(), child);
        }
        set
    }

    /// All places, parents before what is below them.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all
    }

    fn collect(&self, path: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
        for element in &self.members {
            path.push(element.clone());
            all.push(path.clone());
            path.pop();
        }
        for (element, child) in &self.children {
            path.push(element.clone());
            child.collect(path, all);
            path.pop();
        }
    }
}

/// Keys and values in one spelling, so that equal elements are equal text.
fn canonical(element: &str) -> String {
    let (kind, text) = element.split_at(2);
    match serde_json::from_str::<Value>(text) {
        Ok(value) if kind == "k:" || kind == "v:" => format!("{kind}{value}"),
        _ => element.to_owned(),
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
        assert_eq!(a.without_below(&b), FieldSet::of_fields(&[&["c"]]));
        assert!(a.difference(&a).is_empty());
        assert!(a.contains(&[field_element("a"), field_element("b")]));
    }
}
