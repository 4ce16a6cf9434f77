//! Definitions and their objects, with the expectations that were recorded from Kubernetes.

use serde_json::{Value, json};

use super::*;

fn definition(schema: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]}})
}

fn widgets() -> Definition {
    Definition::parse(&definition(json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "iors": {"x-kubernetes-int-or-string": true},
            "when": {"type": "string", "format": "date-time"},
            "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "rules": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
                "items": {"type": "object", "required": ["key"], "properties": {
                    "key": {"type": "string"}, "v": {"type": "integer", "default": 4}}}},
            "nul": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}}}},
        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}})))
    .unwrap()
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

fn causes(definition: &Definition, new: &Value, old: Option<&Value>) -> Vec<String> {
    let causes = definition.version("v1").unwrap().validate(new, old);
    causes.into_iter().map(|cause| format!("{} {}: {}", cause.reason, cause.field, cause.message)).collect()
}

fn spec_causes(spec: Value) -> Vec<String> {
    causes(&widgets(), &widget(spec), None)
}

#[test]
fn pruning_and_defaulting() {
    let definition = widgets();
    let structural = definition.version("v1").unwrap();
    let mut object =
        widget(json!({"size": 1, "unknown": 2, "rules": [{"key": "a", "x": 1}], "free": {"x": {"y": 1}},
        "nul": null, "name": null, "m": {"a": null}}));
    object["extra"] = 1.into();
    object["metadata"]["bogus"] = 1.into();
    assert_eq!(structural.prune(&mut object), ["extra", "metadata.bogus", "spec.rules[0].x", "spec.unknown"]);
    structural.default(&mut object);
    assert_eq!(
        object,
        widget(
            json!({"color": "red", "free": {"x": {"y": 1}}, "nul": null, "rules": [{"key": "a", "v": 4}], "size": 1, "m": {}})
        )
    );
    assert_eq!(causes(&definition, &object, None), Vec::<String>::new());
}

#[test]
fn values_are_judged_in_the_words_of_kubernetes() {
    assert_eq!(spec_causes(json!({})), ["FieldValueRequired spec.size: Required value"]);
    let mut bare = widget(json!({}));
    bare.as_object_mut().unwrap().remove("spec");
    assert_eq!(causes(&widgets(), &bare, None), ["FieldValueRequired spec: Required value"]);
    assert_eq!(
        spec_causes(json!({"size": "big"})),
        [
            "FieldValueTypeInvalid spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""
        ]
    );
    assert_eq!(
        spec_causes(json!({"size": 0})),
        [
            "FieldValueInvalid spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
        ]
    );
    assert_eq!(
        spec_causes(json!({"size": 1, "color": "green"})),
        [
            "FieldValueNotSupported spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""
        ]
    );
    assert_eq!(
        spec_causes(json!({"size": 1, "name": "ABCD"})),
        ["FieldValueTooLong spec.name: Too long: may not be more than 3 bytes"]
    );
    assert_eq!(
        spec_causes(json!({"size": 1, "when": "yesterday"})),
        [
            "FieldValueTypeInvalid spec.when: Invalid value: \"yesterday\": spec.when in body must be of type date-time: \"yesterday\""
        ]
    );
    assert_eq!(
        spec_causes(json!({"size": 1, "tags": ["a", "b", "c"]})),
        ["FieldValueTooMany spec.tags: Too many: 3: must have at most 2 items"]
    );
    assert_eq!(spec_causes(json!({"size": 1, "iors": "50%"})), Vec::<String>::new());
    assert_eq!(spec_causes(json!({"size": 1, "iors": 5})), Vec::<String>::new());
    assert_eq!(spec_causes(json!({"size": 1, "iors": true})).len(), 1);
    assert_eq!(spec_causes(json!({"size": 1, "m": {"a": "x"}})).len(), 1);
}

#[test]
fn list_elements_are_distinct() {
    assert_eq!(
        spec_causes(json!({"size": 1, "tags": ["a", "a"]})),
        ["FieldValueDuplicate spec.tags[1]: Duplicate value: \"a\""]
    );
    assert_eq!(
        spec_causes(json!({"size": 1, "rules": [{"key": "a"}, {"key": "a"}]})),
        ["FieldValueDuplicate spec.rules[1]: Duplicate value: {\"key\":\"a\"}"]
    );
}

#[test]
fn unchanged_values_are_not_judged_again() {
    let old = widget(json!({"size": 99, "color": "red"}));
    let new = widget(json!({"size": 99, "color": "blue"}));
    assert_eq!(causes(&widgets(), &new, Some(&old)), Vec::<String>::new());
    assert_eq!(causes(&widgets(), &widget(json!({"size": 98})), Some(&old)).len(), 1);
}

