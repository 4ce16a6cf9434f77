//! CEL rules of a schema (`x-kubernetes-validations`).
//!
//! The rules of one place are compiled together with the schema below it, stripped of the rules in there. So the library evaluates one
//! place at a time, and the walk is ours: which old value a new one continues, what is shown of a value, what an unchanged value
//! is still judged by.

use std::collections::HashMap;
use std::hash::BuildHasher;

use kube_cel::{
    CompilationResult, CompiledSchema, ErrorKind, ValidationError, compile_schema, validate_compiled,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::Cause;
use super::path::Path;
use super::rule_checker;
use super::schema::{Node, join};

const RULES: &str = "x-kubernetes-validations";

/// The rules of one place.
pub(super) struct Rules {
    compiled: CompiledSchema,
    /// Rules for which the old value may be missing, in the two forms that spell this out.
    with_old: Option<CompiledSchema>,
    without_old: Option<CompiledSchema>,
    kind: String,
    passed: Passed,
}

/// Values that broke no rule of a place, each with the old value it was judged beside. A rule sees nothing else, so the verdict stands; most
/// writes leave most of an object as it was, and evaluating a rule costs more than all the rest of a write.
#[derive(Default)]
struct Passed(Mutex<HashMap<u64, (Value, Option<Value>)>>);

impl Passed {
    /// So many are kept, then all are forgotten.
    const MOST: usize = 512;
    /// Larger values are judged anew each time: what is kept must not grow with what clients send.
    const LARGEST: usize = 16 * 1024;

    fn has(&self, key: u64, new: &Value, old: Option<&Value>) -> bool {
        let passed = self.0.lock();
        passed.get(&key).is_some_and(|(known, beside)| known == new && beside.as_ref() == old)
    }

    fn add(&self, key: u64, new: &Value, old: Option<&Value>) {
        if [Some(new), old].into_iter().flatten().any(|value| size(value) > Self::LARGEST) {
            return;
        }
        let mut passed = self.0.lock();
        if passed.len() >= Self::MOST {
            passed.clear();
        }
        passed.insert(key, (new.clone(), old.cloned()));
    }

    fn key(&self, new: &Value, old: Option<&Value>) -> u64 {
        let hasher = self.0.lock().hasher().clone();
        hasher.hash_one((new, old))
    }
}

/// About how many bytes a value takes as text.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 1 + size(item)).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| 4 + name.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

impl Rules {
    /// Compiles the rules of a schema, if it has any.
    pub fn parse(schema: &Value, path: &str, is_root: bool, causes: &mut Vec<Cause>) -> Option<Rules> {
        let rules = schema.get(RULES)?.as_array().filter(|rules| !rules.is_empty())?;
        for (index, rule) in rules.iter().enumerate() {
            check_words(rule, &format!("{path}.{RULES}[{index}]"), causes);
        }
        let mut own = without_rules(schema);
        if is_root && let Some(own) = own.as_object_mut() {
            let properties = own.entry("properties").or_insert_with(|| Value::Object(Map::new()));
            if let Some(properties) = properties.as_object_mut() {
                properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
                properties.insert("kind".to_owned(), json!({"type": "string"}));
                let meta = json!({"name": {"type": "string"}, "generateName": {"type": "string"}});
                properties.insert("metadata".to_owned(), json!({"type": "object", "properties": meta}));
            }
        }
        let (optional, plain): (Vec<Value>, Vec<Value>) = rules
            .iter()
            .filter_map(runnable)
            .partition(|rule| rule.get("optionalOldSelf") == Some(&Value::Bool(true)));
        let spelled = |old: &str| {
            let rules = optional.iter().map(|rule| spell_out(rule, old)).collect();
            (!optional.is_empty()).then(|| with_rules(&own, rules))
        };
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Rules {
            with_old: spelled("optional.of(oldSelf)"),
            without_old: spelled("optional.none()"),
            compiled: with_rules(&own, plain),
            kind,
            passed: Passed::default(),
        })
    }

    /// Runs the rules on a value.
    fn run(&self, new: &Value, old: Option<&Value>) -> Vec<ValidationError> {
        let key = self.passed.key(new, old);
        if self.passed.has(key, new, old) {
            return Vec::new();
        }
        let spelled = if old.is_some() { &self.with_old } else { &self.without_old };
        let all = [Some(&self.compiled), spelled.as_ref()].into_iter().flatten();
        let errors: Vec<ValidationError> =
            all.filter_map(|compiled| validate_compiled(compiled, new, old).err()).flatten().collect();
        if errors.is_empty() {
            self.passed.add(key, new, old);
        }
        errors
    }

    fn compiled(&self, rule: &str) -> Option<&CompilationResult> {
        self.compiled.validations.iter().flatten().find(|compiled| compiled.rule.rule == rule)
    }

    fn compares_with_old(&self, rule: &str) -> bool {
        // Rules that are not among the plain ones are about an old value that may be missing.
        self.compiled(rule).is_none_or(|compiled| compiled.is_transition_rule)
    }

    /// How a rule is called when it cannot be evaluated: by its message, if it has one.
    fn name<'a>(&'a self, rule: &'a str) -> &'a str {
        let message = self.compiled(rule).and_then(|compiled| compiled.rule.message.as_deref());
        message.filter(|message| !message.is_empty()).unwrap_or(rule).trim()
    }
}

