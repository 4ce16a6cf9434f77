//! Rules judged before they run: do they name fields that exist, and can they cost too much?
//!
//! The cost of a rule is what it can cost on the largest value that the schema allows, times how often the place occurs. Where a size is
//! not known it counts as one, so a rule that Kubernetes takes is never refused for its cost here.

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use serde_json::Value;

use super::Cause;
use super::rule_types::{self as types, Type};

/// What one rule, and all rules of a schema, may cost.
const COST_OF_RULE: u64 = 10_000_000;
const COST_OF_ALL: u64 = 100_000_000;

const RULES: &str = "x-kubernetes-validations";

/// Judges the rules of a schema; `path` is where it stands in the definition.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut costs = Vec::new();
    visit(schema, path, true, Some(1), &mut costs, causes);
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

fn visit(
    schema: &Value,
    path: &str,
    root: bool,
    occurrences: Option<u64>,
    costs: &mut Vec<(String, u64)>,
    causes: &mut Vec<Cause>,
) {
    let whole = root || schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    for (index, rule) in schema.get(RULES).and_then(Value::as_array).into_iter().flatten().enumerate() {
        let path = format!("{path}.{RULES}[{index}].rule");
        let text = rule.get("rule").and_then(Value::as_str).unwrap_or_default();
        // A rule that cannot be read is told elsewhere.
        let Ok(program) = Program::compile(text) else { continue };
        let mut judge = Judge { source: text, names: Vec::new(), faults: Vec::new() };
        let own = Known {
            of: types::type_of(schema, whole).unwrap_or(Type::Open),
            size: types::largest(schema),
            cost: 0,
        };
        let optional = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        judge.names.push(("self".to_owned(), own));
        judge.names.push(("oldSelf".to_owned(), if optional { OPEN } else { own }));
        let result = judge.judge(program.expression());
        if !matches!(result.of, Type::Bool | Type::Open) && judge.faults.is_empty() {
            let detail = "cel expression must evaluate to a bool";
            causes.push(Cause::invalid_shown(&path, &shown(rule), detail));
        }
        if !judge.faults.is_empty() {
            let detail = format!("compilation failed: {}", judge.faults.join("\n"));
            causes.push(Cause::invalid_shown(&path, &shown(rule), &detail));
            continue;
        }
        let times = occurrences.unwrap_or_else(|| types::most_in_a_request(schema));
        let cost = result.cost.saturating_mul(times);
        if cost > COST_OF_RULE {
            causes.push(Cause::forbidden(&path, &too_costly("estimated rule cost", cost, COST_OF_RULE)));
        }
        costs.push((path, cost));
    }
    let below =
        occurrences.zip(types::occurrences_below(schema)).map(|(here, below)| here.saturating_mul(below));
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        visit(property, &format!("{path}.properties[{name}]"), false, below, costs, causes);
    }
    for field in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(field).filter(|inner| inner.is_object()) {
            visit(inner, &format!("{path}.{field}"), false, below, costs, causes);
        }
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
pub(super) fn shown(rule: &Value) -> String {
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

/// What is known of an expression.
#[derive(Clone, Copy)]
struct Known<'a> {
    of: Type<'a>,
    /// How many elements, entries or bytes it can have.
    size: Option<u64>,
    cost: u64,
}

const OPEN: Known<'static> = Known { of: Type::Open, size: None, cost: 0 };

impl Known<'_> {
    /// What is not known counts as one.
    fn size(&self) -> u64 {
        match self.of {
            Type::Bool | Type::Int | Type::Double | Type::Time => 1,
            _ => self.size.unwrap_or(1),
        }
    }
}

fn scaled(size: u64, factor: f64) -> u64 {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; casts of floats saturate"
    )]
    let scaled = (size as f64 * factor).ceil() as u64;
    scaled
}

/// Reading a text costs a tenth of its length.
fn reading(size: u64) -> u64 {
    scaled(size, 0.1)
}