fn ruled() -> Definition {
    Definition::parse(&definition(json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {
            "a": {"type": "integer"}, "b": {"type": "integer"},
            "id": {"type": "string", "maxLength": 20,
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "id is immutable"}]},
            "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9},
                "x-kubernetes-validations": [{"rule": "self.all(x, x.startsWith('k'))", "messageExpression": "'first is ' + self[0]"}]}},
        "x-kubernetes-validations": [
            {"rule": "!has(self.a) || !has(self.b) || self.a <= self.b", "message": "a must not exceed b", "fieldPath": ".a",
                "reason": "FieldValueForbidden"},
            {"rule": "!has(self.b) || self.b != 13"},
            {"rule": "has(self.a) == has(oldSelf.a)", "message": "a is all or nothing"}]}}})))
    .unwrap()
}

#[test]
fn rules_speak_as_kubernetes_does() {
    let of = |spec: Value, old: Option<Value>| causes(&ruled(), &widget(spec), old.map(widget).as_ref());
    assert_eq!(
        of(json!({"b": 13}), None),
        ["FieldValueInvalid spec: Invalid value: failed rule: !has(self.b) || self.b != 13"]
    );
    assert_eq!(of(json!({"l": ["k1", "x"]}), None), ["FieldValueInvalid spec.l: Invalid value: first is k1"]);
    assert_eq!(
        of(json!({"a": 2, "b": 1}), None),
        ["FieldValueForbidden spec.a: Forbidden: a must not exceed b"]
    );
    assert_eq!(
        of(json!({"id": "two"}), Some(json!({"id": "one"}))),
        ["FieldValueInvalid spec.id: Invalid value: \"two\": id is immutable"]
    );
    assert_eq!(of(json!({"b": 1, "id": "two"}), Some(json!({"b": 1}))), Vec::<String>::new());
    assert_eq!(
        of(json!({"a": 1}), Some(json!({}))),
        ["FieldValueInvalid spec: Invalid value: a is all or nothing"]
    );
    assert_eq!(of(json!({"b": 13}), Some(json!({"b": 13}))), Vec::<String>::new());
}

#[test]
fn faults_of_the_schema_come_before_rules() {
    let causes = causes(&ruled(), &widget(json!({"a": "x", "b": 13})), None);
    assert_eq!(causes.len(), 2, "{causes:?}");
    assert!(
        causes[1].starts_with(
            "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked"
        )
    );
}

#[test]
fn definitions_are_judged() {
    let mut wrong = definition(json!({"type": "object"}));
    wrong["metadata"]["name"] = "other.example.com".into();
    let causes = Definition::parse(&wrong).unwrap_err();
    assert_eq!(
        causes,
        [Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: "Invalid value: \"other.example.com\": must be spec.names.plural+\".\"+spec.group"
                .to_owned(),
            field: "metadata.name".to_owned()
        }]
    );
    let fields = |schema: Value| -> Vec<String> {
        Definition::parse(&definition(schema)).unwrap_err().into_iter().map(|cause| cause.field).collect()
    };
    let at = "spec.validation.openAPIV3Schema";
    assert_eq!(fields(json!({})), [format!("{at}.type")]);
    assert_eq!(
        fields(json!({"type": "object", "properties": {"a": {}}})),
        [format!("{at}.properties[a].type")]
    );
    assert_eq!(
        fields(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.(("}]})),
        [format!("{at}.x-kubernetes-validations[0].rule")]
    );
    let mut two = definition(json!({"type": "object"}));
    two["spec"]["versions"][0]["storage"] = false.into();
    assert_eq!(Definition::parse(&two).unwrap_err()[0].field, "spec.versions");
}

#[test]
fn combinations() {
    let definition =
        Definition::parse(&definition(json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}}})))
        .unwrap();
    assert_eq!(causes(&definition, &widget(json!({"x": 1})), None), Vec::<String>::new());
    assert_eq!(
        causes(&definition, &widget(json!({"x": 1, "y": 1})), None),
        [
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        ]
    );
    assert_eq!(causes(&definition, &widget(json!({})), None).len(), 2);
}

#[test]
fn apply_follows_the_schema() {
    let definition = widgets();
    let ty = definition.version("v1").unwrap().type_ref();
    let apply = |live: Option<&Value>, spec: Value, manager: &str| {
        crate::apply::apply(
            Some(ty),
            live,
            &widget(spec),
            manager,
            "example.com/v1",
            "",
            false,
            "2026-01-01T00:00:00Z",
        )
        .unwrap()
    };
    let live =
        apply(None, json!({"size": 1, "rules": [{"key": "a"}], "tags": ["x"], "free": {"p": 1}}), "m1");
    let live = apply(Some(&live), json!({"rules": [{"key": "b"}], "tags": ["y"], "free": {"q": 1}}), "m2");
    assert_eq!(
        live["spec"],
        json!({"size": 1, "rules": [{"key": "a"}, {"key": "b"}], "tags": ["x", "y"], "free": {"p": 1, "q": 1}})
    );
    let live = apply(Some(&live), json!({"size": 1}), "m1");
    assert_eq!(live["spec"], json!({"size": 1, "rules": [{"key": "b"}], "tags": ["y"], "free": {"q": 1}}));
}
