//! The rules of a definition, judged before they run: are they of the right types, and can they cost too much?
//!
//! The cost of a rule is what it can cost on the largest value that the schema allows, times how often the place occurs.

use serde_json::Value;

use super::Cause;
use super::checker::{self, Type};
use super::cost;
use super::schema_types as types;

/// What one rule, and all rules of a schema, may cost.
const COST_OF_RULE: u64 = 10_000_000;
const COST_OF_ALL: u64 = 100_000_000;

const RULES: &str = "x-kubernetes-validations";

/// Judges the rules of a schema; `path` is where it stands in the definition.
pub fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut judge = Judge { costs: Vec::new(), causes };
    judge.visit(schema, path, &Place { root: true, occurrences: Some(1), uncorrelated: None });
    let mut costs = judge.costs;
    let total = costs.iter().fold(0_u64, |total, (_, cost)| total.saturating_add(*cost));
    if total > COST_OF_ALL {
        // The four that cost most, if they matter.
        costs.retain(|(_, cost)| *cost >= COST_OF_ALL / 100);
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in costs.iter().take(4) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            causes.push(Cause::forbidden(path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.push(Cause::forbidden(path, &too_costly(what, total, COST_OF_ALL)));
    }
}

/// Where a schema stands.
struct Place {
    root: bool,
    /// How many such values an object can have; nothing where there is no limit.
    occurrences: Option<u64>,
    /// The outermost place whose parts have no old value to compare with.
    uncorrelated: Option<String>,
}

struct Judge<'c> {
    costs: Vec<(String, u64)>,
    causes: &'c mut Vec<Cause>,
}

impl Judge<'_> {
    fn visit(&mut self, schema: &Value, path: &str, place: &Place) {
        for (index, rule) in schema.get(RULES).and_then(Value::as_array).into_iter().flatten().enumerate() {
            self.rule(rule, schema, &format!("{path}.{RULES}[{index}]"), place);
        }
        let below = types::occurrences_below(schema);
        let occurrences = place.occurrences.zip(below).map(|(here, below)| here.saturating_mul(below));
        let inner = |correlated: bool| Place {
            root: false,
            occurrences,
            uncorrelated: place.uncorrelated.clone().or_else(|| (!correlated).then(|| path.to_owned())),
        };
        let properties = inner(true);
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.visit(property, &format!("{path}.properties[{name}]"), &properties);
        }
        let with_keys = schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("map");
        for (field, correlated) in [("items", with_keys), ("additionalProperties", true)] {
            if let Some(schema) = schema.get(field).filter(|inner| inner.is_object()) {
                self.visit(schema, &format!("{path}.{field}"), &inner(correlated));
            }
        }
    }

    fn rule(&mut self, rule: &Value, schema: &Value, path: &str, place: &Place) {
        let at = format!("{path}.rule");
        let whole = place.root || types::is_embedded(schema);
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        let optional = rule.get("optionalOldSelf").and_then(Value::as_bool);
        let own = checker::type_of(&types::name_of(schema), schema, whole).unwrap_or(Type::Dyn);
        let old = if optional == Some(true) { Type::optional(own.clone()) } else { own.clone() };
        let names_old = match checker::check(text, &own, &old) {
            Ok(checked) => {
                if checked.gives.as_ref().is_some_and(|gives| *gives != Type::Bool) {
                    let detail = "cel expression must evaluate to a bool";
                    self.causes.push(Cause::invalid_shown(&at, &shown(rule), detail));
                    false
                } else if let Some(why) = &checked.impossible {
                    let detail = format!("program instantiation failed: {why}");
                    self.causes.push(Cause::invalid_shown(&at, &shown(rule), &detail));
                    checked.names_old
                } else {
                    if let Some(tree) = &checked.tree {
                        let once = cost::most(&tree.root, schema, whole, optional == Some(true));
                        let times = place.occurrences.unwrap_or_else(|| types::most_in_a_request(schema));
                        self.cost("estimated rule cost", at.clone(), once.saturating_mul(times));
                    }
                    self.message(rule, schema, path, whole, (&own, &old));
                    checked.names_old
                }
            }
            Err(faults) => {
                let detail = format!("compilation failed: {faults}");
                self.causes.push(Cause::invalid_shown(&at, &shown(rule), &detail));
                false
            }
        };
        match (&place.uncorrelated, optional) {
            (Some(within), _) if names_old => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                self.causes.push(Cause::invalid(&at, &text.into(), &detail));
            }
            (_, Some(optional)) if !names_old => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.causes.push(Cause::invalid(
                    &format!("{path}.optionalOldSelf"),
                    &optional.into(),
                    detail,
                ));
            }
            _ => {}
        }
    }

    /// The expression that makes the message of a rule. Its cost counts once, however often the place occurs.
    fn message(
        &mut self,
        rule: &Value,
        schema: &Value,
        path: &str,
        whole: bool,
        (own, old): (&Type<'_>, &Type<'_>),
    ) {
        let text = rule.get("messageExpression").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            return;
        }
        let at = format!("{path}.messageExpression");
        let detail = match checker::check(text, own, old) {
            Err(faults) => format!("messageExpression compilation failed: {faults}"),
            Ok(checked) if checked.gives.as_ref().is_some_and(|gives| *gives != Type::Text) => {
                "messageExpression must evaluate to a string".to_owned()
            }
            Ok(checked) => {
                if let Some(why) = &checked.impossible {
                    format!("messageExpression instantiation failed: {why}")
                } else {
                    if let Some(tree) = &checked.tree {
                        let optional = matches!(old, Type::Optional(_));
                        let cost = cost::most(&tree.root, schema, whole, optional);
                        self.cost("estimated messageExpression cost", at, cost);
                    }
                    return;
                }
            }
        };
        self.causes.push(Cause::invalid_shown(&at, &shown(rule), &detail));
    }

    fn cost(&mut self, what: &str, path: String, cost: u64) {
        if cost > COST_OF_RULE {
            self.causes.push(Cause::forbidden(&path, &too_costly(what, cost, COST_OF_RULE)));
        }
        self.costs.push((path, cost));
    }
}