/// A rule and its message are there and fit on a line, or the message does.
fn check_words(rule: &Value, path: &str, causes: &mut Vec<Cause>) {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (words, message) = (text("rule"), text("message"));
    if words.trim().is_empty() {
        causes.push(Cause::required(&format!("{path}.rule"), "rule is not specified"));
        return;
    }
    let at = format!("{path}.message");
    if !message.is_empty() && message.trim().is_empty() {
        let detail = "must be non-empty if specified";
        causes.push(Cause::invalid(&at, &message.into(), detail));
    } else if broken(message.trim()) {
        causes.push(Cause::invalid(&at, &message.into(), "must not contain line breaks"));
    } else if broken(words.trim()) && message.is_empty() {
        causes.push(Cause::required(&at, "message must be specified if rule contains line breaks"));
    }
}

fn with_rules(schema: &Value, rules: Vec<Value>) -> CompiledSchema {
    let mut schema = schema.clone();
    schema[RULES] = Value::Array(rules);
    compile_schema(&schema)
}

/// A rule as the library can run it. What is wrong with rules is told elsewhere (`rule_check`); here are left out the rules that are right,
/// but in words that the library does not know.
fn runnable(rule: &Value) -> Option<Value> {
    let runs = |name: &str| rule.get(name).and_then(Value::as_str).is_none_or(rule_checker::is_runnable);
    let mut runnable = rule.clone();
    if !runs("messageExpression")
        && let Some(fields) = runnable.as_object_mut()
    {
        fields.remove("messageExpression");
    }
    runs("rule").then_some(runnable)
}

/// The library gives such rules the old value bare, or null; Kubernetes gives an optional. So the rule says it itself.
fn spell_out(rule: &Value, old: &str) -> Value {
    let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
    let mut rule = rule.clone();
    rule["rule"] = replace_word(text, "oldSelf", old).into();
    if rule.get("message").and_then(Value::as_str).unwrap_or_default().is_empty() {
        rule["message"] = format!("failed rule: {}", text.trim()).into();
    }
    rule
}

/// Replaces an identifier outside of string literals.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let (mut result, mut rest, mut quote) = (String::new(), text, None);
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    while let Some(next) = rest.chars().next() {
        let free = quote.is_none() && !result.ends_with(is_part);
        if let Some(after) =
            rest.strip_prefix(word).filter(|after| free && !after.starts_with(|c| is_part(c) && c != '.'))
        {
            result.push_str(by);
            rest = after;
            continue;
        }
        match (quote, next) {
            (None, '\'' | '"') => quote = Some(next),
            (Some(open), _) if open == next && !result.ends_with('\\') => quote = None,
            _ => {}
        }
        result.push(next);
        rest = &rest[next.len_utf8()..];
    }
    result
}

/// A schema without the rules in it, at any depth.
fn without_rules(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            // A property may be called like the keyword; it is an object then, the keyword a list.
            let kept = map.iter().filter(|(name, value)| !(name.as_str() == RULES && value.is_array()));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_rules(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_rules).collect()),
        other => other.clone(),
    }
}

