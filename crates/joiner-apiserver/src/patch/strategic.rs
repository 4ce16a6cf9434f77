//! Strategic merge patch: a merge patch that knows which lists are merged element by element.
//!
//! The type says which lists these are and by which key their elements are found. The patch itself may carry directives:
//! `$patch: replace|delete` in a map or as a list element, `$retainKeys` beside fields, `$setElementOrder/LIST` and
//! `$deleteFromPrimitiveList/LIST` beside a list.
//!
//! Order matters to clients. Elements that the patch names keep the order of the patch (or of `$setElementOrder`), elements only the
//! server has keep the server's, and the two are merged by the server's positions.

use serde_json::{Map, Value};

use super::go_print::go_print;
use super::{PatchError, check_merge};
use crate::schema::TypeRef;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to an object of the given type.
///
/// # Errors
///
/// 400 for a patch or a directive that cannot be read, 500 for a list element without its merge key.
pub fn strategic(ty: TypeRef<'_>, doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    check_merge(patch)?;
    let (Some(doc), Some(patch)) = (doc.as_object(), patch.as_object()) else {
        return Err(PatchError::bad_request("invalid JSON document"));
    };
    merge_map(doc.clone(), patch.clone(), Some(ty)).map(Value::Object)
}

type Object = Map<String, Value>;

fn merge_map(mut original: Object, mut patch: Object, ty: Option<TypeRef<'_>>) -> Result<Object, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => {
                patch.insert(PATCH.to_owned(), directive.clone());
                Err(unknown_directive(&directive, &patch))
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, ty)?;
    for (key, value) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_FROM) {
            Some(list) => (list.to_owned(), true),
            None => (key, false),
        };
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let field = ty.and_then(|ty| ty.field(&key));
        let strategy = field.map(TypeRef::patch_strategy).unwrap_or_default();
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                Some(Value::Object(if strategy.replace { new } else { merge_map(old, new, field)? }))
            }
            (Some(Value::Array(old)), Value::Array(new)) if deletes => {
                Some(Value::Array(old.into_iter().filter(|item| !new.contains(item)).collect()))
            }
            (old, _) if deletes => old,
            (Some(Value::Array(old)), Value::Array(new)) => {
                Some(Value::Array(if strategy.merge { merge_list(old, new, field)? } else { new }))
            }
            (_, new) => without_directives(without_nulls(new)),
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

/// `$retainKeys` lists the only fields that may remain.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let refuse = || PatchError::bad_request("invalid patch format of retainKeys");
    let keys = keys.as_array().ok_or_else(refuse)?;
    let listed = |key: &str| keys.iter().any(|listed| listed.as_str() == Some(key));
    for (key, value) in patch.iter() {
        if !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER) && !listed(key) {
            return Err(refuse());
        }
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// Lists that come with `$setElementOrder` are merged here and taken out of the patch.
fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    ty: Option<TypeRef<'_>>,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else { return Err(bad_list(&order)) };
        let key = &directive[SET_ORDER.len()..];
        let field = ty.and_then(|ty| ty.field(key));
        let merge_key = field.and_then(TypeRef::patch_merge_key);
        let old = list(original.remove(key))?;
        let new = list(patch.remove(key))?;
        if let Some(new) = &new {
            check_order(new, &order, merge_key)?;
        }
        let mut server = old.clone().unwrap_or_default();
        let bare = server.is_empty() && new.as_ref().is_none_or(Vec::is_empty);
        if bare && (old.is_some() || new.is_some()) {
            return Err(PatchError::internal("no elements in any of the given slices"));
        }
        let merged = match (old, new) {
            (Some(old), None) => old,
            (None, Some(new)) => match without_directives(Value::Array(new)) {
                Some(Value::Array(new)) => new,
                _ => continue,
            },
            (Some(old), Some(new)) => {
                if field.is_some_and(|field| field.patch_strategy().merge) {
                    reuse_slots(&mut server, &new, merge_key);
                    merge_list(old, new, field)?
                } else {
                    new
                }
            }
            (None, None) => continue,
        };
        let merged = in_order(merged, &order, &server, merge_key)?;
        original.insert(key.to_owned(), Value::Array(merged));
    }
    Ok(())
}

