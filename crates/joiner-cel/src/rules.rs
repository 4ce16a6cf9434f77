//! The rules of one place of a schema: which of them a value must pass, what is remembered of those that did, and what is said of those
//! that did not. How a rule runs is told in [`runner`](super::runner).

use std::collections::HashMap;
use std::hash::BuildHasher;

use kube_cel::cel::{ExecutionError, Value as Cel};
use parking_lot::Mutex;
use serde_json::Value;

use super::cause::{Cause, join};
use super::checker::Room;
use super::place::Place;
use super::runner::{Expression, Sight, words};
use super::stack::with_room;

const RULES: &str = "x-kubernetes-validations";

/// The rules of one place.
pub struct Rules {
    rules: Vec<Rule>,
    /// What they need to run.
    room: Room,
    passed: Passed,
}

/// A rule that can run.
struct Rule {
    text: String,
    /// What it says when it is broken; the expression comes first.
    message: String,
    message_expression: Option<Expression>,
    expression: Expression,
    reason: String,
    field: String,
    /// The old value may be missing.
    optional_old: bool,
}

/// What came of a rule that did not pass.
pub struct Failure<'r> {
    rule: &'r Rule,
    fault: Fault,
}

impl Failure<'_> {
    /// Whether the value breaks the rule; otherwise there is no telling.
    pub fn is_broken(&self) -> bool {
        matches!(self.fault, Fault::Broken(_))
    }

    /// Whether the rule is about the change and not about the value alone.
    pub fn is_about_change(&self) -> bool {
        self.rule.expression.names_old
    }

    /// What is said of it, for a value of a kind at a path.
    pub fn cause(&self, kind: &str, value: &Value, path: &str) -> Cause {
        cause(self.rule, &self.fault, kind, value, path)
    }
}

enum Fault {
    /// The value breaks the rule; what is said about it.
    Broken(String),
    /// There is no telling.
    Unknown(String),
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
    /// Reads the rules of a schema, if it has any.
    pub fn parse(schema: &Value, path: &str, causes: &mut Vec<Cause>) -> Option<Rules> {
        let rules = schema.get(RULES)?.as_array().filter(|rules| !rules.is_empty())?;
        for (index, rule) in rules.iter().enumerate() {
            check_words(rule, &format!("{path}.{RULES}[{index}]"), causes);
        }
        let rules: Vec<Rule> = rules.iter().filter_map(Rule::parse).collect();
        let room = rules.iter().map(Rule::room).max().unwrap_or(Room::Usual);
        Some(Rules { rules, room, passed: Passed::default() })
    }

    /// Runs the rules on a value of their place, and tells those that did not pass.
    pub fn run<P: Place + Sync>(&self, place: &P, new: &Value, old: Option<&Value>) -> Vec<Failure<'_>> {
        let key = self.passed.key(new, old);
        if self.passed.has(key, new, old) {
            return Vec::new();
        }
        let run = || {
            let sight = Sight::new(place, new, old);
            let applies = |rule: &&Rule| old.is_some() || rule.optional_old || !rule.expression.names_old;
            let fault = |rule| Rule::run(rule, &sight).map(|fault| Failure { rule, fault });
            self.rules.iter().filter(applies).filter_map(fault).collect::<Vec<_>>()
        };
        let failures = match self.room {
            Room::Usual => run(),
            Room::Deep => with_room(run),
        };
        if failures.is_empty() {
            self.passed.add(key, new, old);
        }
        failures
    }
}

impl Rule {
    /// Reads a rule. What is wrong with rules is told elsewhere ([`check`](super::check::check)); here are left out those that cannot run.
    fn parse(rule: &Value) -> Option<Rule> {
        let field = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let optional_old = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let read = |text: &str| Expression::read(text, optional_old);
        let text = field("rule").to_owned();
        Some(Rule {
            expression: read(&text)?,
            message: field("message").to_owned(),
            message_expression: Some(field("messageExpression"))
                .filter(|text| !text.is_empty())
                .and_then(read),
            reason: field("reason").to_owned(),
            field: field("fieldPath").to_owned(),
            optional_old,
            text,
        })
    }

    fn room(&self) -> Room {
        let message = self.message_expression.as_ref().map_or(Room::Usual, |message| message.room);
        self.expression.room.max(message)
    }

