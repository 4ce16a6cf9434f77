//! Loops that the library does not run as Kubernetes does.

use std::sync::Arc;

use kube_cel::cel::common::ast::Expr;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value as Cel};

use super::functions::key_of;

/// Whether all elements pass: what they are in, the question, and the names it has for an element (or for its key and its value).
pub(super) const ALL: &str = "@all";
/// Whether any element passes.
pub(super) const EXISTS: &str = "@exists";
/// The places of a list, or the keys of a map.
pub(super) const KEYS: &str = "@keys";

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function(ALL, |call: &FunctionContext| settled(call, false));
    all.add_function(EXISTS, |call: &FunctionContext| settled(call, true));
    all.add_function(KEYS, |range: Cel| keys(&range).map(|keys| Cel::List(Arc::new(keys))));
}

/// Asks of one element after the other until one settles it. An error settles nothing; the first one stands if nothing else does.
fn settled(call: &FunctionContext, settles: bool) -> ResolveResult {
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
    let mut failed = None;
    for key in keys.iter() {
        if let Some(first) = names.first() {
            scope.add_variable_from_value(*first, key.clone());
        }
        if let Some(second) = names.get(1) {
            scope.add_variable_from_value(*second, value_at(&range, key)?);
        }
        match scope.resolve(judged) {
            Ok(Cel::Bool(found)) if found == settles => return Ok(Cel::Bool(settles)),
            Ok(Cel::Bool(_)) => {}
            Ok(_) => failed = failed.or(Some(ExecutionError::NoSuchOverload)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(Cel::Bool(!settles)), Err)
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
        Cel::Map(map) => Ok(map.map.keys().map(|key| Cel::from(key.clone())).collect()),
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