/// Kubernetes deletes and appends in the very list whose order it asks for afterwards: a new element that takes the place of a
/// deleted one counts as having been there. Clients see the resulting order, so it is kept.
fn reuse_slots(server: &mut [Value], new: &[Value], merge_key: Option<&str>) {
    let Some(key) = merge_key else { return };
    let same = |left: &Value, right: &Value| left.get(key).is_some() && left.get(key) == right.get(key);
    let (mut used, mut replaced) = (server.len(), false);
    for item in new {
        match item.get(PATCH).and_then(Value::as_str) {
            Some("delete") => {
                while let Some(place) = server[..used].iter().position(|other| same(other, item)) {
                    server[place..used].rotate_left(1);
                    used -= 1;
                    server[used] = server[used.saturating_sub(1)].clone();
                }
            }
            Some(_) => replaced = true,
            None => {}
        }
    }
    for item in new.iter().filter(|item| item.get(PATCH).is_none() && !replaced) {
        if !server[..used.min(server.len())].iter().any(|other| same(other, item)) {
            if let Some(slot) = server.get_mut(used) {
                *slot = item.clone();
            }
            used += 1;
        }
    }
}

/// Elements of the patch must come in the order that the directive gives.
fn check_order(new: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for item in new.iter().filter(|item| item.get(PATCH).is_none()) {
        let identity = identity(item, merge_key)?;
        let found =
            rest.any(|wanted| self::identity(wanted, merge_key).is_ok_and(|wanted| wanted == identity));
        if !found {
            let (new, order) = (Value::Array(new.to_vec()), Value::Array(order.to_vec()));
            return Err(PatchError::internal(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                go_print(&new),
                go_print(&order)
            )));
        }
    }
    Ok(())
}

fn merge_list(old: Vec<Value>, new: Vec<Value>, ty: Option<TypeRef<'_>>) -> Result<Vec<Value>, PatchError> {
    let mut items = old.iter().chain(&new);
    let Some(first) = items.next() else { return Ok(old) };
    if first.is_array() {
        let message = "lists of lists are not supported";
        return Err(PatchError { status: 422, reason: "", message: message.to_owned() });
    }
    if !items.all(|item| std::mem::discriminant(item) == std::mem::discriminant(first)) {
        let both = Value::Array(vec![Value::Array(old), Value::Array(new)]);
        return Err(PatchError::internal(format!(
            "list element types are not identical: {}",
            go_print(&both)
        )));
    }
    if !first.is_object() {
        let mut merged: Vec<Value> = Vec::new();
        for item in old.iter().chain(&new) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        return in_order(merged, &new, &old, None);
    }
    let Some(key) = ty.and_then(TypeRef::patch_merge_key) else {
        let name = ty.and_then(TypeRef::element).map(TypeRef::go_name).unwrap_or_default();
        return Err(PatchError::internal(format!("cannot merge lists without merge key for {name}")));
    };
    let (old, new) = carry_out_directives(old, new, key)?;
    let element = ty.and_then(TypeRef::element);
    let mut merged = old.clone();
    for item in &new {
        let wanted = identity(item, Some(key))?;
        let place = merged.iter().position(|item| item.get(key) == Some(wanted));
        match (place, item) {
            (Some(place), Value::Object(item)) => {
                let Value::Object(before) = merged[place].take() else { continue };
                merged[place] = Value::Object(merge_map(before, item.clone(), element)?);
            }
            _ => merged.push(item.clone()),
        }
    }
    in_order(merged, &new, &old, Some(key))
}

/// Elements with `$patch` act on the whole list and are no elements themselves.
fn carry_out_directives(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in new {
        let Some(directive) = item.get(PATCH).cloned() else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = identity(&item, Some(key))?;
                old.retain(|item| item.get(key) != Some(wanted));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::internal("merging lists cannot yet be specified in the patch"));
            }
            _ => return Err(unknown_directive(&directive, item.as_object().unwrap_or(&Object::new()))),
        }
    }
    Ok(if replace { (plain, Vec::new()) } else { (old, plain) })
}