    fn run(&self, sight: &Sight) -> Option<Fault> {
        sight.with_scope(self.optional_old, |scope| match self.expression.run(scope) {
            Ok(Cel::Bool(true)) => None,
            Ok(Cel::Bool(false)) => {
                let message = self.message_expression.as_ref().map(|message| message.run(scope));
                Some(Fault::Broken(match message {
                    // What is blank, or has lines, is no message.
                    Some(Ok(Cel::String(text))) if !text.trim().is_empty() && !has_lines(text.trim()) => {
                        text.as_ref().clone()
                    }
                    _ if self.message.is_empty() => format!("failed rule: {}", self.text.trim()),
                    _ => self.message.clone(),
                }))
            }
            Ok(_) => Some(Fault::Unknown(format!("rule \"{}\" did not evaluate to bool", self.text))),
            // A function that Kubernetes has and the library has not.
            Err(ExecutionError::UndeclaredReference(_)) => None,
            Err(error) => Some(Fault::Unknown(format!("{} evaluating rule: {}", words(&error), self.name()))),
        })
    }

    /// How the rule is called when it cannot be evaluated: by its message, if it has one.
    fn name(&self) -> &str {
        if self.message.is_empty() { self.text.trim() } else { self.message.trim() }
    }
}

fn has_lines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// A rule and its message are there and fit on a line, or the message does.
fn check_words(rule: &Value, path: &str, causes: &mut Vec<Cause>) {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let (words, message) = (text("rule"), text("message"));
    if words.trim().is_empty() {
        causes.push(Cause::required(&format!("{path}.rule"), "rule is not specified"));
        return;
    }
    let at = format!("{path}.message");
    if !message.is_empty() && message.trim().is_empty() {
        let detail = "must be non-empty if specified";
        causes.push(Cause::invalid(&at, &message.into(), detail));
    } else if has_lines(message.trim()) {
        causes.push(Cause::invalid(&at, &message.into(), "must not contain line breaks"));
    } else if has_lines(words.trim()) && message.is_empty() {
        causes.push(Cause::required(&at, "message must be specified if rule contains line breaks"));
    }
}

fn cause(rule: &Rule, fault: &Fault, kind: &str, value: &Value, path: &str) -> Cause {
    let message = match fault {
        Fault::Broken(message) => message.trim(),
        Fault::Unknown(why) => return Cause::invalid(path, &kind.into(), why),
    };
    // Keys in quotes and brackets are shown without the quotes.
    let below = rule.field.trim_start_matches('.').replace("['", "[").replace("']", "]");
    let field = if below.is_empty() { path.to_owned() } else { join(path, &below) };
    let shown = (!value.is_object() && !value.is_array()).then_some(value);
    match (rule.reason.as_str(), shown) {
        ("FieldValueForbidden", _) => Cause::forbidden(&field, message),
        ("FieldValueRequired", _) => Cause::required(&field, message),
        ("FieldValueDuplicate", shown) => Cause::duplicate(&field, shown),
        (_, Some(value)) => Cause::invalid(&field, value, message),
        (_, None) => Cause::invalid_omitted(&field, message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(rule: &str) -> (Value, Rules) {
        let schema = json!({"type": "string", RULES: [{"rule": rule, "message": "broken"}]});
        let rules = Rules::parse(&schema, "", &mut Vec::new()).unwrap();
        (schema, rules)
    }

    fn failures((schema, rules): &(Value, Rules), new: &Value, old: Option<&Value>) -> usize {
        rules.run(schema, new, old).len()
    }

    #[test]
    fn what_passed_alone_is_judged_again_beside_an_old_value() {
        let node = place("self == oldSelf");
        let (a, b) = (json!("a"), json!("b"));
        assert_eq!((failures(&node, &a, None), failures(&node, &b, None)), (0, 0));
        assert_eq!(failures(&node, &b, Some(&b)), 0);
        for _ in 0..2 {
            assert_eq!(failures(&node, &b, Some(&a)), 1, "what is refused is refused again");
            assert_eq!(failures(&node, &b, Some(&b)), 0);
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let node = place("self != 'no'");
        let kept = || node.1.passed.0.lock().len();
        assert_eq!(failures(&node, &"x".repeat(Passed::LARGEST + 1).into(), None), 0);
        assert_eq!(kept(), 0, "too large");
        for number in 0..=Passed::MOST {
            assert_eq!(failures(&node, &number.to_string().into(), None), 0);
        }
        assert_eq!(kept(), 1, "all were forgotten, and one came after");
        assert_eq!(failures(&node, &"no".into(), None), 1);
    }
}