struct Judge<'s, 'a> {
    source: &'s str,
    names: Vec<(String, Known<'a>)>,
    faults: Vec<String>,
}

impl<'a> Judge<'_, 'a> {
    fn judge(&mut self, expression: &IdedExpr) -> Known<'a> {
        match &expression.expr {
            Expr::Literal(literal) => {
                let (of, size) = match literal {
                    LiteralValue::Boolean(_) => (Type::Bool, 1),
                    LiteralValue::Int(_) | LiteralValue::UInt(_) => (Type::Int, 1),
                    LiteralValue::Double(_) => (Type::Double, 1),
                    LiteralValue::String(text) => (Type::Text, text.inner().chars().count() as u64),
                    LiteralValue::Bytes(bytes) => (Type::Bytes, bytes.inner().len() as u64),
                    LiteralValue::Null => (Type::Open, 1),
                };
                Known { of, size: Some(size), cost: 0 }
            }
            Expr::Ident(name) => self.identifier(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(loops) => self.comprehension(loops),
            Expr::List(list) => {
                let cost = self.sum(&list.elements);
                Known {
                    of: Type::Open,
                    size: Some(list.elements.len() as u64),
                    cost: cost.saturating_add(10),
                }
            }
            Expr::Map(_) => Known { cost: 30, ..OPEN },
            Expr::Struct(_) => Known { cost: 40, ..OPEN },
            Expr::Unspecified => OPEN,
        }
    }

    fn sum(&mut self, expressions: &[IdedExpr]) -> u64 {
        expressions.iter().fold(0, |sum, expression| self.judge(expression).cost.saturating_add(sum))
    }

