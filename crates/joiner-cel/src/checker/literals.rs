//! Literals that are wrong whatever the object says: mixed lists, durations that are none, patterns that do not compile.
//!
//! These are looked at in rules whose types are right.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
};
use regex::Regex;

use super::faults::Fault;
use super::format;
use super::parser::Tree;
use super::types::Type;
use crate::formats;
use crate::go_duration;

/// The faults of all literals.
pub(crate) fn check(tree: &Tree, types: &HashMap<u64, Type<'_>>) -> Vec<Fault> {
    let mut judge = Judge { types, faults: Vec::new() };
    visit(&tree.root, false, &mut |part, in_format| judge.judge(part, in_format));
    judge.faults.into_iter().map(|(id, message)| Fault { place: tree.places.of(id), message }).collect()
}

/// Why a rule can never run, if that shows before: this is found when it is made ready, at the first such part.
pub(crate) fn impossible(tree: &Tree, types: &HashMap<u64, Type<'_>>) -> Option<String> {
    let mut found = None;
    visit(&tree.root, false, &mut |part, _| {
        if found.is_none() {
            found = match &part.expr {
                // These can be called, and are types, but not under these names.
                Expr::Ident(name) if ["duration", "timestamp"].contains(&name.as_str()) => {
                    let is_type = matches!(types.get(&part.id), Some(Type::Kind(_)));
                    is_type.then(|| format!("reference to undefined type: {name}"))
                }
                Expr::Call(CallExpr { func_name, target: None, args }) => match args.as_slice() {
                    [arg] => unconverted(func_name, arg),
                    _ => None,
                },
                _ => None,
            }
        }
    });
    found
}

/// Why an argument that is the same for every object cannot be converted.
fn unconverted(to: &str, arg: &IdedExpr) -> Option<String> {
    if matches!(arg.expr, Expr::Literal(LiteralValue::Null)) && ["int", "string"].contains(&to) {
        return Some(format!("no such overload: {to}(null_type)"));
    }
    let name = match to {
        "duration" => "google.protobuf.Duration",
        "timestamp" => "google.protobuf.Timestamp",
        other => other,
    };
    let fails = fixed_text(arg).is_some_and(|text| !converts(&text, to));
    fails.then(|| format!("type conversion error from 'string' to '{name}'"))
}

/// A text that is the same for every object.
fn fixed_text(part: &IdedExpr) -> Option<String> {
    match &part.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_owned()),
        Expr::Call(CallExpr { func_name, target: None, args }) if func_name == "string" => {
            match args.as_slice() {
                [IdedExpr { expr: Expr::Literal(LiteralValue::Int(number)), .. }] => {
                    Some(number.inner().to_string())
                }
                [arg] => fixed_text(arg),
                _ => None,
            }
        }
        _ => None,
    }
}

fn converts(text: &str, to: &str) -> bool {
    match to {
        "int" => text.parse::<i64>().is_ok(),
        "uint" => !text.starts_with('+') && text.parse::<u64>().is_ok(),
        // There are more ways to write a number in Go than here.
        "double" => {
            text.contains("0x") || text.contains("0X") || text.replace('_', "").parse::<f64>().is_ok()
        }
        "bool" => {
            ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"].contains(&text)
        }
        "duration" => go_duration::nanoseconds(text).is_ok(),
        "timestamp" => formats::matches("date-time", text),
        _ => true,
    }
}

/// Visits a part and all in it, the inner ones first, and says whether the part stands in arguments of `format`.
pub(super) fn visit(part: &IdedExpr, in_format: bool, see: &mut impl FnMut(&IdedExpr, bool)) {
    let formats = matches!(&part.expr, Expr::Call(call) if call.func_name == "format");
    for inner in parts_of(part) {
        visit(inner, in_format || formats, see);
    }
    see(part, in_format);
}

/// The parts that stand directly in a part.
pub(super) fn parts_of(part: &IdedExpr) -> Vec<&IdedExpr> {
    match &part.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => call.target.iter().map(AsRef::as_ref).chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => {
            let pairs = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(pair) => Some([&pair.key, &pair.value]),
                EntryExpr::StructField(_) => None,
            });
            pairs.flatten().collect()
        }
        Expr::Struct(message) => {
            let fields = message.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => Some(&field.value),
                EntryExpr::MapEntry(_) => None,
            });
            fields.collect()
        }
        Expr::Comprehension(loops) => {
            let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } = &**loops;
            vec![iter_range, accu_init, loop_cond, loop_step, result]
        }
    }
}

struct Judge<'t, 'a> {
    types: &'t HashMap<u64, Type<'a>>,
    faults: Vec<(u64, String)>,
}

