//! Texts with clauses (`'%d of %s'.format([…])`), held against the arguments they are given.

use std::collections::HashMap;

use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};

use super::types::Type;

/// What is wrong with a format and its arguments, and at which of them, if it is about one.
pub(super) fn check(
    text: &str,
    args: &[IdedExpr],
    types: &HashMap<u64, Type<'_>>,
) -> Option<(Option<u64>, String)> {
    match clauses(text, args, types) {
        Err(Wrong { at, message }) => Some((at, message)),
        Ok(wanted) if args.len() > wanted => {
            let got = args.len();
            let message =
                format!("too many arguments supplied to string.format (expected {wanted}, got {got})");
            Some((None, message))
        }
        Ok(_) => None,
    }
}

struct Wrong {
    at: Option<u64>,
    message: String,
}

impl Wrong {
    fn whole(message: String) -> Self {
        Wrong { at: None, message }
    }
}

/// Goes through the clauses and returns how many there are.
fn clauses(text: &str, args: &[IdedExpr], types: &HashMap<u64, Type<'_>>) -> Result<usize, Wrong> {
    let mut rest = text;
    let mut count = 0;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err(Wrong::whole("unexpected end of string".to_owned()));
        }
        let Some(arg) = args.get(count) else {
            return Err(Wrong::whole(format!("index {count} out of range")));
        };
        count += 1;
        let unread = |message: String| Wrong::whole(format!("could not parse formatting clause: {message}"));
        if let Some(precision) = rest.strip_prefix('.') {
            let after = precision.trim_start_matches(|letter: char| letter.is_ascii_digit());
            let digits = &precision[..precision.len() - after.len()];
            let about = |message: String| unread(format!("error while parsing precision: {message}"));
            if after.is_empty() {
                return Err(about("could not find end of precision specifier".to_owned()));
            }
            if digits.parse::<i64>().is_err() {
                let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                return Err(about(format!(
                    "error while converting precision to integer: strconv.Atoi: parsing \"{digits}\": {why}"
                )));
            }
            rest = after;
        }
        let Some(clause) = rest.chars().next() else { return Ok(count) };
        rest = &rest[clause.len_utf8()..];
        if !"sdfebxXo".contains(clause) {
            return Err(unread(format!("unrecognized formatting clause \"{clause}\"")));
        }
        if let Some((at, message)) = unfit(clause, arg, types) {
            return Err(Wrong { at: Some(at), message: format!("error during formatting: {message}") });
        }
    }
    Ok(count)
}

/// The argument, or the part of it, that a clause cannot show.
fn unfit(clause: char, arg: &IdedExpr, types: &HashMap<u64, Type<'_>>) -> Option<(u64, String)> {
    let of = |id: u64| types.get(&id).cloned().unwrap_or(Type::Dyn);
    let here = of(arg.id);
    let number = matches!(here, Type::Int | Type::Uint);
    let (fits, message) = match clause {
        's' => {
            let id = not_text(arg, types)?;
            let message = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                           durations, and timestamps";
            return Some((id, format!("{message}, was given {}", of(id).name())));
        }
        'd' => (number, "decimal clause can only be used on integers"),
        'f' => (matches!(here, Type::Double | Type::Text), "fixed-point clause can only be used on doubles"),
        'e' => (matches!(here, Type::Double | Type::Text), "scientific clause can only be used on doubles"),
        'b' => (number || here == Type::Bool, "only integers and bools can be formatted as binary"),
        'x' | 'X' => (
            number || matches!(here, Type::Text | Type::Bytes),
            "only integers, byte buffers, and strings can be formatted as hex",
        ),
        _ => (number, "octal clause can only be used on integers"),
    };
    (!fits && here != Type::Dyn).then(|| (arg.id, format!("{message}, was given {}", here.name())))
}

/// The first part of a value that has no text.
fn not_text(part: &IdedExpr, types: &HashMap<u64, Type<'_>>) -> Option<u64> {
    if matches!(types.get(&part.id), Some(Type::Optional(_) | Type::Opaque(_) | Type::Object(_))) {
        return Some(part.id);
    }
    match &part.expr {
        Expr::List(list) => list.elements.iter().find_map(|element| not_text(element, types)),
        Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(pair) => not_text(&pair.key, types).or_else(|| not_text(&pair.value, types)),
            EntryExpr::StructField(_) => None,
        }),
        _ => None,
    }
}
