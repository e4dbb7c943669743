//! Equality and ordering of values.

use super::Interpreter;
use crate::error::{EvaluationError, EvaluationResult};
use crate::value::{ListValue, MapKey, MapValue, Value};
use std::cmp::Ordering;

/// Converts a double without a fraction that is in the range of int.
pub(crate) fn double_to_int(double: f64) -> Option<i64> {
    // The largest double below 2^63 is the last that fits.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&double);
    #[expect(clippy::cast_possible_truncation, reason = "no fraction and in range")]
    (fits && double.fract() == 0.0).then_some(double as i64)
}

#[derive(Clone, Copy)]
enum NumericValue {
    Integer(i128),
    Double(f64),
}

fn numeric_value(value: &Value) -> Option<NumericValue> {
    Some(match value {
        Value::Int(int) => NumericValue::Integer(i128::from(*int)),
        Value::Uint(uint) => NumericValue::Integer(i128::from(*uint)),
        Value::Double(double) => NumericValue::Double(*double),
        _ => return None,
    })
}

fn compare_numbers(left: NumericValue, right: NumericValue) -> Option<Ordering> {
    match (left, right) {
        (NumericValue::Integer(left), NumericValue::Integer(right)) => Some(left.cmp(&right)),
        (NumericValue::Double(left), NumericValue::Double(right)) => left.partial_cmp(&right),
        (NumericValue::Integer(left), NumericValue::Double(right)) => compare_mixed(left, right),
        (NumericValue::Double(left), NumericValue::Integer(right)) => {
            compare_mixed(right, left).map(Ordering::reverse)
        }
    }
}

/// Compares as doubles, as upstream does; this is not exact for large integers.
fn compare_mixed(integer: i128, double: f64) -> Option<Ordering> {
    #[expect(clippy::cast_precision_loss, reason = "as upstream compares them")]
    (integer as f64).partial_cmp(&double)
}

/// The order of two values, if their types are ordered.
pub(crate) fn compare_values(left: &Value, right: &Value) -> EvaluationResult<Ordering> {
    if let (Some(left), Some(right)) = (numeric_value(left), numeric_value(right)) {
        return compare_numbers(left, right)
            .ok_or_else(|| EvaluationError::new("NaN values cannot be ordered"));
    }
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        (Value::Timestamp(left, left_nanos), Value::Timestamp(right, right_nanos)) => {
            (left, left_nanos).cmp(&(right, right_nanos))
        }
        _ => return Err(EvaluationError::no_overload()),
    })
}

impl Interpreter<'_, '_> {
    pub(crate) fn equal(&mut self, left: &Value, right: &Value) -> EvaluationResult<bool> {
        self.budget.count_step()?;
        if let (Some(left), Some(right)) = (numeric_value(left), numeric_value(right)) {
            return Ok(compare_numbers(left, right) == Some(Ordering::Equal));
        }
        Ok(match (left, right) {
            (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::String(left), Value::String(right))
            | (Value::Type(left), Value::Type(right)) => left == right,
            (Value::Bytes(left), Value::Bytes(right)) => left == right,
            (Value::Duration(left), Value::Duration(right)) => left == right,
            (Value::Timestamp(left, left_nanos), Value::Timestamp(right, right_nanos)) => {
                (left, left_nanos) == (right, right_nanos)
            }
            (Value::List(left), Value::List(right)) => self.equal_lists(left, right)?,
            (Value::Map(left), Value::Map(right)) => self.equal_maps(left, right)?,
            (Value::Optional(Some(left)), Value::Optional(Some(right))) => {
                self.equal(left, right)?
            }
            (Value::Object(left), Value::Object(right)) => {
                if left.fields.len() != right.fields.len() {
                    return Ok(false);
                }
                for (name, value) in &left.fields {
                    let Some(other) = right.fields.get(name) else {
                        return Ok(false);
                    };
                    if !self.equal(value, other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::JsonPatch(left), Value::JsonPatch(right)) => {
                let same_operation =
                    left.op == right.op && left.from == right.from && left.path == right.path;
                same_operation
                    && match (&left.value, &right.value) {
                        (None, None) => true,
                        (Some(left), Some(right)) => self.equal(left, right)?,
                        _ => false,
                    }
            }
            (Value::Opaque(left), Value::Opaque(right)) => left == right,
            _ => false,
        })
    }

    fn equal_lists(&mut self, left: &ListValue, right: &ListValue) -> EvaluationResult<bool> {
        if left.items().len() != right.items().len() {
            return Ok(false);
        }
        for (left, right) in left.items().iter().zip(right.items()) {
            if !self.equal(left, right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn equal_maps(&mut self, left: &MapValue, right: &MapValue) -> EvaluationResult<bool> {
        if left.entries().len() != right.entries().len() {
            return Ok(false);
        }
        for ((left_key, left), (right_key, right)) in left.entries().iter().zip(right.entries()) {
            if left_key != right_key || !self.equal(left, right)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn contains(&mut self, list: &ListValue, element: &Value) -> EvaluationResult<bool> {
        for item in list.items() {
            if self.equal(item, element)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn set_membership(
        &mut self,
        item: &Value,
        list: &ListValue,
    ) -> EvaluationResult<Value> {
        self.contains(list, item).map(Value::Bool)
    }

    /// `@in`.
    pub(crate) fn is_in(&mut self, item: &Value, container: &Value) -> EvaluationResult<bool> {
        match container {
            Value::List(list) => self.contains(list, item),
            Value::Map(map) => {
                Ok(MapKey::for_lookup(item).is_some_and(|key| map.get(&key).is_some()))
            }
            _ => Err(EvaluationError::no_overload()),
        }
    }
}
