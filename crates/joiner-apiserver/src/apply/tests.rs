//! Apply and tracking, step by step as clients do them.

use serde_json::json;

use super::*;

const THEN: &str = "2026-01-01T00:00:00Z";
const NOW: &str = "2026-01-01T00:00:05Z";

fn kind(group: &str, kind: &str) -> Option<TypeRef<'static>> {
    Schemas::builtin().kind(group, "v1", kind)
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn applied(
    live: Option<&Value>,
    config: &Value,
    manager: &str,
    force: bool,
    now: &str,
) -> Result<Value, ApplyError> {
    apply(kind("", "ConfigMap"), live, config, manager, "v1", "", force, now)
}

fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": fields})
}

#[test]
fn the_first_apply_owns_what_it_sends() {
    let object = applied(None, &config_map(json!({"k": "v"})), "m1", false, THEN).unwrap();
    assert_eq!(object["data"], json!({"k": "v"}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([entry("m1", "Apply", THEN, json!({"f:data": {"f:k": {}}}))])
    );
}

#[test]
fn an_equal_apply_changes_nothing() {
    let config = config_map(json!({"k": "v"}));
    let live = applied(None, &config, "m1", false, THEN).unwrap();
    assert_eq!(applied(Some(&live), &config, "m1", false, NOW).unwrap(), live);
}

#[test]
fn what_is_not_sent_any_more_goes() {
    let live = applied(None, &config_map(json!({"k": "v", "l": "1"})), "m1", false, THEN).unwrap();
    let object = applied(Some(&live), &config_map(json!({"l": "1"})), "m1", false, NOW).unwrap();
    assert_eq!(object["data"], json!({"l": "1"}));
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([entry("m1", "Apply", NOW, json!({"f:data": {"f:l": {}}}))])
    );

    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let object = applied(Some(&live), &bare, "m1", false, NOW).unwrap();
    assert_eq!(object, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
}

#[test]
fn a_field_of_two_stays_when_one_leaves() {
    let both = config_map(json!({"k": "v", "l": "1"}));
    let live = applied(None, &both, "m1", false, THEN).unwrap();
    let live = applied(Some(&live), &config_map(json!({"k": "v"})), "m2", false, NOW).unwrap();
    let object = applied(Some(&live), &config_map(json!({"l": "1"})), "m1", false, NOW).unwrap();
    assert_eq!(object["data"], json!({"k": "v", "l": "1"}));
}

#[test]
fn conflicts_name_manager_and_field() {
    let live = applied(None, &config_map(json!({"k": "v", "l": "1"})), "m1", false, THEN).unwrap();
    let error = applied(Some(&live), &config_map(json!({"k": "w"})), "m2", false, NOW).unwrap_err();
    assert_eq!((error.status, error.reason), (409, "Conflict"));
    assert_eq!(error.message, "Apply failed with 1 conflict: conflict with \"m1\": .data.k");
    assert_eq!(
        error.causes,
        [Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: "conflict with \"m1\"".to_owned(),
            field: ".data.k".to_owned()
        }]
    );
    let error = applied(Some(&live), &config_map(json!({"k": "w", "l": "2"})), "m2", false, NOW).unwrap_err();
    assert_eq!(error.message, "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.k\n- .data.l");

    let object = applied(Some(&live), &config_map(json!({"k": "w"})), "m2", true, NOW).unwrap();
    assert_eq!(object["data"], json!({"k": "w", "l": "1"}));
    let managers = json!([
        entry("m1", "Apply", THEN, json!({"f:data": {"f:l": {}}})),
        entry("m2", "Apply", NOW, json!({"f:data": {"f:k": {}}}))
    ]);
    assert_eq!(object["metadata"]["managedFields"], managers);
}

#[test]
fn equal_values_are_shared() {
    let live = applied(None, &config_map(json!({"k": "v"})), "m1", false, THEN).unwrap();
    let object = applied(Some(&live), &config_map(json!({"k": "v"})), "m2", false, NOW).unwrap();
    let names: Vec<&str> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
}

fn deployment(containers: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": containers}}}})
}

fn apply_deployment(live: Option<&Value>, config: &Value, manager: &str) -> Value {
    apply(kind("apps", "Deployment"), live, config, manager, "apps/v1", "", false, NOW).unwrap()
}

#[test]
fn list_elements_have_their_own_owners() {
    let live = apply_deployment(
        None,
        &deployment(json!([{"name": "c", "image": "x"}, {"name": "z", "image": "z"}])),
        "m1",
    );
    let both = apply_deployment(Some(&live), &deployment(json!([{"name": "side", "image": "s"}])), "m2");
    let containers = &both["spec"]["template"]["spec"]["containers"];
    assert_eq!(
        *containers,
        json!([{"name": "c", "image": "x"}, {"name": "z", "image": "z"}, {"name": "side", "image": "s"}])
    );
    assert_eq!(
        both["metadata"]["managedFields"][1]["fieldsV1"],
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"side\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}})
    );
    let fewer = apply_deployment(Some(&both), &deployment(json!([{"name": "c", "image": "x"}])), "m1");
    assert_eq!(
        fewer["spec"]["template"]["spec"]["containers"],
        json!([{"name": "c", "image": "x"}, {"name": "side", "image": "s"}])
    );
}