    fn identifier(&mut self, name: &str) -> Known<'a> {
        let found = self.names.iter().rev().find(|(known, _)| known == name).map(|(_, known)| *known);
        Known { cost: 1, ..found.unwrap_or(OPEN) }
    }

    fn select(&mut self, select: &SelectExpr) -> Known<'a> {
        let operand = self.judge(&select.operand);
        let name = select.field.as_str();
        let inner = match operand.of {
            Type::Object(schema, whole) => match types::field(schema, whole, name) {
                Some(field) => Known { of: types::inner(field), size: types::largest(field), cost: 1 },
                None => {
                    self.fault(name, &format!("undefined field '{name}'"));
                    OPEN
                }
            },
            Type::Map(schema) => match schema.get("additionalProperties") {
                Some(values) => Known { of: types::inner(values), size: types::largest(values), cost: 1 },
                None => OPEN,
            },
            Type::Open | Type::List(_) | Type::Time => OPEN,
            Type::Bool => self.no_fields(name, "bool"),
            Type::Int => self.no_fields(name, "int"),
            Type::Double => self.no_fields(name, "double"),
            Type::Text => self.no_fields(name, "string"),
            Type::Bytes => self.no_fields(name, "bytes"),
        };
        if select.test {
            return Known { of: Type::Bool, size: Some(1), cost: operand.cost };
        }
        Known { cost: operand.cost.saturating_add(inner.cost), ..inner }
    }

    fn no_fields(&mut self, name: &str, of: &str) -> Known<'a> {
        self.fault(name, &format!("type '{of}' does not support field selection"));
        OPEN
    }

    /// Writes a fault down with the place of the field: its line and where in it the dot is.
    fn fault(&mut self, field: &str, message: &str) {
        let (mut quote, mut offset) = (None, 0);
        for (at, letter) in self.source.char_indices() {
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), letter) if open == letter => quote = None,
                (None, '.') => {
                    let rest = self.source[at + 1..].trim_start().strip_prefix(field);
                    let ends =
                        |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
                    if rest.is_some_and(ends) {
                        offset = at;
                        break;
                    }
                }
                _ => {}
            }
        }
        let before = &self.source[..offset];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let text = self.source.lines().nth(line).unwrap_or_default();
        let fault = format!(
            "ERROR: <input>:{}:{}: {message}\n | {text}\n | {}^",
            line + 1,
            column + 1,
            ".".repeat(column)
        );
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    fn call(&mut self, call: &CallExpr) -> Known<'a> {
        let target = call.target.as_ref().map(|target| self.judge(target));
        let arguments: Vec<Known<'a>> = call.args.iter().map(|argument| self.judge(argument)).collect();
        let given = arguments
            .iter()
            .fold(target.map_or(0, |target| target.cost), |sum, argument| argument.cost.saturating_add(sum));
        let of = |at: usize| arguments.get(at).copied().unwrap_or(OPEN);
        let subject = target.unwrap_or_else(|| of(0));
        let first = if target.is_some() { of(0) } else { of(1) };
        let made =
            |of: Type<'a>, size: Option<u64>, cost: u64| Known { of, size, cost: given.saturating_add(cost) };
        match call.func_name.as_str() {
            "_&&_" | "_||_" => made(Type::Bool, Some(1), 0),
            "_?_:_" => {
                let cost = of(0).cost.saturating_add(of(1).cost.max(of(2).cost));
                Known { of: Type::Open, size: of(1).size.max(of(2).size), cost }
            }
            "!_" | "@not_strictly_false" => made(Type::Bool, Some(1), 1),
            "_==_" | "_!=_" => made(Type::Bool, Some(1), reading(of(0).size().min(of(1).size()))),
            "_<_" | "_<=_" | "_>_" | "_>=_" => {
                let texts = matches!(of(0).of, Type::Text | Type::Bytes);
                let cost = if texts { reading(of(0).size().min(of(1).size())) } else { 1 };
                made(Type::Bool, Some(1), cost)
            }
            "@in" => {
                let cost = if matches!(of(1).of, Type::Map(_) | Type::Object(..)) { 1 } else { of(1).size() };
                made(Type::Bool, Some(1), cost)
            }
            "_[_]" => match subject.of {
                Type::List(schema) => element(schema.get("items"), given.saturating_add(1)),
                Type::Map(schema) => element(schema.get("additionalProperties"), given.saturating_add(1)),
                _ => made(Type::Open, None, 1),
            },
            "_+_" => match of(0).of {
                Type::Text => {
                    let size = of(0).size().saturating_add(of(1).size());
                    made(Type::Text, Some(size), reading(size))
                }
                Type::Int => made(Type::Int, Some(1), 1),
                Type::Double => made(Type::Double, Some(1), 1),
                _ => made(Type::Open, of(0).size.zip(of(1).size).map(|(a, b)| a.saturating_add(b)), 1),
            },
            "size" => made(Type::Int, Some(1), 1),
            "contains" => {
                made(Type::Bool, Some(1), reading(subject.size()).saturating_mul(reading(first.size())))
            }
            "matches" => {
                let text = reading(subject.size().saturating_add(1));
                made(Type::Bool, Some(1), text.saturating_mul(scaled(first.size(), 0.25)))
            }
            "find" | "findAll" => {
                let text = reading(subject.size().saturating_add(1));
                made(Type::Open, subject.size, text.saturating_mul(scaled(first.size(), 0.25)))
            }
            "startsWith" | "endsWith" => made(Type::Bool, Some(1), reading(first.size())),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match subject.of {
                Type::List(schema) => {
                    let each = element(schema.get("items"), 0);
                    let cost = if matches!(each.of, Type::Text | Type::Bytes) {
                        reading(each.size()) + 1
                    } else {
                        1
                    };
                    made(Type::Open, Some(1), subject.size().saturating_mul(cost))
                }
                _ => made(Type::Open, Some(1), reading(subject.size())),
            },
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                made(Type::Text, subject.size, reading(subject.size()))
            }
            "replace" => made(Type::Text, subject.size, scaled(subject.size(), 0.2)),
            "split" => made(Type::Open, subject.size, scaled(subject.size(), 0.2)),
            "quantity" | "isQuantity" | "url" | "isURL" | "ip" | "isIP" | "cidr" | "isCIDR" | "semver"
            | "isSemver" => made(Type::Open, None, reading(subject.size())),
            _ => made(Type::Open, None, 1),
        }
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Known<'a> {
        let range = self.judge(&loops.iter_range);
        let start = self.judge(&loops.accu_init);
        let depth = self.names.len();
        self.names.push((loops.accu_var.clone(), start));
        let (key, value) = match range.of {
            Type::List(schema) => {
                (Known { of: Type::Int, size: Some(1), cost: 0 }, element(schema.get("items"), 0))
            }
            Type::Map(schema) => {
                (Known { of: Type::Text, ..OPEN }, element(schema.get("additionalProperties"), 0))
            }
            _ => (OPEN, OPEN),
        };
        match &loops.iter_var2 {
            Some(second) => {
                self.names.push((loops.iter_var.clone(), key));
                self.names.push((second.clone(), value));
            }
            None => {
                let each = if matches!(range.of, Type::Map(_)) { key } else { value };
                self.names.push((loops.iter_var.clone(), each));
            }
        }
        let turn = self.judge(&loops.loop_cond).cost.saturating_add(self.judge(&loops.loop_step).cost);
        self.names.truncate(depth + 1);
        let result = self.judge(&loops.result);
        self.names.truncate(depth);
        let cost = [range.cost, start.cost, result.cost, range.size().saturating_mul(turn)];
        let cost = cost.into_iter().fold(0_u64, u64::saturating_add);
        match start.of {
            Type::Bool => Known { of: Type::Bool, size: Some(1), cost },
            _ => Known { of: Type::Open, size: range.size, cost },
        }
    }
}

/// What is known of an element or an entry.
fn element(schema: Option<&Value>, cost: u64) -> Known<'_> {
    match schema {
        Some(schema) => Known { of: types::inner(schema), size: types::largest(schema), cost },
        None => Known { cost, ..OPEN },
    }
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
