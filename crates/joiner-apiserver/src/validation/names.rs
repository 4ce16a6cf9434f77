//! Names and labels.

use serde_json::{Value, json};

use crate::resources::Resource;
use crate::rest::{Cause, labels_of, meta_text};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
    and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
    an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
    end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
    character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// What is wrong with the name and the labels of a new object.
pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta_text(object, "name");
    let shown = json!(name);
    match resource.group.as_str() {
        // Names of roles may hold colons and capitals: only what breaks a path is refused.
        "rbac.authorization.k8s.io" => {
            if name.contains('/') || name.contains('%') || name == "." || name == ".." {
                causes.push(Cause::invalid(
                    "metadata.name",
                    &shown,
                    "may not contain '/' or '%' or be '.' or '..'",
                ));
            }
        }
        _ if resource.is("", "namespaces") || resource.is("", "services") => {
            if !is_label(name) {
                causes.push(Cause::invalid("metadata.name", &shown, LABEL));
            } else if name.len() > 63 {
                causes.push(Cause::invalid("metadata.name", &shown, "must be no more than 63 characters"));
            }
        }
        _ => {
            if !is_subdomain(name) {
                causes.push(Cause::invalid("metadata.name", &shown, SUBDOMAIN));
            } else if name.len() > 253 {
                causes.push(Cause::invalid("metadata.name", &shown, "must be no more than 253 characters"));
            }
        }
    }
    causes.extend(check_labels(object));
    causes
}

/// What is wrong with the labels.
pub(super) fn check_labels(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in labels_of(object).into_iter().flatten() {
        let part = key.rsplit_once('/').map_or(key.as_str(), |(_, part)| part);
        if part.is_empty() || !is_word(part) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), KEY));
        }
        let text = value.as_str().unwrap_or_default();
        if !is_word(text) {
            causes.push(Cause::invalid("metadata.labels", &json!(text), VALUE));
        } else if text.len() > 63 {
            causes.push(Cause::invalid("metadata.labels", &json!(text), "must be no more than 63 bytes"));
        }
    }
    causes
}

/// The rule of label keys that a text breaks, if it breaks one.
pub(crate) fn label_key_breaks(key: &str) -> Option<&'static str> {
    let part = key.rsplit_once('/').map_or(key, |(_, part)| part);
    if part.is_empty() || !is_word(part) {
        return Some(KEY);
    }
    (part.len() > 63).then_some("name part must be no more than 63 bytes")
}

/// The rule of label values that a text breaks, if it breaks one.
pub(crate) fn label_value_breaks(value: &str) -> Option<&'static str> {
    if !is_word(value) {
        return Some(VALUE);
    }
    (value.len() > 63).then_some("must be no more than 63 bytes")
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
}
