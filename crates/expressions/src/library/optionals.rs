//! Optional values (cel-go: `OptionalTypes`).

use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::value::{ITEM_BYTES, Value};
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("optional.none", |_, _| Ok(Value::NONE)),
    ("optional.of", |interpreter, args| match args {
        [value] => some(interpreter, value),
        _ => no_overload(),
    }),
    ("optional.ofNonZeroValue", |interpreter, args| match args {
        [value] if is_zero(value) => Ok(Value::NONE),
        [value] => some(interpreter, value),
        _ => no_overload(),
    }),
    ("optional.unwrap", unwrap_optionals),
    ("unwrapOpt", unwrap_optionals),
    ("hasValue", |_, args| match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => no_overload(),
    }),
    ("value", |_, args| match args {
        [Value::Optional(Some(value))] => Ok(Value::clone(value)),
        [Value::Optional(None)] => fail("optional.none() dereference"),
        _ => no_overload(),
    }),
    ("first", |interpreter, args| match args {
        [Value::List(list)] => optional_item(interpreter, list.items().first()),
        _ => no_overload(),
    }),
    ("last", |interpreter, args| match args {
        [Value::List(list)] => optional_item(interpreter, list.items().last()),
        _ => no_overload(),
    }),
];

fn some(interpreter: &mut Interpreter<'_, '_>, value: &Value) -> EvaluationResult<Value> {
    interpreter.budget.allocate(ITEM_BYTES)?;
    interpreter.check_size(Value::Optional(Some(Arc::new(value.clone()))))
}

fn optional_item(
    interpreter: &mut Interpreter<'_, '_>,
    item: Option<&Value>,
) -> EvaluationResult<Value> {
    match item {
        Some(value) => some(interpreter, value),
        None => Ok(Value::NONE),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(bool) => !bool,
        Value::Int(int) => *int == 0,
        Value::Uint(uint) => *uint == 0,
        Value::Double(double) => *double == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Duration(nanos) => *nanos == 0,
        Value::List(list) => list.items().is_empty(),
        Value::Map(map) => map.entries().is_empty(),
        Value::Object(object) => object.fields.is_empty(),
        _ => false,
    }
}

fn unwrap_optionals(
    interpreter: &mut Interpreter<'_, '_>,
    args: &[Value],
) -> EvaluationResult<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    interpreter
        .budget
        .allocate(list.items().len() * ITEM_BYTES)?;
    let mut items = Vec::new();
    for item in list.items() {
        match item {
            Value::Optional(Some(value)) => items.push(Value::clone(value)),
            Value::Optional(None) => {}
            _ => return no_overload(),
        }
    }
    Ok(Value::list(items))
}