impl<'t, 'a> Judge<'t, 'a> {
    fn type_of(&self, part: &IdedExpr, optional: bool) -> Type<'a> {
        let of = self.types.get(&part.id).cloned().unwrap_or(Type::Dyn);
        if optional { of.unwrapped().0 } else { of }
    }

    fn judge(&mut self, part: &IdedExpr, in_format: bool) {
        match &part.expr {
            Expr::List(list) if !in_format => self.list(list),
            Expr::Map(map) if !in_format => self.map(map),
            Expr::Call(call) => self.call(part.id, call),
            _ => {}
        }
    }

    fn mismatch(&mut self, id: u64, wanted: &Type<'_>, found: &Type<'_>) {
        self.faults.push((id, format!("expected type '{wanted}' but found '{found}'")));
    }

    /// The first element says what the others must be; one fault is told.
    fn list(&mut self, list: &ListExpr) {
        let mut elements = list.elements.iter().enumerate().map(|(index, element)| {
            let optional = list.optional_indices.contains(&index);
            (element.id, self.type_of(element, optional))
        });
        let Some((_, first)) = elements.next() else { return };
        let other = elements.find(|(_, of)| !first.is_like(of));
        if let Some((id, of)) = other {
            self.mismatch(id, &first, &of);
        }
    }

    fn map(&mut self, map: &MapExpr) {
        let mut first: Option<(Type<'a>, Type<'a>)> = None;
        for entry in &map.entries {
            let EntryExpr::MapEntry(pair) = &entry.expr else { continue };
            let (key, value) = (self.type_of(&pair.key, false), self.type_of(&pair.value, pair.optional));
            let Some((keys, values)) = &first else {
                first = Some((key, value));
                continue;
            };
            let (keys, values) = (keys.clone(), values.clone());
            if !keys.is_like(&key) {
                self.mismatch(pair.key.id, &keys, &key);
            }
            if !values.is_like(&value) {
                self.mismatch(pair.value.id, &values, &value);
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) {
        let name = call.func_name.as_str();
        if let (Some(target), "format", [IdedExpr { expr: Expr::List(list), .. }]) =
            (&call.target, name, call.args.as_slice())
            && let Expr::Literal(LiteralValue::String(text)) = &target.expr
        {
            let checked = format::check(text.inner(), &list.elements, self.types);
            self.faults.extend(checked.map(|(at, message)| (at.unwrap_or(id), message)));
        }
        let Some(IdedExpr { expr: Expr::Literal(literal), id }) = call.args.first() else { return };
        let good = match (name, literal) {
            ("duration" | "timestamp", LiteralValue::String(text)) => converts(text.inner(), name),
            ("matches", LiteralValue::String(text)) => is_pattern(text.inner()),
            // A number has the right type, and yet cannot be converted.
            ("duration", LiteralValue::Int(_)) | ("duration" | "timestamp", LiteralValue::Null) => false,
            _ => true,
        };
        if !good {
            self.faults.push((*id, format!("invalid {name} argument")));
        }
    }
}

/// Whether a pattern compiles. Go and Rust know nearly the same patterns; those that only Go knows are taken.
fn is_pattern(text: &str) -> bool {
    let only_in_go = [r"\Q", r"\C", r"\0", "[["];
    Regex::new(text).is_ok()
        || only_in_go.iter().any(|part| text.contains(part))
        || Regex::new(&escaped_brackets(text)).is_ok()
}

/// A bracket inside brackets is an ordinary letter in Go.
fn escaped_brackets(text: &str) -> String {
    let (mut result, mut inside, mut escaped) = (String::new(), false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => {}
            '[' if inside => result.push('\\'),
            '[' => inside = true,
            ']' => inside = false,
            '&' | '~' if inside => result.push('\\'),
            _ => {}
        }
        escaped = letter == '\\' && !escaped;
        result.push(letter);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for good in ["1s", "1h30m", "-1.5h", ".5s", "0", "+1µs", "1.s"] {
            assert!(converts(good, "duration"), "{good}");
        }
        for bad in ["", "1", "1d", "s", ".s", "-", "1s2", "1 s"] {
            assert!(!converts(bad, "duration"), "{bad}");
        }
    }

    #[test]
    fn patterns() {
        for good in ["^a+$", r"[[:alpha:]\[]", "[a[b]", r"\Qa.b\E", r"[\w&&]"] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in ["[a", "(a", "*", "a{2,1}"] {
            assert!(!is_pattern(bad), "{bad}");
        }
    }

    #[test]
    fn conversions() {
        for (to, good, bad) in
            [("int", "-1", "1.5"), ("uint", "1", "+1"), ("double", "1e3", "one"), ("bool", "T", "yes")]
        {
            assert!(converts(good, to) && !converts(bad, to), "{to}");
        }
    }
}
