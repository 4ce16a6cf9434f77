//! Functions that look at what stands behind them only where it matters.
//!
//! The library evaluates both sides of an alternative, and where both fail it tells of the second.

use std::sync::Arc;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value as Cel};

/// Whether both sides hold.
pub(super) const AND: &str = "@and";
/// Whether one of the sides holds.
pub(super) const OR: &str = "@or";

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function(AND, |call: &FunctionContext| of_sides(call, false));
    all.add_function(OR, |call: &FunctionContext| of_sides(call, true));
    all.add_function("or", |call: &FunctionContext| match held(call)? {
        Some(value) => Ok(Cel::Opaque(Arc::new(OptionalValue::of(value)))),
        None => alternative(call),
    });
    all.add_function("orValue", |call: &FunctionContext| held(call)?.map_or_else(|| alternative(call), Ok));
}

/// What comes of a question that is asked until one of the answers settles it. An error settles nothing; the first one stands if nothing
/// else does.
pub(super) fn settled(answers: impl Iterator<Item = ResolveResult>, settles: bool) -> ResolveResult {
    let mut failed = None;
    for answer in answers {
        match answer {
            Ok(Cel::Bool(found)) if found == settles => return Ok(Cel::Bool(settles)),
            Ok(Cel::Bool(_)) => {}
            Ok(_) => failed = failed.or(Some(ExecutionError::NoSuchOverload)),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(Cel::Bool(!settles)), Err)
}

/// Asks one side, then the other.
fn of_sides(call: &FunctionContext, settles: bool) -> ResolveResult {
    settled(call.args.iter().map(|side| call.ptx.resolve(side)), settles)
}

/// What the optional that a function is called on holds.
fn held(call: &FunctionContext) -> Result<Option<Cel>, ExecutionError> {
    let own = call.this.as_ref().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    Ok(<&OptionalValue>::try_from(own)?.value().cloned())
}

fn alternative(call: &FunctionContext) -> ResolveResult {
    let first = call.args.first().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    call.ptx.resolve(first)
}
