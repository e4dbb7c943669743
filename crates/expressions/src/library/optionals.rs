//! Values that may not be there.

use super::{Table, fail, no_overload};
use crate::error::Evaluated;
use crate::run::Machine;
use crate::value::{ITEM_BYTES, Value};
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("optional.none", |_, _| Ok(Value::NONE)),
    ("optional.of", |machine, args| match args {
        [value] => some(machine, value),
        _ => no_overload(),
    }),
    ("optional.ofNonZeroValue", |machine, args| match args {
        [value] if is_zero(value) => Ok(Value::NONE),
        [value] => some(machine, value),
        _ => no_overload(),
    }),
    ("optional.unwrap", unwrap_all),
    ("unwrapOpt", unwrap_all),
    ("hasValue", |_, args| match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => no_overload(),
    }),
    ("value", |_, args| match args {
        [Value::Optional(Some(value))] => Ok(Value::clone(value)),
        [Value::Optional(None)] => fail("optional.none() dereference"),
        _ => no_overload(),
    }),
    ("first", |machine, args| match args {
        [Value::List(list)] => end(machine, list.items().first()),
        _ => no_overload(),
    }),
    ("last", |machine, args| match args {
        [Value::List(list)] => end(machine, list.items().last()),
        _ => no_overload(),
    }),
];

fn some(machine: &mut Machine<'_, '_>, value: &Value) -> Evaluated<Value> {
    machine.budget.allocate(ITEM_BYTES)?;
    machine.limited(Value::Optional(Some(Arc::new(value.clone()))))
}

fn end(machine: &mut Machine<'_, '_>, item: Option<&Value>) -> Evaluated<Value> {
    match item {
        Some(value) => some(machine, value),
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

fn unwrap_all(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::List(list)] = args else {
        return no_overload();
    };
    machine.budget.allocate(list.items().len() * ITEM_BYTES)?;
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
