//! Conversions between types, where the library has fewer of them or other texts.

use std::sync::Arc;

use jiff::Timestamp;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as Cel};

use super::values;
use crate::go_duration;

pub(super) fn register(all: &mut Context<'_>) {
    all.add_function("dyn", |of: Cel| -> ResolveResult { Ok(of) });
    all.add_function("bool", |of: Cel| bool_of(&of));
    all.add_function("bytes", |of: Cel| bytes_of(of));
    all.add_function("int", |of: Cel| int_of(&of));
    all.add_function("uint", |of: Cel| uint_of(&of));
    all.add_function("double", |of: Cel| double_of(&of));
    all.add_function("timestamp", |of: Cel| timestamp_of(of));
    all.add_function("duration", |of: Cel| duration_of(of));
}

fn failed(function: &str, why: &str) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

fn bool_of(of: &Cel) -> ResolveResult {
    match of {
        Cel::Bool(value) => Ok(Cel::Bool(*value)),
        Cel::String(text) => match text.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Cel::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Cel::Bool(false)),
            _ => Err(failed("bool", "type conversion error from 'string' to 'bool'")),
        },
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn bytes_of(of: Cel) -> ResolveResult {
    match of {
        Cel::Bytes(_) => Ok(of),
        Cel::String(text) => Ok(Cel::Bytes(Arc::new(text.as_bytes().to_vec()))),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// The ends of what fits are left out: as a double they stand for the next number, too.
fn int_of(of: &Cel) -> ResolveResult {
    let overflow = || failed("int", "integer overflow");
    match of {
        Cel::Int(value) => Ok(Cel::Int(*value)),
        Cel::UInt(value) => i64::try_from(*value).map(Cel::Int).map_err(|_| overflow()),
        Cel::Float(value) if *value > i64::MIN as f64 && *value < i64::MAX as f64 => {
            Ok(Cel::Int(*value as i64))
        }
        Cel::Float(_) => Err(overflow()),
        Cel::String(text) => text
            .parse()
            .map(Cel::Int)
            .map_err(|_| failed("int", "type conversion error from 'string' to 'int'")),
        Cel::Timestamp(time) => Ok(Cel::Int(time.timestamp())),
        Cel::Duration(length) => length.num_nanoseconds().map(Cel::Int).ok_or_else(overflow),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn uint_of(of: &Cel) -> ResolveResult {
    let overflow = || failed("uint", "unsigned integer overflow");
    match of {
        Cel::UInt(value) => Ok(Cel::UInt(*value)),
        Cel::Int(value) => u64::try_from(*value).map(Cel::UInt).map_err(|_| overflow()),
        Cel::Float(value) if *value >= 0.0 && *value < u64::MAX as f64 => Ok(Cel::UInt(*value as u64)),
        Cel::Float(_) => Err(overflow()),
        Cel::String(text) => text
            .parse()
            .map(Cel::UInt)
            .map_err(|_| failed("uint", "type conversion error from 'string' to 'uint'")),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn double_of(of: &Cel) -> ResolveResult {
    match of {
        Cel::Float(value) => Ok(Cel::Float(*value)),
        Cel::Int(value) => Ok(Cel::Float(*value as f64)),
        Cel::UInt(value) => Ok(Cel::Float(*value as f64)),
        Cel::String(text) => text
            .replace('_', "")
            .parse()
            .map(Cel::Float)
            .map_err(|_| failed("double", "type conversion error from 'string' to 'double'")),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn timestamp_of(of: Cel) -> ResolveResult {
    let read = match &of {
        Cel::Timestamp(_) => return Ok(of),
        Cel::String(text) => values::timestamp(text.as_ref().clone()),
        Cel::Int(seconds) => {
            Timestamp::from_second(*seconds).ok().and_then(|time| values::timestamp(time.to_string()))
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    read.ok_or_else(|| {
        failed("timestamp", "type conversion error from 'string' to 'google.protobuf.Timestamp'")
    })
}

fn duration_of(of: Cel) -> ResolveResult {
    let read = match &of {
        Cel::Duration(_) => return Ok(of),
        Cel::String(text) => go_duration::nanoseconds(text).ok().and_then(values::duration),
        Cel::Int(nanoseconds) => values::duration(*nanoseconds),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    read.ok_or_else(|| {
        failed("duration", "type conversion error from 'string' to 'google.protobuf.Duration'")
    })
}
