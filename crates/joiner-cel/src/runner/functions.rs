//! Functions that the library lacks, or that give something else there.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr, IdedExpr};
use kube_cel::cel::extractors::Arguments;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value as Cel};

/// Whether values are equal, whatever their types: numbers are by what they count.
pub(super) const EQUAL: &str = "@equal";
pub(super) const UNEQUAL: &str = "@unequal";
/// The opposite of a number.
pub(super) const NEGATE: &str = "@negate";

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function(EQUAL, |one: Cel, other: Cel| one == other);
    all.add_function(UNEQUAL, |one: Cel, other: Cel| one != other);
    all.add_function(NEGATE, |of: Cel| negated(&of));
    all.add_function("size", |call: &FunctionContext| size(&own_or_first(call)?));
    all.add_function("cel.@mapInsert", map_insert);
    all.add_function("format.named", named_format);
    all.add_function("type", |of: Cel| type_of(&of).to_owned());
    for name in TYPES {
        all.add_variable_from_value(*name, Cel::String(Arc::new((*name).to_owned())));
    }
    let named = |name: &str, value: Cel| {
        Cel::Map(Map { map: Arc::new(HashMap::from([(Key::String(Arc::new(name.to_owned())), value)])) })
    };
    let times = ["Duration", "Timestamp"].map(|name| {
        let value = Cel::String(Arc::new(format!("google.protobuf.{name}")));
        (Key::String(Arc::new(name.to_owned())), value)
    });
    all.add_variable_from_value(
        "google",
        named("protobuf", Cel::Map(Map { map: Arc::new(HashMap::from(times)) })),
    );
}

/// Names of types, which stand for the types.
const TYPES: &[&str] =
    &["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// The name of the type of a value.
fn type_of(of: &Cel) -> &str {
    match of {
        Cel::Bool(_) => "bool",
        Cel::Bytes(_) => "bytes",
        Cel::Float(_) => "double",
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        Cel::String(_) => "string",
        Cel::Duration(_) => "google.protobuf.Duration",
        Cel::Timestamp(_) => "google.protobuf.Timestamp",
        Cel::Function(..) => "function",
        Cel::Opaque(value) => value.runtime_type_name(),
    }
}

/// What a function is called on, before its name or behind it.
fn own_or_first(call: &FunctionContext) -> ResolveResult {
    match (&call.this, call.args) {
        (Some(own), _) => Ok(own.clone()),
        (None, [first, ..]) => call.ptx.resolve(first),
        (None, []) => Err(ExecutionError::MissingArgumentOrTarget),
    }
}

/// The library counts the bytes of a text; CEL counts its letters.
fn size(of: &Cel) -> ResolveResult {
    let size = match of {
        Cel::String(text) => text.chars().count(),
        Cel::Bytes(bytes) => bytes.len(),
        Cel::List(items) => items.len(),
        Cel::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Cel::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

fn negated(of: &Cel) -> ResolveResult {
    match of {
        Cel::Int(number) => number
            .checked_neg()
            .map(Cel::Int)
            .ok_or_else(|| ExecutionError::function_error(NEGATE, "integer overflow")),
        Cel::Float(number) => Ok(Cel::Float(-number)),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// A format by its name; nothing where there is no such format. The library gives it bare, or null.
fn named_format(name: Arc<String>) -> ResolveResult {
    let found = match by_the_library("format.named", Cel::String(name))? {
        Cel::Null => OptionalValue::none(),
        format => OptionalValue::of(format),
    };
    Ok(Cel::Opaque(Arc::new(found)))
}

/// What the library's own function gives. Some values have types that only the library can make, or look into.
pub(super) fn by_the_library(function: &str, of: Cel) -> ResolveResult {
    let mut scope = Context::default().with_all();
    scope.add_variable_from_value("self", of);
    let own = IdedExpr { id: 0, expr: Expr::Ident("self".to_owned()) };
    let call = CallExpr { func_name: function.to_owned(), target: None, args: vec![own] };
    scope.resolve(&IdedExpr { id: 0, expr: Expr::Call(call) })
}

/// A map with one entry more (a key and a value), or with those of another map; none may be there already.
fn map_insert(Arguments(given): Arguments) -> ResolveResult {
    let (map, more) = match given.as_slice() {
        [Cel::Map(map), key, value] => {
            let key = key_of(key).ok_or(ExecutionError::NoSuchOverload)?;
            (map, vec![(key, value.clone())])
        }
        [Cel::Map(map), Cel::Map(more)] => {
            (map, more.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    let mut entries = map.map.as_ref().clone();
    for (key, value) in more {
        if entries.insert(key, value).is_some() {
            return Err(ExecutionError::function_error(
                "cel.@mapInsert",
                "insert failed: key already exists",
            ));
        }
    }
    Ok(Cel::Map(Map { map: Arc::new(entries) }))
}

/// A value as a key of a map, if it can be one.
pub(super) fn key_of(value: &Cel) -> Option<Key> {
    match value {
        Cel::Int(value) => Some(Key::Int(*value)),
        Cel::UInt(value) => Some(Key::Uint(*value)),
        Cel::Bool(value) => Some(Key::Bool(*value)),
        Cel::String(value) => Some(Key::String(Arc::clone(value))),
        _ => None,
    }
}
