//! Type conversion functions.

use super::{FunctionTable, fail, no_overload, time};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::Value;
use rhumb_meta::gotext;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("bool", to_bool),
    ("bytes", to_bytes),
    ("double", to_double),
    ("int", to_int),
    ("uint", to_uint),
    ("string", to_string),
    ("duration", to_duration),
    ("timestamp", to_timestamp),
];

fn conversion_error(value: &Value, to: &str) -> EvaluationResult<Value> {
    let from = value.type_name();
    fail(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_bool(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Bool(_)] => Ok(args[0].clone()),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => conversion_error(&args[0], "bool"),
        },
        [_] => no_overload(),
        _ => no_overload(),
    }
}

fn to_bytes(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Bytes(_)] => Ok(args[0].clone()),
        [Value::String(text)] => {
            interpreter.budget.allocate(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => no_overload(),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "CEL defines the conversion as lossy"
)]
fn to_double(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Double(_)] => Ok(args[0].clone()),
        [Value::Int(int)] => Ok(Value::Double(*int as f64)),
        [Value::Uint(uint)] => Ok(Value::Double(*uint as f64)),
        [Value::String(text)] => match parse_double(text) {
            Some(double) => Ok(Value::Double(double)),
            None => conversion_error(&args[0], "double"),
        },
        _ => no_overload(),
    }
}

/// Parses a float as Go does: infinity is allowed, overflow to infinity is not.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let double: f64 = text.parse().ok()?;
    let is_infinity_literal = text.to_ascii_lowercase().contains("inf");
    (double.is_finite() || double.is_nan() || is_infinity_literal).then_some(double)
}

fn to_int(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Int(_)] => Ok(args[0].clone()),
        [Value::Uint(uint)] => match i64::try_from(*uint) {
            Ok(int) => Ok(Value::Int(int)),
            Err(_) => fail("integer overflow"),
        },
        [Value::Double(double)] => match truncate_to_int(*double) {
            Some(int) => Ok(Value::Int(int)),
            None => fail("integer overflow"),
        },
        [Value::String(text)] => match text.parse() {
            Ok(int) => Ok(Value::Int(int)),
            Err(_) => conversion_error(&args[0], "int"),
        },
        [Value::Timestamp(seconds, _)] => Ok(Value::Int(*seconds)),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        _ => no_overload(),
    }
}

fn truncate_to_int(double: f64) -> Option<i64> {
    // Both limits are excluded, as upstream does.
    let limit = 9_223_372_036_854_775_808.0;
    #[expect(clippy::cast_possible_truncation, reason = "the conversion truncates")]
    (double > -limit && double < limit).then_some(double as i64)
}

fn to_uint(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let overflow = || fail("unsigned integer overflow");
    match args {
        [Value::Uint(_)] => Ok(args[0].clone()),
        [Value::Int(int)] => match u64::try_from(*int) {
            Ok(uint) => Ok(Value::Uint(uint)),
            Err(_) => overflow(),
        },
        [Value::Double(double)] => {
            if !(*double >= 0.0 && *double < 18_446_744_073_709_551_616.0) {
                return overflow();
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "in range"
            )]
            Ok(Value::Uint(*double as u64))
        }
        [Value::String(text)] => match text.parse() {
            Ok(uint) if !text.starts_with('+') => Ok(Value::Uint(uint)),
            _ => conversion_error(&args[0], "uint"),
        },
        _ => no_overload(),
    }
}

fn to_string(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let text = match args {
        [Value::String(_)] => return Ok(args[0].clone()),
        [value] => match string_of(value)? {
            Some(text) => text,
            None => return no_overload(),
        },
        _ => return no_overload(),
    };
    interpreter.budget.allocate(text.len())?;
    Ok(Value::from(text))
}

/// The result of `string()`, if the type has the conversion.
pub(super) fn string_of(value: &Value) -> EvaluationResult<Option<String>> {
    Ok(Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => gotext::float(*double),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return fail("invalid UTF-8 in bytes, cannot convert to string"),
        },
        Value::Duration(nanos) => time::format_duration(*nanos),
        Value::Timestamp(seconds, nanos) => time::format_timestamp(*seconds, *nanos),
        Value::Type(name) => name.to_string(),
        Value::Opaque(OpaqueValue::Ip(ip)) => ip.to_string(),
        Value::Opaque(OpaqueValue::Cidr(ip, bits)) => format!("{ip}/{bits}"),
        _ => return Ok(None),
    }))
}

fn to_duration(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Duration(_)] => Ok(args[0].clone()),
        [Value::Int(nanos)] => Ok(Value::Duration(*nanos)),
        [Value::String(text)] => match time::parse_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => conversion_error(&args[0], "google.protobuf.Duration"),
        },
        _ => no_overload(),
    }
}

fn to_timestamp(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Timestamp(..)] => Ok(args[0].clone()),
        [Value::Int(seconds)] => match time::is_in_range(*seconds) {
            true => Ok(Value::Timestamp(*seconds, 0)),
            false => fail("timestamp overflow"),
        },
        [Value::String(text)] => match time::parse_timestamp(text) {
            Some((seconds, nanos)) => Ok(Value::Timestamp(seconds, nanos)),
            None => conversion_error(&args[0], "google.protobuf.Timestamp"),
        },
        _ => no_overload(),
    }
}
