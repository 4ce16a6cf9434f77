//! The same questions to our code and to Kubernetes' own libraries, whose answers are recorded in `tests/data/peer`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use joiner_apiserver::crd::{Cause, Definition};
use joiner_apiserver::schema::{Schemas, TypeRef};
use joiner_apiserver::{apply, defaults, fields, patch};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:00:00Z";

fn recorded(name: &str) -> Vec<Value> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/peer").join(format!("{name}.jsonl.zst"));
    let text = zstd::decode_all(std::fs::File::open(file).unwrap()).unwrap();
    let lines = std::str::from_utf8(&text).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn deployment() -> TypeRef<'static> {
    Schemas::builtin().kind("apps", "v1", "Deployment").unwrap()
}

#[test]
fn strategic_patches() {
    let cases = recorded("strategic");
    assert_eq!(cases.len(), 400);
    for (number, case) in cases.iter().enumerate() {
        let answer = patch::strategic(deployment(), &case["doc"], &case["patch"]);
        let about = format!("case {number}: {} to {}", case["patch"], case["doc"]);
        match answer {
            Ok(object) => assert_eq!(object, case["result"], "{about}"),
            Err(error) => assert_eq!(error.message, case["error"], "{about}"),
        }
    }
}

#[test]
fn sequences_of_applies_and_updates() {
    let cases = recorded("apply");
    assert_eq!(cases.len(), 150);
    let (mut steps, mut conflicts) = (0, 0);
    for (number, case) in cases.iter().enumerate() {
        let mut live: Option<Value> = None;
        for step in case["steps"].as_array().unwrap() {
            steps += 1;
            let about = format!("case {number}: {} by {} of {}", step["op"], step["manager"], step["object"]);
            let manager = step["manager"].as_str().unwrap();
            let mut message = String::new();
            if step["op"] == "apply" {
                let force = step["force"] == true;
                let (old, config) = (live.as_ref(), &step["object"]);
                match apply::apply(Some(deployment()), old, config, manager, "apps/v1", "", force, NOW) {
                    Ok(object) => live = Some(object),
                    Err(error) => message = error.message,
                }
            } else {
                let mut new = step["object"].clone();
                apply::track_update(
                    Some(deployment()),
                    live.as_ref(),
                    &mut new,
                    manager,
                    "Update",
                    "apps/v1",
                    "",
                    NOW,
                );
                live = Some(new);
            }
            conflicts += usize::from(!message.is_empty());
            assert_eq!(message, step["error"].as_str().unwrap_or_default(), "{about}");
            let object = live
                .as_ref()
                .map(without_times)
                .unwrap_or(json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
            assert_eq!(object, without_times(&step["result"]), "{about}");
        }
    }
    assert!(steps > 500 && conflicts > 50, "{steps} steps, {conflicts} conflicts");
}

/// Times decide the order of managers; the recorded ones have none.
fn without_times(object: &Value) -> Value {
    let mut object = object.clone();
    let managers = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    if let Some(managers) = managers {
        for manager in managers.iter_mut() {
            manager.as_object_mut().unwrap().remove("time");
        }
        managers.sort_by_key(|manager| format!("{} {}", manager["operation"], manager["manager"]));
    }
    object
}

#[test]
fn bodies_of_built_in_kinds() {
    let cases = recorded("bodies");
    let (mut complaints, mut report) = (0, String::new());
    for case in &cases {
        let body = text(&case["body"]);
        let mut object: Value = serde_json::from_str(body).unwrap();
        let api_version = text(&object["apiVersion"]).to_owned();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = text(&object["kind"]).to_owned();
        let ty = Schemas::builtin().kind(group, version, &kind).unwrap();

        let problems = fields::check(ty, body);
        let mistyped = problems.iter().find(|problem| !problem.is_strict()).map(ToString::to_string);
        let complaint = mistyped.or_else(|| fields::strict_error(&problems)).unwrap_or_default();
        complaints += usize::from(!complaint.is_empty());
        if complaint != text(&case["error"]) {
            writeln!(report, "{body}\n  wanted {}\n  got {complaint}", case["error"]).unwrap();
        }
        if let Some(wanted) = case.get("object") {
            fields::normalize(ty, &mut object);
            defaults::apply(group, version, &kind, &mut object);
            if object != *wanted {
                writeln!(report, "{body}\n  wanted {wanted}\n  got {object}").unwrap();
            }
        }
    }
    assert_eq!(report, "");
    assert!(cases.len() == 699 && complaints > 20, "{} bodies, {complaints} complaints", cases.len());
}

fn definition(schema: &Value) -> Definition {
    // Elements of a list without keys have no old value. A server refuses a rule that asks for it; the library never ran it.
    let mut schema = schema.clone();
    if let Some(items) = schema.pointer_mut("/properties/spec/properties/plain/items") {
        items.as_object_mut().unwrap().remove("x-kubernetes-validations");
    }
    let definition = json!({"metadata": {"name": "ws.x.io"}, "spec": {
        "group": "x.io", "scope": "Cluster", "names": {"plural": "ws", "kind": "W"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    Definition::parse(&definition).unwrap()
}

#[test]
fn custom_resources() {
    let mut definitions: BTreeMap<String, Definition> = BTreeMap::new();
    let (mut objects, mut refused, mut report) = (0, 0, String::new());
    for case in recorded("custom") {
        if let Some(name) = case["define"].as_str() {
            definitions.insert(name.to_owned(), definition(&case["schema"]));
            continue;
        }
        objects += 1;
        let structural = definitions[case["use"].as_str().unwrap()].version("v1").unwrap();
        let prepared = |object: &Value| {
            let mut object = object.clone();
            let unknown = structural.prune(&mut object);
            structural.default(&mut object);
            (object, unknown)
        };
        let (new, unknown) = prepared(&case["new"]);
        let old = case.get("old").map(|old| prepared(old).0);
        let wanted: Option<Vec<String>> = serde_json::from_value(case["unknown"].clone()).unwrap();
        assert_eq!(unknown, wanted.unwrap_or_default(), "{}", case["new"]);
        assert_eq!(new, case["object"], "{}", case["new"]);

        let mut causes: Vec<String> = structural.validate(&new, old.as_ref()).iter().map(shown).collect();
        causes.retain(|cause| !cause.contains("some validation rules were not checked"));
        let recorded = case["causes"].as_array().unwrap().iter();
        let mut wanted: Vec<String> = recorded
            .map(|cause| {
                format!("{} {} {}", text(&cause["field"]), text(&cause["reason"]), text(&cause["message"]))
            })
            .collect();
        causes.sort();
        wanted.sort();
        refused += usize::from(!wanted.is_empty());
        if causes != wanted {
            writeln!(report, "{}\n  wanted {wanted:#?}\n  got {causes:#?}", case["new"]).unwrap();
        }
    }
    assert_eq!(report, "");
    assert!(objects == 950 && refused > 500, "{objects} objects, {refused} refused");
}

fn shown(cause: &Cause) -> String {
    format!("{} {} {}", cause.field, cause.reason, cause.message)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
