//! Arithmetic, comparisons, and what works on values of any type.

use super::{Table, fail, no_overload, time};
use crate::error::{Evaluated, EvaluationError};
use crate::run::{Machine, compare};
use crate::value::{ITEM_BYTES, List, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("_+_", add),
    ("_-_", subtract),
    ("_*_", multiply),
    ("_/_", divide),
    ("_%_", remainder),
    ("!_", not),
    ("-_", negate),
    ("_==_", equals),
    ("_!=_", differs),
    ("_<_", |_, args| ordered(args, Ordering::is_lt)),
    ("_<=_", |_, args| ordered(args, Ordering::is_le)),
    ("_>_", |_, args| ordered(args, Ordering::is_gt)),
    ("_>=_", |_, args| ordered(args, Ordering::is_ge)),
    ("@in", is_in),
    ("size", size),
    ("dyn", itself),
    ("type", type_of),
];

pub(super) fn is_operator(name: &str) -> bool {
    name.starts_with('_')
}

/// Whether an operator can be applied to a value on its left at all.
pub(super) fn takes(operator: &str, left: &Value) -> bool {
    let number = matches!(left, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    // Upstream asks these themselves whether they know the operator.
    if matches!(
        left,
        Value::String(_) | Value::Timestamp(..) | Value::Duration(_)
    ) {
        return true;
    }
    match operator {
        "_+_" => number || matches!(left, Value::Bytes(_) | Value::List(_)),
        "_-_" | "_*_" | "_/_" => number,
        "_%_" => number && !matches!(left, Value::Double(_)),
        _ => number || matches!(left, Value::Bytes(_) | Value::Bool(_)),
    }
}

fn add(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [left, right] => sum(machine, left, right),
        _ => no_overload(),
    }
}

pub(super) fn sum(machine: &mut Machine<'_, '_>, left: &Value, right: &Value) -> Evaluated<Value> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) => {
            machine.budget.allocate(left.len() + right.len())?;
            Ok(Value::from([&**left, &**right].concat()))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            machine.budget.allocate(left.len() + right.len())?;
            Ok(Value::Bytes([&**left, &**right].concat().into()))
        }
        (Value::List(left), Value::List(right)) => join_lists(machine, left, right),
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_add(*right)),
        (Value::Timestamp(seconds, nanos), Value::Duration(by))
        | (Value::Duration(by), Value::Timestamp(seconds, nanos)) => {
            time::shift(*seconds, *nanos, i128::from(*by))
        }
        _ => no_overload(),
    }
}

fn join_lists(machine: &mut Machine<'_, '_>, left: &List, right: &List) -> Evaluated<Value> {
    let length = left.items().len() + right.items().len();
    machine.budget.allocate(length * ITEM_BYTES)?;
    let items = left.items().iter().chain(right.items()).cloned();
    machine.limited(Value::List(Arc::new(items.collect())))
}

fn int(result: Option<i64>) -> Evaluated<Value> {
    match result {
        Some(result) => Ok(Value::Int(result)),
        None => fail("integer overflow"),
    }
}

fn uint(result: Option<u64>) -> Evaluated<Value> {
    match result {
        Some(result) => Ok(Value::Uint(result)),
        None => fail("unsigned integer overflow"),
    }
}

fn duration(result: Option<i64>) -> Evaluated<Value> {
    match result {
        Some(result) => Ok(Value::Duration(result)),
        None => fail("duration overflow"),
    }
}

fn subtract(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_sub(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_sub(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left - right)),
        [Value::Duration(left), Value::Duration(right)] => duration(left.checked_sub(*right)),
        [Value::Timestamp(seconds, nanos), Value::Duration(by)] => {
            time::shift(*seconds, *nanos, -i128::from(*by))
        }
        [
            Value::Timestamp(left, left_nanos),
            Value::Timestamp(right, right_nanos),
        ] => {
            let between =
                time::since_epoch(*left, *left_nanos) - time::since_epoch(*right, *right_nanos);
            duration(i64::try_from(between).ok())
        }
        _ => no_overload(),
    }
}

fn multiply(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_mul(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_mul(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left * right)),
        _ => no_overload(),
    }
}

fn divide(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            fail("division by zero")
        }
        [Value::Int(left), Value::Int(right)] => int(left.checked_div(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_div(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left / right)),
        _ => no_overload(),
    }
}

fn remainder(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            fail("modulus by zero")
        }
        [Value::Int(left), Value::Int(right)] => int(left.checked_rem(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_rem(*right)),
        _ => no_overload(),
    }
}

fn not(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => no_overload(),
    }
}

fn negate(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => no_overload(),
    }
}

fn equals(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        // What is on the left is asked, and these say nothing about values of another type.
        [Value::Opaque(left), Value::Opaque(right)] if !left.compares_with(right) => no_overload(),
        [Value::Opaque(_), Value::Opaque(_) | Value::Null] => both(machine, args),
        [Value::Opaque(_), _] => no_overload(),
        _ => both(machine, args),
    }
}

fn both(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [left, right] => machine.equal(left, right).map(Value::Bool),
        _ => no_overload(),
    }
}

fn differs(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [left, right] => machine.equal(left, right).map(|equal| Value::Bool(!equal)),
        _ => no_overload(),
    }
}

fn ordered(args: &[Value], holds: fn(Ordering) -> bool) -> Evaluated<Value> {
    match args {
        [left, right] => Ok(Value::Bool(holds(compare::order(left, right)?))),
        _ => no_overload(),
    }
}

fn is_in(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [item, container] => machine.is_in(item, container).map(Value::Bool),
        _ => no_overload(),
    }
}

fn size(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let size = match args {
        [Value::String(text)] => text.chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.items().len(),
        [Value::Map(map)] => map.entries().len(),
        _ => return no_overload(),
    };
    i64::try_from(size)
        .map(Value::Int)
        .map_err(|_| EvaluationError::TooLarge)
}

fn itself(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [value] => Ok(value.clone()),
        _ => no_overload(),
    }
}

fn type_of(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        // What type a message has is not told.
        [Value::Object(_) | Value::Patch(_)] => Ok(Value::Type("type".into())),
        [value] => Ok(Value::Type(value.type_name().into())),
        _ => no_overload(),
    }
}
