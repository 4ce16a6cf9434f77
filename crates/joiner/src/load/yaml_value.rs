//! Reading one YAML document as a value, within bounds, and saying what is wrong with it.

use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;

use super::plain_yaml;

/// Maps, lists and scalars in a document: three bytes each fill the largest document there may be, real ones need ten times that.
const PARTS_MAX: usize = 4_000_000;
/// Parts that aliases may add: manifests repeat a few labels or a template with them, bombs everything.
const ALIASED_MAX: usize = 50_000;
/// Levels of maps and lists.
const DEPTH_MAX: usize = 64;

/// Reads a YAML document as a value.
pub fn parse_yaml(text: &str) -> Result<Value, Error> {
    match plain_yaml::read(text) {
        Some(value) => Ok(value),
        None => parse_any_yaml(text),
    }
}

/// Reads a YAML document, however it is written.
pub(super) fn parse_any_yaml(text: &str) -> Result<Value, Error> {
    // kubectl reads YAML 1.1: `0644` is octal.
    serde_saphyr::from_str_with_options(
        text,
        serde_saphyr::options! {
            legacy_octal_numbers: true,
            budget: serde_saphyr::budget! {
                max_nodes: PARTS_MAX,
                max_events: 2 * PARTS_MAX,
                max_depth: DEPTH_MAX,
                enforce_alias_anchor_ratio: false,
            },
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX },
        },
    )
}

/// What is wrong and what to do.
pub fn told(error: &Error) -> (String, &'static str) {
    let too_deep = || {
        (
            format!("it is nested more than {DEPTH_MAX} levels deep"),
            "no Kubernetes object is: check brackets and dashes",
        )
    };
    let bomb = || {
        (
            format!("its aliases (`*name`) unfold to more than {ALIASED_MAX} parts"),
            "write out what they stand for",
        )
    };
    match error.without_snippet() {
        Error::DuplicateMappingKey { key, .. } => {
            let key =
                key.as_deref().map_or(String::new(), |key| format!(" `{}`", joiner_manifest::one_line(key)));
            (format!("the key{key} is there twice"), "keep one of them")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. }, .. } => (
            format!("a single document has more than {PARTS_MAX} parts"),
            "split it: one object per document",
        ),
        Error::Budget { .. } => bomb(),
        other => {
            let text = other.to_string();
            let line = text.lines().next().unwrap_or("unreadable");
            let line = line.split(" at line ").next().unwrap_or(line);
            // These come wrapped in other errors, so their words have to do.
            if line.contains("recursion limit exceeded") {
                return too_deep();
            }
            if line.contains("alias replay") || line.contains("alias expansion") {
                return bomb();
            }
            if line.contains("recursive references") {
                return ("an alias (`*name`) refers to itself".to_owned(), "write out what it stands for");
            }
            if line.contains("unknown anchor") {
                return (
                    "this alias (`*name`) refers to nothing".to_owned(),
                    "define it before with `&name`",
                );
            }
            let message = format!("this is not valid YAML: {}", joiner_manifest::one_line(line));
            (message, "check indentation and quoting at this line")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_kubectl_reads_them() {
        let value = parse_yaml("mode: 0644\nflag: yes\nport: 8080").expect("well-formed");
        assert_eq!(value, serde_json::json!({"mode": 420, "flag": true, "port": 8080}));
    }

    #[test]
    fn a_label_may_be_repeated_by_alias_as_often_as_one_likes() {
        let uses: String = (0..500).map(|at| format!("a{at}: *x\n")).collect();
        assert!(parse_yaml(&format!("x: &x {{a: b}}\n{uses}")).is_ok());
    }
}