/// Merges what the patch orders with what only the server has.
fn in_order(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    for item in &merged {
        identity(item, merge_key)?;
    }
    let place = |order: &[Value], item: &Value| {
        let wanted = identity(item, merge_key).ok()?;
        order.iter().position(|other| identity(other, merge_key).is_ok_and(|other| other == wanted))
    };
    let (mut patched, mut server): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(patch_order, item).is_some());
    patched.sort_by_key(|item| place(patch_order, item));
    server.sort_by_key(|item| place(server_order, item));

    let mut result = Vec::with_capacity(patched.len() + server.len());
    let (mut patched, mut server) = (patched.into_iter().peekable(), server.into_iter().peekable());
    loop {
        let server_first = match (server.peek(), patched.peek()) {
            (None, None) => return Ok(result),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(left), Some(right)) => match (place(server_order, left), place(server_order, right)) {
                (Some(left), Some(right)) => left < right,
                _ => false,
            },
        };
        result.extend(if server_first { server.next() } else { patched.next() });
    }
}

/// What makes an element itself: its merge key, or all of it.
fn identity<'v>(item: &'v Value, merge_key: Option<&str>) -> Result<&'v Value, PatchError> {
    let Some(key) = merge_key else { return Ok(item) };
    item.get(key).ok_or_else(|| {
        PatchError::internal(format!("map: {} does not contain declared merge key: {key}", go_print(item)))
    })
}

fn list(value: Option<Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(bad_list(&other)),
    }
}

