//! Rules judged before they run: is every part of the right type?
//!
//! A rule is read into a tree whose parts know where they stand ([`parser`], [`primary`], [`macros`]); a walk finds the type of each part
//! ([`part_types`]) from the schema ([`schema`]) and from the functions that rules can call ([`library`]); then literals are looked
//! at that no object can make right ([`literals`]). Faults, their places and their words are those of Kubernetes. What cannot be
//! judged here is taken: a rule that Kubernetes takes must never be refused.

mod depth;
mod faults;
mod format;
mod lexer;
mod library;
mod literals;
mod macros;
mod parser;
mod part_types;
mod primary;
mod schema;
mod types;

#[cfg(test)]
pub(super) mod tests;

use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;

pub(super) use depth::{Room, room_to_run};
#[cfg(test)]
pub(super) use library::names;
pub(super) use macros::RESULT;
pub(super) use schema::type_of;
pub(super) use types::Type;

use faults::Fault;
use parser::{Tree, Unread};

/// How long a rule may be that the library reads: nobody knows before how deep it is.
const LONGEST_UNREAD: usize = 1000;

/// A rule whose types are right, or that cannot be judged.
pub(super) struct Checked<'a> {
    /// The rule as it was read.
    pub tree: Option<Tree>,
    /// What it gives, if that is known.
    pub gives: Option<Type<'a>>,
    /// Whether it names the old value.
    pub names_old: bool,
    /// Why it can never run, although its types are right.
    pub impossible: Option<String>,
}

/// Judges an expression over `self` and `oldSelf`. The error is what Kubernetes says.
pub(super) fn check<'a>(text: &str, own: &Type<'a>, old: &Type<'a>) -> Result<Checked<'a>, String> {
    let length = text.chars().count();
    if length > depth::LONGEST {
        let limit = depth::LONGEST;
        return Err(nowhere(&format!(
            "expression code point size exceeds limit: size: {length}, limit {limit}"
        )));
    }
    let tree = match parser::parse(text) {
        Ok(tree) => tree,
        Err(Unread::Wrong(found)) => return Err(faults::shown(text, &found)),
        Err(Unread::TooDeep(message)) => return Err(nowhere(message)),
        Err(Unread::Unknown) => return unread(text),
    };
    let names = vec![("self".to_owned(), own.clone()), ("oldSelf".to_owned(), old.clone())];
    let mut walked = part_types::walk(&tree, names);
    if walked.unsure {
        return Ok(Checked { tree: Some(tree), gives: None, names_old: walked.names_old, impossible: None });
    }
    if walked.faults.is_empty() {
        walked.faults = literals::check(&tree, &walked.types);
    }
    if !walked.faults.is_empty() {
        return Err(faults::shown(text, &walked.faults));
    }
    let impossible = literals::impossible(&tree, &walked.types);
    let gives = walked.types.remove(&tree.root.id);
    Ok(Checked { tree: Some(tree), gives, names_old: walked.names_old, impossible })
}

/// A fault of the whole text.
fn nowhere(message: &str) -> String {
    format!("ERROR: <input>:-1:0: {message}")
}

/// The tree of an expression that was judged to be right, macros written out. What our parser cannot read, the library's may; that goes as deep
/// as a text is long.
pub(super) fn read(text: &str) -> Option<IdedExpr> {
    match parser::parse(text) {
        Ok(tree) => Some(tree.root),
        Err(_) if text.len() > LONGEST_UNREAD => None,
        Err(_) => Parser::new().enable_optional_syntax(true).parse(text).ok(),
    }
}

/// What our parser cannot read is read by the library's, which knows what to say about it.
fn unread<'a>(text: &str) -> Result<Checked<'a>, String> {
    match Parser::new().enable_optional_syntax(true).parse(text) {
        Ok(expression) => {
            let names_old = expression.references().has_variable("oldSelf");
            Ok(Checked { tree: None, gives: None, names_old, impossible: None })
        }
        Err(errors) => {
            let place = |line: isize, column: isize| {
                let lines = text.split_inclusive('\n').take(usize::try_from(line - 1).unwrap_or(0));
                let start: usize = lines.map(str::len).sum();
                let ahead = text[start..].chars().take(usize::try_from(column - 1).unwrap_or(0));
                start + ahead.map(char::len_utf8).sum::<usize>()
            };
            // It goes on after a fault of syntax, and finds parts missing that Kubernetes does not miss.
            let syntax = |message: &str| message.starts_with("Syntax error");
            let any = errors.errors.iter().any(|error| syntax(&error.msg));
            let found: Vec<Fault> = errors
                .errors
                .into_iter()
                .filter(|error| !any || syntax(&error.msg))
                .map(|error| Fault { place: place(error.pos.0, error.pos.1), message: error.msg })
                .collect();
            Err(faults::shown(text, &found))
        }
    }
}
