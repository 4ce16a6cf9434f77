//! Puts a tree into forms that the library can run, and that mean the same.
//!
//! The library knows no loops over two variables, gives up a loop at the first error although a later element may settle it, and does not
//! look into optionals by field.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr,
};

use super::choices::{AND, OR};
use super::functions::{EQUAL, NEGATE, UNEQUAL};
use super::loops::{ALL, EXISTS, KEYS};
use crate::checker::RESULT;

const OPTIONAL_INDEX: &str = "_[?_]";
/// Stands for what a loop over two variables goes through.
const RANGE: &str = "@range";

/// The same tree in forms that run; nothing if it has parts that do not.
pub(super) fn runnable(root: IdedExpr, optional_old: bool) -> Option<IdedExpr> {
    Forms { optional_old }.part(root)
}

struct Forms {
    optional_old: bool,
}

impl Forms {
    fn part(&self, part: IdedExpr) -> Option<IdedExpr> {
        Some(made(match part.expr {
            simple @ (Expr::Ident(_) | Expr::Literal(_)) => simple,
            Expr::Unspecified | Expr::Struct(_) => return None,
            Expr::Select(select) => self.select(select)?,
            Expr::Call(call) => self.call(call)?,
            Expr::List(mut list) => {
                list.elements = self.parts(list.elements)?;
                Expr::List(list)
            }
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    let EntryExpr::MapEntry(pair) = &mut entry.expr else { return None };
                    pair.key = self.part(std::mem::take(&mut pair.key))?;
                    pair.value = self.part(std::mem::take(&mut pair.value))?;
                }
                Expr::Map(map)
            }
            Expr::Comprehension(loops) => self.loops(*loops)?,
        }))
    }

    fn parts(&self, parts: Vec<IdedExpr>) -> Option<Vec<IdedExpr>> {
        parts.into_iter().map(|part| self.part(part)).collect()
    }

    /// A field of an optional is an optional.
    fn select(&self, select: SelectExpr) -> Option<Expr> {
        let operand = self.part(*select.operand)?;
        if !self.is_optional(&operand) {
            return Some(Expr::Select(SelectExpr { operand: Box::new(operand), ..select }));
        }
        let field = made(Expr::Literal(LiteralValue::String(select.field.into())));
        let found = call(OPTIONAL_INDEX, vec![operand, field]);
        Some(if select.test { member_call("hasValue", made(found)) } else { found })
    }

    fn call(&self, call: CallExpr) -> Option<Expr> {
        let target = match call.target {
            Some(target) => Some(Box::new(self.part(*target)?)),
            None => None,
        };
        let func_name = match call.func_name.as_str() {
            // The library fails where the field is missing, but not where the element is.
            "_?._" => OPTIONAL_INDEX.to_owned(),
            // It tells of the second error where there are two.
            "_&&_" => AND.to_owned(),
            "_||_" => OR.to_owned(),
            // It does not notice that the least number has no opposite.
            "-_" => NEGATE.to_owned(),
            // It compares values of one type; only where the types are left open can there be two.
            "_==_" if call.args.iter().any(is_left_open) => EQUAL.to_owned(),
            "_!=_" if call.args.iter().any(is_left_open) => UNEQUAL.to_owned(),
            _ => call.func_name,
        };
        Some(Expr::Call(CallExpr { func_name, target, args: self.parts(call.args)? }))
    }

    /// Whether a part is known to give an optional.
    fn is_optional(&self, part: &IdedExpr) -> bool {
        match &part.expr {
            Expr::Ident(name) => self.optional_old && name == super::OLD,
            Expr::Call(call) => match call.func_name.as_str() {
                OPTIONAL_INDEX => true,
                "_[_]" => call.args.first().is_some_and(|operand| self.is_optional(operand)),
                "_?_:_" => call.args.get(1).is_some_and(|then| self.is_optional(then)),
                "optional.of" | "optional.none" | "optional.ofNonZeroValue" => true,
                "of" | "none" | "ofNonZeroValue" | "or" | "first" | "last" => call.target.is_some(),
                _ => false,
            },
            _ => false,
        }
    }

    fn loops(&self, loops: ComprehensionExpr) -> Option<Expr> {
        let range = self.part(loops.iter_range)?;
        let step = self.part(loops.loop_step)?;
        let step = match judgement(&loops.accu_var, step) {
            Ok((name, judged)) => {
                let names = [Some(loops.iter_var), loops.iter_var2].into_iter().flatten();
                let names = names.map(|name| made(Expr::Ident(name)));
                return Some(call(name, [range, judged].into_iter().chain(names).collect()));
            }
            Err(step) => step,
        };
        let rest = Rest {
            iter_var: loops.iter_var,
            accu_var: loops.accu_var,
            accu_init: self.part(loops.accu_init)?,
            loop_cond: self.part(loops.loop_cond)?,
            result: self.part(loops.result)?,
        };
        let Some(second) = loops.iter_var2 else { return Some(rest.around(range, step)) };
        // Through the keys, and the second variable stands for the value of each.
        let keys = made(call(KEYS, vec![ident(RANGE)]));
        let value = made(call("_[_]", vec![ident(RANGE), ident(&rest.iter_var)]));
        let step = made(bound(&second, value, step));
        Some(bound(RANGE, range, made(rest.around(keys, step))))
    }
}

fn is_left_open(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Call(call) if call.func_name == "dyn")
}

/// The parts of a loop beside what it goes through and does.
struct Rest {
    iter_var: String,
    accu_var: String,
    accu_init: IdedExpr,
    loop_cond: IdedExpr,
    result: IdedExpr,
}

impl Rest {
    fn around(self, iter_range: IdedExpr, loop_step: IdedExpr) -> Expr {
        let Rest { iter_var, accu_var, accu_init, loop_cond, result } = self;
        Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range,
            iter_var,
            iter_var2: None,
            accu_var,
            accu_init,
            loop_cond,
            loop_step,
            result,
        }))
    }
}

/// A loop that asks whether all elements, or any, pass: which of them, and the question. Any other step is given back.
fn judgement(accu: &str, step: IdedExpr) -> Result<(&'static str, IdedExpr), IdedExpr> {
    let IdedExpr { id, expr } = step;
    let Expr::Call(mut call) = expr else { return Err(IdedExpr { id, expr }) };
    let name = match call.func_name.as_str() {
        AND => ALL,
        OR => EXISTS,
        _ => return Err(IdedExpr { id, expr: Expr::Call(call) }),
    };
    let so_far = call.args.first().is_some_and(|first| first.expr == Expr::Ident(RESULT.to_owned()));
    match call.args.pop() {
        Some(judged) if so_far && accu == RESULT => Ok((name, judged)),
        judged => {
            call.args.extend(judged);
            Err(IdedExpr { id, expr: Expr::Call(call) })
        }
    }
}

/// A name for a value: a loop over nothing, whose result sees the value under that name.
fn bound(name: &str, value: IdedExpr, result: IdedExpr) -> Expr {
    let rest = Rest {
        iter_var: String::new(),
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: made(Expr::Literal(LiteralValue::Boolean(false.into()))),
        result,
    };
    rest.around(made(Expr::List(Default::default())), ident(name))
}

/// Parts that run need no numbers of their own.
fn made(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn ident(name: &str) -> IdedExpr {
    made(Expr::Ident(name.to_owned()))
}

fn call(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
}

fn member_call(name: &str, target: IdedExpr) -> Expr {
    Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args: Vec::new() })
}
