//! Macros: calls that stand for loops, written out while a rule is read.
//!
//! Parts that a macro makes stand where its call stands, at the opening bracket; so faults in them are told there.

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    StructExpr,
};

use super::parser::Parser;

/// What the result of a loop is called.
pub(crate) const RESULT: &str = "@result";
/// What it was called once; still no name for others.
const RESULT_BEFORE: &str = "__result__";

/// A call without a receiver.
pub(super) fn call(parser: &mut Parser, open: usize, name: String, mut args: Vec<IdedExpr>) -> IdedExpr {
    if name == "has" && args.len() == 1 {
        let tested = args.remove(0);
        let place = parser.place_of(&tested);
        return match tested.expr {
            Expr::Select(select) => parser.part(open, Expr::Select(SelectExpr { test: true, ..select })),
            _ => parser.fault(place, "invalid argument to has() macro".to_owned()),
        };
    }
    parser.call(open, &name, args)
}

/// A call with a receiver.
pub(super) fn member_call(
    parser: &mut Parser,
    open: usize,
    name: String,
    target: IdedExpr,
    args: Vec<IdedExpr>,
) -> IdedExpr {
    let kind = match (name.as_str(), args.len()) {
        ("all", 2 | 3) => Kind::All,
        ("exists", 2 | 3) => Kind::Exists,
        ("exists_one" | "existsOne", 2 | 3) => Kind::ExistsOne,
        ("map", 2 | 3) => Kind::Map,
        ("filter", 2) => Kind::Filter,
        ("transformList", 3 | 4) => Kind::TransformList,
        ("transformMap", 3 | 4) => Kind::TransformMap,
        ("transformMapEntry", 3 | 4) => Kind::TransformMapEntry,
        ("optMap", 2) => return opt_map(parser, open, target, args, false),
        ("optFlatMap", 2) => return opt_map(parser, open, target, args, true),
        ("sortBy", 2) => return sort_by(parser, open, target, args),
        _ => {
            let call = CallExpr { func_name: name, target: Some(Box::new(target)), args };
            return parser.part(open, Expr::Call(call));
        }
    };
    let two = match kind {
        Kind::All | Kind::Exists | Kind::ExistsOne => args.len() == 3,
        Kind::Map | Kind::Filter => false,
        Kind::TransformList | Kind::TransformMap | Kind::TransformMapEntry => true,
    };
    spelled_out(parser, open, kind, target, args, two)
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    TransformList,
    TransformMap,
    TransformMapEntry,
}

/// Makes the parts of a macro.
struct Maker<'p> {
    parser: &'p mut Parser,
    open: usize,
}

impl Maker<'_> {
    fn part(&mut self, expr: Expr) -> IdedExpr {
        self.parser.part(self.open, expr)
    }

    fn ident(&mut self, name: &str) -> IdedExpr {
        self.part(Expr::Ident(name.to_owned()))
    }

    fn result(&mut self) -> IdedExpr {
        self.ident(RESULT)
    }

    fn bool(&mut self, value: bool) -> IdedExpr {
        self.part(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn int(&mut self, value: i64) -> IdedExpr {
        self.part(Expr::Literal(LiteralValue::Int(value.into())))
    }

    fn list(&mut self, elements: Vec<IdedExpr>) -> IdedExpr {
        self.part(Expr::List(ListExpr::new(elements)))
    }

    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.parser.call(self.open, name, args)
    }

    fn member_call(&mut self, name: &str, target: IdedExpr, args: Vec<IdedExpr>) -> IdedExpr {
        self.part(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args }))
    }

    /// A name for a value: a loop over nothing, whose result sees the value under that name.
    fn bound(&mut self, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
        let iter_range = self.list(Vec::new());
        let loop_cond = self.bool(false);
        let loop_step = self.ident(name);
        self.part(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range,
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond,
            loop_step,
            result,
        })))
    }

    /// What a loop starts with, how long it runs, and what it gives.
    fn frame(&mut self, kind: Kind) -> (IdedExpr, IdedExpr, IdedExpr) {
        match kind {
            Kind::All => {
                let start = self.bool(true);
                let so_far = self.result();
                (start, self.call("@not_strictly_false", vec![so_far]), self.result())
            }
            Kind::Exists => {
                let start = self.bool(false);
                let so_far = self.result();
                let not_yet = self.call("!_", vec![so_far]);
                (start, self.call("@not_strictly_false", vec![not_yet]), self.result())
            }
            Kind::ExistsOne => {
                let start = self.int(0);
                let condition = self.bool(true);
                let ends = vec![self.result(), self.int(1)];
                (start, condition, self.call("_==_", ends))
            }
            Kind::Map | Kind::Filter | Kind::TransformList => {
                (self.list(Vec::new()), self.bool(true), self.result())
            }
            Kind::TransformMap | Kind::TransformMapEntry => {
                (self.part(Expr::Map(MapExpr::default())), self.bool(true), self.result())
            }
        }
    }

    /// One turn of a loop; `first` is the name of its first variable.
    fn step(
        &mut self,
        kind: Kind,
        first: &IdedExpr,
        condition: Option<IdedExpr>,
        value: IdedExpr,
    ) -> IdedExpr {
        let so_far = self.result();
        let step = match kind {
            Kind::All => return self.call("_&&_", vec![so_far, value]),
            Kind::Exists => return self.call("_||_", vec![so_far, value]),
            Kind::ExistsOne => {
                let one = self.int(1);
                let more = self.call("_+_", vec![so_far, one]);
                let same = self.result();
                return self.call("_?_:_", vec![value, more, same]);
            }
            Kind::Map | Kind::TransformList => {
                let list = self.list(vec![value]);
                self.call("_+_", vec![so_far, list])
            }
            Kind::Filter => {
                let list = self.list(vec![first.clone()]);
                let more = self.call("_+_", vec![so_far, list]);
                let same = self.result();
                return self.call("_?_:_", vec![value, more, same]);
            }
            Kind::TransformMap => {
                let key = self.part(first.expr.clone());
                self.call("cel.@mapInsert", vec![so_far, key, value])
            }
            Kind::TransformMapEntry => self.call("cel.@mapInsert", vec![so_far, value]),
        };
        match condition {
            Some(condition) => {
                let same = self.result();
                self.call("_?_:_", vec![condition, step, same])
            }
            None => step,
        }
    }
}