fn too_costly(what: &str, cost: u64, limit: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "a factor for people")]
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
         where arrays, maps, and strings are declared)"
    )
}

/// A rule by the names of its fields in Go, written as Go writes JSON.
fn shown(rule: &Value) -> String {
    let text = |name: &str| Value::from(rule.get(name).and_then(Value::as_str).unwrap_or_default());
    let get = |name: &str| rule.get(name).unwrap_or(&Value::Null);
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        get("reason"),
        text("fieldPath"),
        get("optionalOldSelf")
    );
    shown.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(schema: &Value) -> Vec<String> {
        let mut causes = Vec::new();
        check(schema, "s", &mut causes);
        causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    fn ruled(mut schema: Value, rule: &str) -> Value {
        schema[RULES] = json!([{"rule": rule}]);
        schema
    }

    #[test]
    fn fields_must_exist() {
        let object = json!({"type": "object", "properties": {
            "a-b": {"type": "integer"}, "l": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 9}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}}, "open": {"x-kubernetes-int-or-string": true}}});
        for good in [
            "self.a__dash__b > 1",
            "has(self.l) && self.l.all(x, x.size() > 1)",
            "self.m.anything > 1 && self.metadata.name != ''",
            "oldSelf.a__dash__b == self.a__dash__b",
            "self.open == 1 || self.open == 'x'",
        ] {
            assert_eq!(faults(&ruled(object.clone(), good)), Vec::<String>::new(), "{good}");
        }
        for (bad, fault) in [
            ("self.nope == 1", "<input>:1:5: undefined field 'nope'"),
            ("true &&\n self.a__dash__b.c == 1", "<input>:2:17: type 'int' does not support field selection"),
            ("self.metadata.labels.size() > 0", "<input>:1:14: undefined field 'labels'"),
            ("self.l.all(x, x.y)", "type 'string' does not support field selection"),
            ("self.a__dash__b + 1", "cel expression must evaluate to a bool"),
        ] {
            let found = faults(&ruled(object.clone(), bad));
            assert!(found.len() == 1 && found[0].contains(fault), "{bad}: {found:?}");
        }
    }

    #[test]
    fn limits_keep_rules_cheap() {
        let text = |limit: Option<u64>| match limit {
            Some(limit) => json!({"type": "string", "maxLength": limit}),
            None => json!({"type": "string"}),
        };
        assert_eq!(faults(&ruled(text(None), "self.startsWith('a')")), Vec::<String>::new());
        assert_eq!(faults(&ruled(text(None), "self.contains(self)")).len(), 3);
        assert_eq!(faults(&ruled(text(Some(100)), "self.contains(self)")), Vec::<String>::new());
        let list = |items: Option<u64>| {
            let rule = ruled(text(Some(100)), "self.matches('[a-z]+')");
            match items {
                Some(items) => json!({"type": "array", "maxItems": items, "items": rule}),
                None => json!({"type": "array", "items": rule}),
            }
        };
        assert_eq!(faults(&list(Some(1000))), Vec::<String>::new());
        let unlimited = faults(&list(None));
        assert!(
            unlimited[0].starts_with(
                "s.items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds"
            ),
            "{unlimited:?}"
        );
    }
}
