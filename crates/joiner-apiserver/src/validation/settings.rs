//! Rules of config maps and secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::place::{Place, text};
use crate::rest::{Cause, complaint_about_json};

/// All values together may have so many bytes.
const LARGEST: usize = 1024 * 1024;
const LONGEST_KEY: usize = 253;
const KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Judges a config map, new or changed.
pub(super) fn config_map(object: &Value, causes: &mut Vec<Cause>) {
    let (plain, binary) = (entries(object, "data"), entries(object, "binaryData"));
    let mut size = 0;
    let at = Place::Start("data");
    for (key, value) in plain.into_iter().flatten() {
        check_key(key, at, causes);
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let detail = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(at.key(key), &json!(key), detail));
        }
        size += text(value).len();
    }
    for (key, value) in binary.into_iter().flatten() {
        check_key(key, Place::Start("binaryData"), causes);
        size += decoded_length(text(value));
    }
    if size > LARGEST {
        // The whole object is at fault: the field has no name, and that is how it is shown.
        causes.push(Cause::too_long("[]", LARGEST));
    }
}

/// Judges a secret, new or changed.
pub(super) fn secret(object: &Value, causes: &mut Vec<Cause>) {
    let at = Place::Start("data");
    let data = entries(object, "data");
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        check_key(key, at, causes);
        size += decoded_length(text(value));
    }
    if size > LARGEST {
        causes.push(Cause::too_long(at, LARGEST));
    }
    let value = |key: &str| data.and_then(|data| data.get(key)).map(text);
    let require = |key: &str, causes: &mut Vec<Cause>| {
        if value(key).is_none() {
            causes.push(Cause::required(at.key(key), ""));
        }
    };
    match text(&object["type"]) {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if text(&object["metadata"]["annotations"][ACCOUNT]).is_empty() {
                causes.push(Cause::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => json_object(value(".dockercfg"), at.key(".dockercfg"), causes),
        "kubernetes.io/dockerconfigjson" => {
            json_object(value(".dockerconfigjson"), at.key(".dockerconfigjson"), causes);
        }
        "kubernetes.io/basic-auth" if value("username").or(value("password")).is_none() => {
            require("username", causes);
            require("password", causes);
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").is_none_or(str::is_empty) => {
            causes.push(Cause::required(at.key("ssh-privatekey"), ""));
        }
        "kubernetes.io/tls" => {
            require("tls.crt", causes);
            require("tls.key", causes);
        }
        _ => {}
    }
}

fn entries<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    object.get(field).and_then(Value::as_object)
}

/// How many bytes a text in base64 stands for.
fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    text.len() / 4 * 3 - padding.min(2)
}

fn check_key(key: &str, of: Place<'_>, causes: &mut Vec<Cause>) {
    check_key_at(key, of.key(key), causes);
}

/// Judges a key of a config map or a secret, wherever it is named.
pub(super) fn check_key_at(key: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut refuse = |detail: &str| causes.push(Cause::invalid(place, &json!(key), detail));
    if key.len() > LONGEST_KEY {
        refuse(&format!("must be no more than {LONGEST_KEY} characters"));
    }
    let allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    if key.is_empty() || !key.bytes().all(allowed) {
        refuse(KEY);
    }
    // Keys become files in volumes.
    match key {
        "." => refuse("must not be '.'"),
        ".." => refuse("must not be '..'"),
        _ if key.starts_with("..") => refuse("must not start with '..'"),
        _ => {}
    }
}

/// Judges a value that must be a JSON object. What is in it is not told: it is secret.
fn json_object(value: Option<&str>, place: Place<'_>, causes: &mut Vec<Cause>) {
    let Some(value) = value else {
        causes.push(Cause::required(place, ""));
        return;
    };
    let bytes = STANDARD.decode(value).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let complaint = match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let kind = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(_) => complaint_about_json(&text),
    };
    causes.push(Cause::invalid(place, &json!("<secret contents redacted>"), &complaint));
}

/// What of a secret or a config map may not change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = |object: &Value| object.get("type").cloned().unwrap_or_default();
    if kind(old) != kind(new) {
        causes.push(Cause::invalid("type", &kind(new), "field is immutable"));
    }
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return causes;
    }
    let detail = "field is immutable when `immutable` is set";
    if new.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", detail));
    }
    for field in ["data", "binaryData"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::forbidden(field, detail));
        }
    }
    causes
}