#[test]
fn defaulted_fields_go_with_their_element() {
    // What defaulting adds belongs to nobody; it goes when the element's owner drops the element.
    let mut live = apply_deployment(None, &deployment(json!([{"name": "c"}, {"name": "z"}])), "m1");
    live["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "Always".into();
    let object = apply_deployment(Some(&live), &deployment(json!([{"name": "c"}])), "m1");
    assert_eq!(object["spec"]["template"]["spec"]["containers"], json!([{"name": "c"}]));
}

#[test]
fn untyped_objects_merge_field_by_field() {
    let config =
        |spec: Value| json!({"apiVersion": "x.io/v1", "kind": "W", "metadata": {"name": "w"}, "spec": spec});
    let live = apply(None, None, &config(json!({"a": 1})), "m1", "x.io/v1", "", false, THEN).unwrap();
    let object = apply(None, Some(&live), &config(json!({"b": 1})), "m2", "x.io/v1", "", false, NOW).unwrap();
    assert_eq!(object["spec"], json!({"a": 1, "b": 1}));
}

#[test]
fn configurations_that_cannot_be_applied() {
    let mut config = config_map(json!({}));
    config["metadata"]["managedFields"] = json!([]);
    let error = applied(None, &config, "m1", false, NOW).unwrap_err();
    assert_eq!((error.status, error.message.as_str()), (400, "metadata.managedFields must be nil"));
    let error =
        apply(kind("", "ConfigMap"), None, &config_map(json!({})), "m", "v2", "", false, NOW).unwrap_err();
    assert_eq!(error.status, 400);
    let mut config = config_map(json!({}));
    config["nope"] = 1.into();
    let error = applied(None, &config, "m1", false, NOW).unwrap_err();
    assert_eq!(error.status, 500);
    assert_eq!(
        error.message,
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .nope: field not declared in schema"
    );
}

fn tracked(old: Option<&Value>, mut new: Value, manager: &str, subresource: &str, now: &str) -> Value {
    track_update(kind("", "ConfigMap"), old, &mut new, manager, "Update", "v1", subresource, now);
    new
}

#[test]
fn writes_are_recorded() {
    let created = tracked(None, config_map(json!({"k": "v"})), "golden", "", THEN);
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([entry("golden", "Update", THEN, json!({"f:data": {".": {}, "f:k": {}}}))])
    );
    let mut changed = created.clone();
    changed["data"]["l"] = "1".into();
    let changed = tracked(Some(&created), changed, "other", "", NOW);
    assert_eq!(
        changed["metadata"]["managedFields"],
        json!([
            entry("golden", "Update", THEN, json!({"f:data": {".": {}, "f:k": {}}})),
            entry("other", "Update", NOW, json!({"f:data": {"f:l": {}}}))
        ])
    );
    assert_eq!(tracked(Some(&changed), changed.clone(), "third", "", NOW), changed);
}

#[test]
fn clients_that_drop_the_record_do_not_lose_it() {
    let created = tracked(None, config_map(json!({"k": "v"})), "golden", "", THEN);
    let without = config_map(json!({"k": "v"}));
    assert_eq!(tracked(Some(&created), without.clone(), "other", "", NOW), created);
    let mut reset = without;
    reset["metadata"]["managedFields"] = json!([{}]);
    let reset = tracked(Some(&created), reset, "other", "", NOW);
    assert_eq!(reset["metadata"].get("managedFields"), None);
    let mut later = reset.clone();
    later["data"]["k"] = "w".into();
    assert_eq!(tracked(Some(&reset), later, "other", "", NOW)["metadata"].get("managedFields"), None);
}

#[test]
fn an_apply_to_an_unrecorded_object_names_the_former_owner() {
    let live = config_map(json!({"k": "v"}));
    let error = applied(Some(&live), &config_map(json!({"k": "w"})), "m1", false, NOW).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k"
    );
}

#[test]
fn status_is_recorded_only_by_its_subresource() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 1}, "status": {"replicas": 1}});
    let mut new = deployment.clone();
    track_update(kind("apps", "Deployment"), None, &mut new, "m", "Update", "apps/v1", "", NOW);
    assert_eq!(new["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    let mut later = new.clone();
    later["status"]["replicas"] = 2.into();
    track_update(kind("apps", "Deployment"), Some(&new), &mut later, "c", "Update", "apps/v1", "status", NOW);
    let entries = &later["metadata"]["managedFields"];
    assert_eq!(entries[0]["subresource"], "status");
    assert_eq!(entries[0]["fieldsV1"], json!({"f:status": {"f:replicas": {}}}));
}

#[test]
fn kubectl_takes_over_from_client_side_apply() {
    let sent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": {}}, "data": {"k": "v"}});
    let mut live = sent.clone();
    live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        format!("{sent}\n").into();
    track_update(
        kind("", "ConfigMap"),
        None,
        &mut live,
        "kubectl-client-side-apply",
        "Update",
        "v1",
        "",
        THEN,
    );

    let config = config_map(json!({"k": "w"}));
    let object = applied(Some(&live), &config, "kubectl", false, NOW).unwrap();
    assert_eq!(object["data"]["k"], "w");
    let annotation =
        object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"].as_str();
    assert_eq!(annotation, Some(format!("{config}\n").as_str()));
    assert_eq!(applied(Some(&live), &config, "other", false, NOW).unwrap_err().status, 409);
}
