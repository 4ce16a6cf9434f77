//! Functions on lists. The library's know no order of bytes, and nothing of lists of optionals.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as Cel};

type List = Arc<Vec<Cel>>;

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function("sum", |This(list): This<List>| sum(&list));
    all.add_function("min", |This(list): This<List>| outermost("min", &list, Ordering::Less));
    all.add_function("max", |This(list): This<List>| outermost("max", &list, Ordering::Greater));
    all.add_function("isSorted", |This(list): This<List>| is_sorted(&list));
    all.add_function("sort", |This(list): This<List>| sorted_by(&list, &list));
    all.add_function("@sortByAssociatedKeys", |This(list): This<List>, keys: List| sorted_by(&list, &keys));
    all.add_function("optional.unwrap", |list: List| unwrapped(&list));
    all.add_function("unwrapOpt", |This(list): This<List>| unwrapped(&list));
}

/// The sum of a list; of an empty one, nothing as a whole number.
fn sum(list: &[Cel]) -> ResolveResult {
    let mut items = list.iter().cloned();
    let Some(first) = items.next() else { return Ok(Cel::Int(0)) };
    items.try_fold(first, |sum, item| sum + item)
}

fn compared(one: &Cel, other: &Cel) -> Result<Ordering, ExecutionError> {
    let order = match (one, other) {
        (Cel::Bytes(one), Cel::Bytes(other)) => Some(one.cmp(other)),
        _ => one.partial_cmp(other),
    };
    order.ok_or(ExecutionError::NoSuchOverload)
}

/// The first element that no other is beyond.
fn outermost(function: &str, list: &[Cel], beyond: Ordering) -> ResolveResult {
    let mut items = list.iter();
    let first = items.next();
    let mut found = first.ok_or_else(|| {
        ExecutionError::function_error(function, format!("{function} called on empty list"))
    })?;
    for item in items {
        if compared(item, found)? == beyond {
            found = item;
        }
    }
    Ok(found.clone())
}

fn is_sorted(list: &[Cel]) -> ResolveResult {
    for pair in list.windows(2) {
        if compared(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(Cel::Bool(false));
        }
    }
    Ok(Cel::Bool(true))
}

/// The elements of a list in the order of their keys.
fn sorted_by(list: &[Cel], keys: &[Cel]) -> ResolveResult {
    for pair in keys.windows(2) {
        compared(&pair[0], &pair[1])?;
    }
    let mut order: Vec<usize> = (0..list.len().min(keys.len())).collect();
    order.sort_by(|one, other| compared(&keys[*one], &keys[*other]).unwrap_or(Ordering::Equal));
    Ok(Cel::List(Arc::new(order.into_iter().map(|place| list[place].clone()).collect())))
}

/// What the optionals of a list hold.
fn unwrapped(list: &[Cel]) -> ResolveResult {
    let mut held = Vec::new();
    for item in list {
        held.extend(<&OptionalValue>::try_from(item)?.value().cloned());
    }
    Ok(Cel::List(Arc::new(held)))
}
