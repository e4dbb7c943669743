//! Operators, and the functions `size`, `dyn` and `type`.

use super::{FunctionTable, fail, no_overload, time};
use crate::error::{EvaluationError, EvaluationResult};
use crate::interpreter::{Interpreter, compare};
use crate::value::{ITEM_BYTES, ListValue, Value};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("_+_", add),
    ("_-_", subtract),
    ("_*_", multiply),
    ("_/_", divide),
    ("_%_", remainder),
    ("!_", not),
    ("-_", negate),
    ("_==_", equals),
    ("_!=_", not_equals),
    ("_<_", |_, args| compare_operator(args, Ordering::is_lt)),
    ("_<=_", |_, args| compare_operator(args, Ordering::is_le)),
    ("_>_", |_, args| compare_operator(args, Ordering::is_gt)),
    ("_>=_", |_, args| compare_operator(args, Ordering::is_ge)),
    ("@in", is_in),
    ("size", size),
    ("dyn", dyn_identity),
    ("type", type_of),
];

pub(super) fn is_operator(name: &str) -> bool {
    name.starts_with('_')
}

/// Whether values of the left operand's type implement the operator.
pub(super) fn supports_left_operand(operator: &str, left: &Value) -> bool {
    let number = matches!(left, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    // Upstream's implementations of these types report the missing overload themselves.
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

fn add(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [left, right] => add_values(interpreter, left, right),
        _ => no_overload(),
    }
}

pub(super) fn add_values(
    interpreter: &mut Interpreter<'_, '_>,
    left: &Value,
    right: &Value,
) -> EvaluationResult<Value> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) => {
            interpreter.budget.allocate(left.len() + right.len())?;
            Ok(Value::from([&**left, &**right].concat()))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            interpreter.budget.allocate(left.len() + right.len())?;
            Ok(Value::Bytes([&**left, &**right].concat().into()))
        }
        (Value::List(left), Value::List(right)) => concat_lists(interpreter, left, right),
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_add(*right)),
        (Value::Timestamp(seconds, nanos), Value::Duration(by))
        | (Value::Duration(by), Value::Timestamp(seconds, nanos)) => {
            time::add_nanos(*seconds, *nanos, i128::from(*by))
        }
        _ => no_overload(),
    }
}

fn concat_lists(
    interpreter: &mut Interpreter<'_, '_>,
    left: &ListValue,
    right: &ListValue,
) -> EvaluationResult<Value> {
    let length = left.items().len() + right.items().len();
    interpreter.budget.allocate(length * ITEM_BYTES)?;
    let items = left.items().iter().chain(right.items()).cloned();
    interpreter.check_size(Value::List(Arc::new(items.collect())))
}

fn int(result: Option<i64>) -> EvaluationResult<Value> {
    match result {
        Some(result) => Ok(Value::Int(result)),
        None => fail("integer overflow"),
    }
}

fn uint(result: Option<u64>) -> EvaluationResult<Value> {
    match result {
        Some(result) => Ok(Value::Uint(result)),
        None => fail("unsigned integer overflow"),
    }
}

fn duration(result: Option<i64>) -> EvaluationResult<Value> {
    match result {
        Some(result) => Ok(Value::Duration(result)),
        None => fail("duration overflow"),
    }
}

fn subtract(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_sub(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_sub(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left - right)),
        [Value::Duration(left), Value::Duration(right)] => duration(left.checked_sub(*right)),
        [Value::Timestamp(seconds, nanos), Value::Duration(by)] => {
            time::add_nanos(*seconds, *nanos, -i128::from(*by))
        }
        [
            Value::Timestamp(left, left_nanos),
            Value::Timestamp(right, right_nanos),
        ] => {
            let difference = time::nanos_since_epoch(*left, *left_nanos)
                - time::nanos_since_epoch(*right, *right_nanos);
            duration(i64::try_from(difference).ok())
        }
        _ => no_overload(),
    }
}

fn multiply(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Int(left), Value::Int(right)] => int(left.checked_mul(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_mul(*right)),
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left * right)),
        _ => no_overload(),
    }
}

fn divide(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
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

fn remainder(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            fail("modulus by zero")
        }
        [Value::Int(left), Value::Int(right)] => int(left.checked_rem(*right)),
        [Value::Uint(left), Value::Uint(right)] => uint(left.checked_rem(*right)),
        _ => no_overload(),
    }
}

fn not(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => no_overload(),
    }
}

fn negate(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::Int(value)] => int(value.checked_neg()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => no_overload(),
    }
}

fn equals(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        // The left operand decides, and opaque types have no overload for other types.
        [Value::Opaque(left), Value::Opaque(right)] if !left.is_comparable_with(right) => {
            no_overload()
        }
        [Value::Opaque(_), Value::Opaque(_) | Value::Null] => equal_values(interpreter, args),
        [Value::Opaque(_), _] => no_overload(),
        _ => equal_values(interpreter, args),
    }
}

fn equal_values(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [left, right] => interpreter.equal(left, right).map(Value::Bool),
        _ => no_overload(),
    }
}

fn not_equals(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [left, right] => interpreter
            .equal(left, right)
            .map(|equal| Value::Bool(!equal)),
        _ => no_overload(),
    }
}

fn compare_operator(args: &[Value], accept: fn(Ordering) -> bool) -> EvaluationResult<Value> {
    match args {
        [left, right] => Ok(Value::Bool(accept(compare::compare_values(left, right)?))),
        _ => no_overload(),
    }
}

fn is_in(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [item, container] => interpreter.is_in(item, container).map(Value::Bool),
        _ => no_overload(),
    }
}

fn size(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
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

fn dyn_identity(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [value] => Ok(value.clone()),
        _ => no_overload(),
    }
}

fn type_of(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        // Upstream returns `type` for messages.
        [Value::Object(_) | Value::JsonPatch(_)] => Ok(Value::Type("type".into())),
        [value] => Ok(Value::Type(value.type_name().into())),
        _ => no_overload(),
    }
}
