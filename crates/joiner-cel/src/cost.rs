//! What a rule can cost on the largest value that its schema allows.
//!
//! Where a size is not known it counts as one, so a rule that Kubernetes takes is never refused for its cost here.

use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr};
use serde_json::Value;

use super::schema_types::{self as types, Type};

/// What one evaluation of an expression costs at most; `optional`: the old value may be missing.
pub(super) fn most(expression: &IdedExpr, schema: &Value, whole: bool, optional: bool) -> u64 {
    let own = Known {
        of: types::type_of(schema, whole).unwrap_or(Type::Open),
        size: types::largest(schema),
        cost: 0,
    };
    let old = if optional { OPEN } else { own };
    let mut judge = Judge { names: vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)] };
    judge.judge(expression).cost
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
            Type::Bool | Type::Int | Type::Double | Type::Duration | Type::Timestamp => 1,
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

struct Judge<'a> {
    names: Vec<(String, Known<'a>)>,
}

impl<'a> Judge<'a> {
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
        let of = |field: &'a Value| Known { of: types::inner(field), size: types::largest(field), cost: 1 };
        let inner = match operand.of {
            Type::Object(schema, whole) => types::field(schema, whole, name).map_or(OPEN, of),
            Type::Map(schema) => schema.get("additionalProperties").map_or(OPEN, of),
            _ => OPEN,
        };
        if select.test {
            return Known { of: Type::Bool, size: Some(1), cost: operand.cost };
        }
        Known { cost: operand.cost.saturating_add(inner.cost), ..inner }
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
