//! Names: of objects, of labels, and of whatever else must look like one of these.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::place::Place;
use crate::resources::Resource;
use crate::rest::{Cause, meta_text};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
    and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
    an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const HOST: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and \
    end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
    character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const KEY_OF_PARTS: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

/// What is wrong with the name of a new object.
pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let prefix = meta_text(object, "generateName");
    if !prefix.is_empty() {
        // What is generated follows the prefix, so it may end in a dash.
        let masked = match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() => Cow::Owned(format!("{rest}a")),
            _ => Cow::Borrowed(prefix),
        };
        for broken in object_name_breaks(resource, &masked) {
            causes.push(Cause::invalid("metadata.generateName", &json!(prefix), &broken));
        }
    }
    let name = meta_text(object, "name");
    for broken in object_name_breaks(resource, name) {
        causes.push(Cause::invalid("metadata.name", &json!(name), &broken));
    }
    if resource.is("batch", "cronjobs") && name.len() > 52 {
        let detail = "must be no more than 52 characters";
        causes.push(Cause::invalid("metadata.name", &json!(name), detail));
    }
    causes
}

fn object_name_breaks(resource: &Resource, name: &str) -> Vec<String> {
    if resource.group == "rbac.authorization.k8s.io" {
        // Names of roles may hold colons and capitals: only what breaks a path is refused.
        return path_segment_breaks(name);
    }
    if resource.is("", "namespaces") {
        return label_breaks(name);
    }
    if resource.is("", "services") {
        return service_name_breaks(name);
    }
    subdomain_breaks(name)
}

/// The rules of names of services that a text breaks: they are names of hosts in the oldest sense, and begin with a letter.
fn service_name_breaks(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if text.len() > 63 {
        broken.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        broken.push(HOST.to_owned());
    }
    broken
}

/// Judges the name of a service.
pub(super) fn check_service_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in service_name_breaks(name) {
        causes.push(Cause::invalid(place, &json!(name), &broken));
    }
}

/// The rules of parts of a path that a text breaks.
fn path_segment_breaks(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => ["/", "%"]
            .iter()
            .filter(|part| text.contains(**part))
            .map(|part| format!("may not contain '{part}'"))
            .collect(),
    }
}

/// Judges a name that becomes a part of a path.
pub(super) fn check_path_segment(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in path_segment_breaks(name) {
        causes.push(Cause::invalid(place, &json!(name), &broken));
    }
}

/// The rules of lowercase labels that a text breaks.
pub(super) fn label_breaks(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if text.len() > 63 {
        broken.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(text) {
        broken.push(if is_subdomain(text) { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    broken
}

/// The rules of lowercase subdomains that a text breaks.
pub(super) fn subdomain_breaks(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if text.len() > 253 {
        broken.push("must be no more than 253 characters".to_owned());
    }
    if !is_subdomain(text) {
        broken.push(SUBDOMAIN.to_owned());
    }
    broken
}

/// The rules of qualified names (`example.com/name`), which keys of labels are, that a text breaks.
pub(super) fn qualified_name_breaks(text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => return vec![KEY_OF_PARTS.to_owned()],
        Some((prefix, name)) => {
            if prefix.is_empty() {
                broken.push("prefix part must be non-empty".to_owned());
            } else {
                broken.extend(subdomain_breaks(prefix).into_iter().map(|rule| {
                    // The prefix is judged by newer words than names of objects.
                    format!("prefix part {}", rule.replace(" characters", " bytes"))
                        .replace("lower case alphanumeric bytes", "lower case alphanumeric characters")
                }));
            }
            name
        }
    };
    if name.is_empty() {
        broken.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        broken.push("name part must be no more than 63 bytes".to_owned());
    }
    if name.is_empty() || !is_word(name) {
        broken.push(KEY.to_owned());
    }
    broken
}

/// The rules of label values that a text breaks.
pub(super) fn value_breaks(text: &str) -> Vec<&'static str> {
    let mut broken = Vec::new();
    if text.len() > 63 {
        broken.push("must be no more than 63 bytes");
    }
    if !is_word(text) {
        broken.push(VALUE);
    }
    broken
}

/// Judges a key of a label.
pub(super) fn check_key(key: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in qualified_name_breaks(key) {
        causes.push(Cause::invalid(place, &json!(key), &broken));
    }
}

/// Judges a map of labels. All of its faults are told at the map itself.
pub(super) fn check_labels(labels: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        check_key(key, place, causes);
        let value = value.as_str().unwrap_or_default();
        for broken in value_breaks(value) {
            causes.push(Cause::invalid(place, &json!(value), broken));
        }
    }
}

/// Judges a name that must be a lowercase label.
pub(super) fn check_label(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in label_breaks(name) {
        causes.push(Cause::invalid(place, &json!(name), &broken));
    }
}

/// Judges a name that must be a lowercase subdomain.
pub(super) fn check_subdomain(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in subdomain_breaks(name) {
        causes.push(Cause::invalid(place, &json!(name), &broken));
    }
}

/// The rule of label keys that a text breaks, if it breaks one.
pub(crate) fn label_key_breaks(key: &str) -> Option<String> {
    qualified_name_breaks(key).into_iter().next()
}

/// The rule of label values that a text breaks, if it breaks one.
pub(crate) fn label_value_breaks(value: &str) -> Option<&'static str> {
    value_breaks(value).into_iter().next()
}

fn is_label(text: &str) -> bool {
    let inner = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends =
        bytes.first().is_some_and(|first| inner(*first)) && bytes.last().is_some_and(|last| inner(*last));
    ends && bytes.iter().all(|letter| inner(*letter) || *letter == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().is_none_or(u8::is_ascii_alphanumeric)
        && bytes.last().is_none_or(u8::is_ascii_alphanumeric);
    ends && bytes.iter().all(|letter| letter.is_ascii_alphanumeric() || b"-_.".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words() {
        for good in ["a", "a-b", "a.b-c.d", "0"] {
            assert!(is_subdomain(good), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a/b"] {
            assert!(!is_subdomain(bad), "{bad}");
        }
        assert!(is_word("") && is_word("A_b.c-1") && !is_word("-a") && !is_word("a ") && !is_word("ä"));
    }

    #[test]
    fn qualified_names_have_at_most_one_prefix() {
        for good in ["a", "A_b", "example.com/A.b", "x/y"] {
            assert_eq!(qualified_name_breaks(good), Vec::<String>::new(), "{good}");
        }
        for (bad, faults) in [("", 2), ("/a", 1), ("a/", 2), ("a/b/c", 1), ("A/b", 1), ("a b", 1)] {
            assert_eq!(qualified_name_breaks(bad).len(), faults, "{bad}");
        }
        assert_eq!(qualified_name_breaks(&"x".repeat(64)), ["name part must be no more than 63 bytes"]);
    }
}