fn bad_list(found: &Value) -> PatchError {
    let found = match found {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    PatchError::internal(format!("expected a []interface {{}}, but received a {found}"))
}

fn unknown_directive(directive: &Value, patch: &Object) -> PatchError {
    let patch = go_print(&Value::Object(patch.clone()));
    PatchError::internal(format!("unknown patch type: {} in map: {patch}", go_print(directive)))
}

/// A value that replaces or is new: null means absent at any depth.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// A new value without the objects that are only directives; nothing if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::{Schemas, Shape};

    fn merges_without_key(ty: TypeRef<'_>) -> bool {
        let of_objects =
            matches!(ty.shape(), Shape::List(element) if matches!(element.shape(), Shape::Struct));
        ty.patch_strategy().merge && ty.patch_merge_key().is_none() && of_objects
    }

    fn deployment() -> Value {
        json!({"spec": {"template": {"metadata": {"labels": {"app": "d"}}, "spec": {
            "containers": [
                {"name": "a", "image": "x", "args": ["1", "2"], "env": [{"name": "E", "value": "1"}, {"name": "F", "value": "2"}],
                 "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                {"name": "b", "image": "y"}],
            "tolerations": [{"key": "k", "operator": "Exists"}]}}}})
    }

    fn patched(patch: Value) -> Value {
        let ty = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        strategic(ty, &deployment(), &patch).unwrap()
    }

    fn template(patch: Value) -> Value {
        patched(json!({"spec": {"template": {"spec": patch}}}))["spec"]["template"]["spec"].clone()
    }

    fn names(list: &Value) -> Vec<&str> {
        list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn every_merged_list_of_objects_has_a_key() {
        fn walk<'a>(ty: TypeRef<'a>, depth: usize, count: &mut usize) {
            for (name, field) in ty.fields() {
                assert!(!merges_without_key(field), "{name} of {}", ty.go_name());
                *count += 1;
                if depth > 0 {
                    walk(field, depth - 1, count);
                    field.element().into_iter().for_each(|element| walk(element, depth - 1, count));
                }
            }
        }
        let mut count = 0;
        for (group, version, kind) in Schemas::builtin().kinds() {
            walk(Schemas::builtin().kind(group, version, kind).unwrap(), 5, &mut count);
        }
        assert!(count > 10_000, "{count}");
    }

    #[test]
    fn elements_merge_by_name_and_keep_their_order() {
        let spec =
            template(json!({"containers": [{"name": "b", "image": "z"}, {"name": "n", "image": "n"}]}));
        assert_eq!(names(&spec["containers"]), ["a", "b", "n"]);
        assert_eq!(spec["containers"][1]["image"], "z");
        assert_eq!(spec["containers"][0]["image"], "x");
    }

    #[test]
    fn directives_in_lists() {
        let spec = template(json!({"containers": [{"name": "b", "$patch": "delete"}]}));
        assert_eq!(names(&spec["containers"]), ["a"]);
        let spec = template(json!({"containers": [{"name": "z", "image": "z"}, {"$patch": "replace"}]}));
        assert_eq!(spec["containers"], json!([{"name": "z", "image": "z"}]));
        let spec = template(json!({"containers": [
            {"name": "a", "env": [{"name": "E", "$patch": "delete"}, {"name": "G", "value": "3"}]}]}));
        assert_eq!(names(&spec["containers"][0]["env"]), ["G", "F"]);
    }

    #[test]
    fn directives_in_maps() {
        let doc = patched(
            json!({"spec": {"template": {"metadata": {"$patch": "replace", "labels": {"only": "1"}}}}}),
        );
        assert_eq!(doc["spec"]["template"]["metadata"], json!({"labels": {"only": "1"}}));
        let doc = patched(json!({"spec": {"template": {"metadata": {"$patch": "delete"}}}}));
        assert_eq!(doc["spec"]["template"]["metadata"], json!({}));
        let spec =
            template(json!({"containers": [{"name": "a", "args": ["9"]}], "tolerations": [{"key": "t"}]}));
        assert_eq!(spec["containers"][0]["args"], json!(["9"]));
        assert_eq!(spec["tolerations"], json!([{"key": "t"}]));
    }

    #[test]
    fn ports_merge_by_number_and_null_removes() {
        let spec = template(json!({"containers": [
            {"name": "a", "ports": [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]}], "tolerations": null}));
        assert_eq!(
            spec["containers"][0]["ports"],
            json!([{"containerPort": 80, "protocol": "TCP", "name": "web"}, {"containerPort": 81}])
        );
        assert_eq!(spec.get("tolerations"), None);
    }

    #[test]
    fn scalars_merge_and_are_deleted() {
        let ty = Schemas::builtin().kind("", "v1", "ConfigMap").unwrap();
        let doc = json!({"metadata": {"finalizers": ["a", "b"]}});
        let merged = strategic(ty, &doc, &json!({"metadata": {"finalizers": ["b", "c"]}})).unwrap();
        assert_eq!(merged["metadata"]["finalizers"], json!(["a", "b", "c"]));
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(strategic(ty, &doc, &patch).unwrap()["metadata"]["finalizers"], json!(["b"]));
    }

    #[test]
    fn the_order_directive_decides() {
        let spec = template(json!({
            "$setElementOrder/containers": [{"name": "n"}, {"name": "b"}],
            "containers": [{"name": "n", "image": "n"}]}));
        assert_eq!(names(&spec["containers"]), ["n", "a", "b"]);
        let ty = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        let wrong = json!({"spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "n", "image": "n"}]}}}});
        assert_eq!(strategic(ty, &deployment(), &wrong).unwrap_err().status, 500);
    }

    #[test]
    fn retained_keys_are_all_that_remains() {
        let ty = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        let doc = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
        assert_eq!(strategic(ty, &doc, &patch).unwrap()["spec"]["strategy"], json!({"type": "Recreate"}));
        let patch = json!({"spec": {"strategy": {"$retainKeys": ["other"], "type": "Recreate"}}});
        assert_eq!(strategic(ty, &doc, &patch).unwrap_err().status, 400);
    }

    #[test]
    fn mistakes_have_the_words_of_kubernetes() {
        let ty = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "q"}]}}}});
        let error = strategic(ty, &deployment(), &patch).unwrap_err();
        assert_eq!(error.status, 500);
        assert_eq!(error.message, "map: map[image:q] does not contain declared merge key: name");
        let error = strategic(ty, &deployment(), &json!({"spec": {"$patch": "melt"}})).unwrap_err();
        assert_eq!(error.message, "unknown patch type: melt in map: map[$patch:melt]");
        assert_eq!(strategic(ty, &deployment(), &json!([1])).unwrap_err().status, 400);
    }
}