fn spelled_out(
    parser: &mut Parser,
    open: usize,
    kind: Kind,
    target: IdedExpr,
    mut args: Vec<IdedExpr>,
    two: bool,
) -> IdedExpr {
    let unnamed = match kind {
        Kind::Map | Kind::Filter => "argument is not an identifier",
        _ => "argument must be a simple name",
    };
    let variables: Vec<IdedExpr> = args.drain(..if two { 2 } else { 1 }).collect();
    let mut names = Vec::new();
    for variable in &variables {
        match &variable.expr {
            Expr::Ident(name) => names.push(name.clone()),
            _ => return parser.fault(parser.place_of(variable), unnamed.to_owned()),
        }
    }
    if let [first, second] = names.as_slice()
        && first == second
    {
        return parser.fault(parser.place_of(&variables[1]), format!("duplicate variable name: {first}"));
    }
    for (variable, name) in variables.iter().zip(&names) {
        if name == RESULT || name == RESULT_BEFORE {
            let message = "iteration variable overwrites accumulator variable".to_owned();
            return parser.fault(parser.place_of(variable), message);
        }
    }
    let value = args.pop().unwrap_or_default();
    let condition = args.pop();
    let mut maker = Maker { parser, open };
    let (accu_init, loop_cond, result) = maker.frame(kind);
    let loop_step = maker.step(kind, &variables[0], condition, value);
    let mut names = names.into_iter();
    maker.part(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: target,
        iter_var: names.next().unwrap_or_default(),
        iter_var2: names.next(),
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    })))
}

/// `target.optMap(name, value)`, and `optFlatMap`, whose value is an optional itself.
fn opt_map(
    parser: &mut Parser,
    open: usize,
    target: IdedExpr,
    mut args: Vec<IdedExpr>,
    flat: bool,
) -> IdedExpr {
    let value = args.pop().unwrap_or_default();
    let variable = args.pop().unwrap_or_default();
    let Expr::Ident(name) = &variable.expr else {
        let macro_name = if flat { "optFlatMap" } else { "optMap" };
        let message = format!("{macro_name}() variable name must be a simple identifier");
        return parser.fault(parser.place_of(&variable), message);
    };
    let again = copy(parser, &target);
    let mut maker = Maker { parser, open };
    let there = maker.member_call("hasValue", target, Vec::new());
    let inside = maker.member_call("value", again, Vec::new());
    let mapped = maker.bound(name, inside, value);
    let mapped = if flat { mapped } else { maker.call("optional.of", vec![mapped]) };
    let none = maker.call("optional.none", Vec::new());
    maker.call("_?_:_", vec![there, mapped, none])
}

/// `target.sortBy(name, key)`: the list sorted by a list of its keys.
fn sort_by(parser: &mut Parser, open: usize, target: IdedExpr, args: Vec<IdedExpr>) -> IdedExpr {
    const INPUT: &str = "@__sortBy_input__";
    if matches!(target.expr, Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_)) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return parser.fault(parser.place_of(&target), message.to_owned());
    }
    let range = parser.part(open, Expr::Ident(INPUT.to_owned()));
    let keys = spelled_out(parser, open, Kind::Map, range, args, false);
    if matches!(keys.expr, Expr::Unspecified) {
        return keys;
    }
    let mut maker = Maker { parser, open };
    let input = maker.ident(INPUT);
    let sorted = maker.member_call("@sortByAssociatedKeys", input, vec![keys]);
    maker.bound(INPUT, target, sorted)
}

/// The same part once more, with numbers of its own, at the same place.
fn copy(parser: &mut Parser, part: &IdedExpr) -> IdedExpr {
    let place = parser.place_of(part);
    let id = parser.number(place);
    if parser.is_full() {
        return IdedExpr { id, expr: Expr::Unspecified };
    }
    let mut expr = part.expr.clone();
    let mut again = |part: &mut IdedExpr| *part = copy(parser, part);
    match &mut expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Select(select) => again(&mut select.operand),
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| again(target));
            call.args.iter_mut().for_each(again);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(again),
        Expr::Map(MapExpr { entries }) | Expr::Struct(StructExpr { entries, .. }) => {
            for entry in entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(pair) => {
                        again(&mut pair.key);
                        again(&mut pair.value);
                    }
                    EntryExpr::StructField(field) => again(&mut field.value),
                }
            }
        }
        Expr::Comprehension(loops) => {
            let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } = &mut **loops;
            [iter_range, accu_init, loop_cond, loop_step, result].into_iter().for_each(again);
        }
    }
    IdedExpr { id, expr }
}
