//! Merging an applied configuration into the live object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::typed::{Form, element_name, form};
use crate::schema::TypeRef;

/// The live value with the configuration laid over it.
pub(super) fn merge(ty: TypeRef<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let (live, config) = match (live, config) {
        (None, only) | (only, None) => return only.cloned(),
        (Some(live), Some(config)) => (live, config),
    };
    match (form(ty, Some(config)), live, config) {
        (Form::Object, Value::Object(left), Value::Object(right))
            if !(left.is_empty() && right.is_empty()) =>
        {
            let mut merged = Map::new();
            for name in left.keys().chain(right.keys()) {
                if merged.contains_key(name) {
                    continue;
                }
                let value = match ty.field(name) {
                    Some(field) => merge(field, left.get(name), right.get(name)),
                    None => right.get(name).or_else(|| left.get(name)).cloned(),
                };
                merged.extend(value.map(|value| (name.clone(), value)));
            }
            Some(Value::Object(merged))
        }
        // An object given as null or empty leaves what is there.
        (Form::Object, Value::Object(left), Value::Null) if !left.is_empty() => Some(live.clone()),
        (Form::List, Value::Array(left), Value::Array(right)) if !(left.is_empty() && right.is_empty()) => {
            Some(Value::Array(merge_elements(ty, left, right)))
        }
        (Form::List, Value::Array(left), Value::Null) if !left.is_empty() => Some(live.clone()),
        _ => Some(config.clone()),
    }
}

/// Elements in both keep the order of the configuration; elements only in the live list stay beside their neighbours.
fn merge_elements(list: TypeRef<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let Some(element) = list.element() else { return config.to_vec() };
    let named = |items: &[Value]| -> Vec<(String, Value)> {
        items.iter().filter_map(|item| Some((element_name(list, item).ok()?, item.clone()))).collect()
    };
    let (left, right) = (named(live), named(config));
    let in_right: BTreeMap<&str, &Value> = right.iter().map(|(name, item)| (name.as_str(), item)).collect();
    // An element that is there twice is not merged with what the configuration says; it is replaced.
    let mut in_left: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
    for (name, item) in &left {
        in_left.entry(name.as_str()).and_modify(|twice| *twice = None).or_insert(Some(item));
    }
    let merged_with_left =
        |name: &str, item: &Value| merge(element, in_left.get(name).copied().flatten(), Some(item));

    let mut shared: VecDeque<&str> =
        right.iter().map(|(name, _)| name.as_str()).filter(|name| in_left.contains_key(name)).collect();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut result = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some((old, _)), Some((new, item))) = (left.get(l), right.get(r)) {
            if old == new {
                done.insert(new);
                result.extend(merged_with_left(new, item));
                (l, r) = (l + 1, r + 1);
                shared.pop_front();
                continue;
            }
            let is_next = shared.front().is_none_or(|next| next == old);
            if in_right.contains_key(old.as_str()) && !is_next {
                l += 1;
                continue;
            }
        }
        if let Some((old, item)) = left.get(l) {
            if !in_right.contains_key(old.as_str()) {
                result.push(item.clone());
                l += 1;
                continue;
            }
            if done.contains(old.as_str()) {
                l += 1;
            }
        }
        if let Some((new, item)) = right.get(r) {
            done.insert(new);
            result.extend(merged_with_left(new, item));
            r += 1;
            if shared.front() == Some(&new.as_str()) {
                shared.pop_front();
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schemas;

    fn order(live: &[&str], config: &[&str]) -> Vec<String> {
        let list = |names: &[&str]| Value::Array(names.iter().map(|name| json!({"name": name})).collect());
        let ty = Schemas::builtin().definition("io.k8s.api.core.v1.PodSpec").unwrap();
        let (live, config) = (json!({"containers": list(live)}), json!({"containers": list(config)}));
        let merged = merge(ty, Some(&live), Some(&config)).unwrap();
        let names = merged["containers"].as_array().unwrap().iter();
        names.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn elements_keep_the_order_of_the_configuration() {
        assert_eq!(order(&["a", "b"], &["b", "a"]), ["b", "a"]);
        assert_eq!(order(&["a", "b"], &["c"]), ["a", "b", "c"]);
        assert_eq!(order(&["a", "x", "b"], &["a", "n", "b"]), ["a", "x", "n", "b"]);
        assert_eq!(order(&["x", "a"], &["a", "b"]), ["x", "a", "b"]);
        assert_eq!(order(&[], &["b", "a"]), ["b", "a"]);
        assert_eq!(order(&["a", "b", "c"], &[]), ["a", "b", "c"]);
    }

    #[test]
    fn wholes_are_replaced() {
        let ty = Schemas::builtin().definition("io.k8s.api.core.v1.PodSpec").unwrap();
        let live = json!({"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}], "priority": 1});
        let config = json!({"nodeSelector": {"b": "2"}, "tolerations": [{"key": "b"}]});
        assert_eq!(
            merge(ty, Some(&live), Some(&config)).unwrap(),
            json!({"nodeSelector": {"b": "2"}, "tolerations": [{"key": "b"}], "priority": 1})
        );
    }
}