/// Runs the rules of all places on an object.
pub(super) fn check(root: &Node, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    visit(root, new, old, false, Path::Root, causes);
}

/// `unchanged`: whether the nearest place above with an old value is as it was.
fn visit(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    unchanged: bool,
    path: Path<'_>,
    causes: &mut Vec<Cause>,
) {
    if new.is_null() {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    let unchanged = old.map_or(unchanged, |old| node.is_unchanged(new, old));
    if let Some(rules) = &node.rules {
        for error in rules.run(new, old) {
            // What did not change may stay as it is, unless the rule is about the change.
            let passes = unchanged && error.kind == ErrorKind::ValidationFailure;
            if !passes || rules.compares_with_old(&error.rule) {
                causes.push(cause(rules, &error, new, &path.to_string()));
            }
        }
    }
    match new {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(inner) = node.member(name) {
                    let old = node.continued_field(name, old);
                    visit(inner, value, old, unchanged, Path::Field(&path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let old = node.continued(item, old);
                visit(inner, item, old, unchanged, Path::Item(&path, index), causes);
            }
        }
        _ => {}
    }
}

fn cause(rules: &Rules, error: &ValidationError, value: &Value, path: &str) -> Cause {
    if error.kind != ErrorKind::ValidationFailure {
        let detail = match error.message.strip_prefix("rule evaluation error: ") {
            Some(message) => {
                format!("{} evaluating rule: {}", uncapitalised(message), rules.name(&error.rule))
            }
            None => error.message.clone(),
        };
        return Cause::invalid(path, &rules.kind.as_str().into(), &detail);
    }
    // Keys in quotes and brackets are shown without the quotes.
    let below = error.field_path.trim_start_matches('.').replace("['", "[").replace("']", "]");
    let field = if below.is_empty() { path.to_owned() } else { join(path, &below) };
    let detail = error.message.trim();
    let shown = (!value.is_object() && !value.is_array()).then_some(value);
    match (error.reason.as_deref(), shown) {
        (Some("FieldValueForbidden"), _) => Cause::forbidden(&field, detail),
        (Some("FieldValueRequired"), _) => Cause::required(&field, detail),
        (Some("FieldValueDuplicate"), shown) => Cause::duplicate(&field, shown),
        (_, Some(value)) => Cause::invalid(&field, value, detail),
        (_, None) => Cause::invalid_omitted(&field, detail),
    }
}

/// Messages of Kubernetes begin with a small letter.
fn uncapitalised(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rule: &str) -> Rules {
        let schema = json!({"type": "string", RULES: [{"rule": rule, "message": "broken"}]});
        Rules::parse(&schema, "", false, &mut Vec::new()).unwrap()
    }

    #[test]
    fn what_passed_alone_is_judged_again_beside_an_old_value() {
        let rules = rules("self == oldSelf");
        let (a, b) = (json!("a"), json!("b"));
        assert!(rules.run(&a, None).is_empty() && rules.run(&b, None).is_empty());
        assert!(rules.run(&b, Some(&b)).is_empty());
        for _ in 0..2 {
            assert_eq!(rules.run(&b, Some(&a)).len(), 1, "what is refused is refused again");
            assert!(rules.run(&b, Some(&b)).is_empty());
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let rules = rules("self != 'no'");
        assert!(rules.run(&"x".repeat(Passed::LARGEST + 1).into(), None).is_empty());
        assert_eq!(rules.passed.0.lock().len(), 0, "too large");
        for number in 0..=Passed::MOST {
            assert!(rules.run(&number.to_string().into(), None).is_empty());
        }
        assert_eq!(rules.passed.0.lock().len(), 1, "all were forgotten, and one came after");
        assert_eq!(rules.run(&"no".into(), None).len(), 1);
    }

    #[test]
    fn words_are_replaced_where_they_are_words() {
        for (text, expected) in [
            ("oldSelf.hasValue() || self == 'oldSelf'", "OLD.hasValue() || self == 'oldSelf'"),
            ("oldSelfish == x.oldSelf && !oldSelf", "oldSelfish == x.oldSelf && !OLD"),
            ("\"a\\\"oldSelf\" + oldSelf", "\"a\\\"oldSelf\" + OLD"),
        ] {
            assert_eq!(replace_word(text, "oldSelf", "OLD"), expected);
        }
    }
}
