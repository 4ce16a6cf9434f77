//! Loops that the library does not run as Kubernetes does.

use std::sync::Arc;

use kube_cel::cel::common::ast::Expr;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value as Cel};

use super::choices::settled;
use super::functions::key_of;

/// Whether all elements pass: what they are in, the question, and the names it has for an element (or for its key and its value).
pub(super) const ALL: &str = "@all";
/// Whether any element passes.
pub(super) const EXISTS: &str = "@exists";
/// The places of a list, or the keys of a map.
pub(super) const KEYS: &str = "@keys";

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function(ALL, |call: &FunctionContext| of_elements(call, false));
    all.add_function(EXISTS, |call: &FunctionContext| of_elements(call, true));
    all.add_function(KEYS, |range: Cel| keys(&range).map(|keys| Cel::List(Arc::new(keys))));
}

/// Asks of one element after the other.
fn of_elements(call: &FunctionContext, settles: bool) -> ResolveResult {
    let [range, judged, names @ ..] = call.args else {
        return Err(ExecutionError::invalid_argument_count(3, call.args.len()));
    };
    let names: Vec<&str> = names.iter().filter_map(|name| name_of(&name.expr)).collect();
    let range = call.ptx.resolve(range)?;
    let keys = match &range {
        Cel::List(items) if names.len() == 1 => Arc::clone(items),
        _ => Arc::new(keys(&range)?),
    };
    let mut scope = call.ptx.new_inner_scope();
    let answers = keys.iter().map(|key| {
        if let Some(first) = names.first() {
            scope.add_variable_from_value(*first, key.clone());
        }
        if let Some(second) = names.get(1) {
            scope.add_variable_from_value(*second, value_at(&range, key)?);
        }
        scope.resolve(judged)
    });
    settled(answers, settles)
}

fn name_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Ident(name) => Some(name),
        _ => None,
    }
}

fn keys(range: &Cel) -> Result<Vec<Cel>, ExecutionError> {
    match range {
        Cel::List(items) => Ok((0_i64..).take(items.len()).map(Cel::Int).collect()),
        Cel::Map(map) => {
            // In one order, for the same rule to say the same every time.
            let mut keys: Vec<_> = map.map.keys().collect();
            keys.sort();
            Ok(keys.into_iter().map(|key| Cel::from(key.clone())).collect())
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn value_at(range: &Cel, key: &Cel) -> ResolveResult {
    let found = match (range, key) {
        (Cel::List(items), Cel::Int(place)) => {
            usize::try_from(*place).ok().and_then(|place| items.get(place))
        }
        (Cel::Map(map), key) => key_of(key).and_then(|key| map.map.get(&key)),
        _ => None,
    };
    found.cloned().ok_or(ExecutionError::NoSuchOverload)
}
