//! CEL rules of a schema (`x-kubernetes-validations`).
//!
//! The rules of one place are compiled together with the schema below it, stripped of the rules in there. So the library evaluates one
//! place at a time, and the walk is ours: which old value a new one continues, what is shown of a value, what an unchanged value
//! is still judged by.

use kube_cel::{
    CompilationError, CompilationResult, CompiledSchema, ErrorKind, ValidationError, compile_schema,
    validate_compiled,
};
use serde_json::{Map, Value, json};

use super::Cause;
use super::schema::{Node, join};

const RULES: &str = "x-kubernetes-validations";

/// The rules of one place.
pub(super) struct Rules {
    compiled: CompiledSchema,
    kind: String,
}

impl Rules {
    /// Compiles the rules of a schema, if it has any.
    pub fn parse(schema: &Value, path: &str, is_root: bool, causes: &mut Vec<Cause>) -> Option<Rules> {
        let rules = schema.get(RULES)?.as_array().filter(|rules| !rules.is_empty())?;
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
        own[RULES] = Value::Array(rules.clone());
        let compiled = compile_schema(&own);
        for (index, result) in compiled.validations.iter().enumerate() {
            let path = format!("{path}.{RULES}[{index}]");
            match result {
                Ok(_) => {}
                Err(CompilationError::Parse { rule, source }) => {
                    let detail = format!("compilation failed: {source}");
                    causes.push(Cause::invalid(&format!("{path}.rule"), &rule.as_str().into(), &detail));
                }
                Err(CompilationError::MessageExpressionParse { message_expression, source, .. }) => {
                    let detail = format!("messageExpression compilation failed: {source}");
                    let value = message_expression.as_str().into();
                    causes.push(Cause::invalid(&format!("{path}.messageExpression"), &value, &detail));
                }
                Err(error) => causes.push(Cause::invalid(&path, &rules[index], &error.to_string())),
            }
        }
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Rules { compiled, kind })
    }

    fn compiled(&self, rule: &str) -> Option<&CompilationResult> {
        self.compiled.validations.iter().flatten().find(|compiled| compiled.rule.rule == rule)
    }

    fn compares_with_old(&self, rule: &str) -> bool {
        self.compiled(rule).is_some_and(|compiled| compiled.is_transition_rule)
    }

    /// How a rule is called when it cannot be evaluated: by its message, if it has one.
    fn name<'a>(&'a self, rule: &'a str) -> &'a str {
        let message = self.compiled(rule).and_then(|compiled| compiled.rule.message.as_deref());
        message.filter(|message| !message.is_empty()).unwrap_or(rule).trim()
    }
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
    visit(root, new, old, false, "", causes);
}

/// `unchanged`: whether the nearest place above with an old value is as it was.
fn visit(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    unchanged: bool,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    if new.is_null() {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    let unchanged = old.map_or(unchanged, |old| node.is_unchanged(new, old));
    if let Some(rules) = &node.rules
        && let Err(errors) = validate_compiled(&rules.compiled, new, old)
    {
        for error in errors {
            // What did not change may stay as it is, unless the rule is about the change.
            let passes = unchanged && error.kind == ErrorKind::ValidationFailure;
            if !(passes && !rules.compares_with_old(&error.rule)) {
                causes.push(cause(rules, &error, new, path));
            }
        }
    }
    match new {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(inner) = node.member(name) {
                    visit(
                        inner,
                        value,
                        node.continued_field(name, old),
                        unchanged,
                        &join(path, name),
                        causes,
                    );
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                visit(inner, item, node.continued(item, old), unchanged, &format!("{path}[{index}]"), causes);
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
