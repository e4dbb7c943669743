//! The quantity and semver libraries, which share function names (upstream: `library.Quantity`, `library.SemverLib`).

use super::semver::{self, Semver};
use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::library::opaque_value::OpaqueValue;
use crate::value::Value;
use rhumb_meta::quantity::{Quantity, QuantityFormat};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("quantity", |_, args| match args {
        [Value::String(text)] => match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Opaque(OpaqueValue::Quantity(Arc::new(quantity)))),
            Err(error) => fail(error.to_string()),
        },
        _ => no_overload(),
    }),
    ("isQuantity", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => no_overload(),
    }),
    ("sign", |_, args| {
        quantity_property(args, |quantity| Ok(Value::Int(i64::from(quantity.sign()))))
    }),
    ("isInteger", |_, args| {
        quantity_property(args, |quantity| {
            Ok(Value::Bool(exact_integer(quantity).is_some()))
        })
    }),
    ("asInteger", |_, args| {
        quantity_property(args, |quantity| match exact_integer(quantity) {
            Some(integer) => Ok(Value::Int(integer)),
            None => fail("cannot convert value to integer"),
        })
    }),
    ("asApproximateFloat", |_, args| {
        quantity_property(args, |quantity| {
            Ok(Value::Double(approximate_float(quantity)))
        })
    }),
    ("add", |_, args| quantity_arithmetic(args, Quantity::add)),
    ("sub", |_, args| quantity_arithmetic(args, Quantity::sub)),
    ("isGreaterThan", |_, args| {
        Ok(Value::Bool(compare_args(args)? == Ordering::Greater))
    }),
    ("isLessThan", |_, args| {
        Ok(Value::Bool(compare_args(args)? == Ordering::Less))
    }),
    ("compareTo", |_, args| {
        Ok(Value::Int(compare_args(args)? as i64))
    }),
    ("semver", |_, args| match parse_semver_args(args)? {
        Ok(version) => Ok(Value::Opaque(OpaqueValue::Semver(Arc::new(version)))),
        Err(error) => fail(error),
    }),
    ("isSemver", |_, args| {
        Ok(Value::Bool(parse_semver_args(args)?.is_ok()))
    }),
    ("major", |_, args| {
        version_number(args, |version| version.major)
    }),
    ("minor", |_, args| {
        version_number(args, |version| version.minor)
    }),
    ("patch", patch),
];

fn quantity_property(
    args: &[Value],
    get: fn(&Quantity) -> EvaluationResult<Value>,
) -> EvaluationResult<Value> {
    match args {
        [Value::Opaque(OpaqueValue::Quantity(quantity))] => get(quantity),
        _ => no_overload(),
    }
}

/// The value, if it is an integer in the range of i64.
fn exact_integer(quantity: &Quantity) -> Option<i64> {
    let value = quantity.value();
    let exact = Quantity::new(value, QuantityFormat::DecimalSi) == *quantity;
    (quantity.is_integer() && exact).then_some(value)
}

/// The value as a double: the number times the scale of the suffix.
fn approximate_float(quantity: &Quantity) -> f64 {
    if let Some(integer) = exact_integer(quantity) {
        #[expect(clippy::cast_precision_loss, reason = "it is approximate")]
        return integer as f64;
    }
    let mut decimal = quantity.clone();
    decimal.add(&Quantity::ZERO);
    let text = decimal.to_string();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: f64 = number.parse().unwrap_or(0.0);
    let scale = match suffix {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => format!("1{exponent}").parse().unwrap_or(1.0),
    };
    number * scale
}

fn quantity_arithmetic(
    args: &[Value],
    operation: fn(&mut Quantity, &Quantity),
) -> EvaluationResult<Value> {
    let (left, right) = match args {
        [
            Value::Opaque(OpaqueValue::Quantity(left)),
            Value::Opaque(OpaqueValue::Quantity(right)),
        ] => (left, Quantity::clone(right)),
        [
            Value::Opaque(OpaqueValue::Quantity(left)),
            Value::Int(right),
        ] => (left, Quantity::new(*right, QuantityFormat::DecimalExponent)),
        _ => return no_overload(),
    };
    let mut result = Quantity::clone(left);
    operation(&mut result, &right);
    Ok(Value::Opaque(OpaqueValue::Quantity(Arc::new(result))))
}

fn compare_args(args: &[Value]) -> EvaluationResult<Ordering> {
    match args {
        [
            Value::Opaque(OpaqueValue::Quantity(left)),
            Value::Opaque(OpaqueValue::Quantity(right)),
        ] => Ok(left.cmp(right)),
        [
            Value::Opaque(OpaqueValue::Semver(left)),
            Value::Opaque(OpaqueValue::Semver(right)),
        ] => Ok(Semver::cmp(left, right)),
        _ => no_overload(),
    }
}

fn parse_semver_args(args: &[Value]) -> EvaluationResult<Result<Semver, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(semver::parse(text))
        }
        [Value::String(text), Value::Bool(true)] => Ok(semver::parse_tolerant(text)),
        _ => no_overload(),
    }
}

fn version_number(args: &[Value], get: fn(&Semver) -> u64) -> EvaluationResult<Value> {
    match args {
        [Value::Opaque(OpaqueValue::Semver(version))] => {
            // Upstream converts without an overflow check.
            Ok(Value::Int(get(version).cast_signed()))
        }
        _ => no_overload(),
    }
}

fn patch(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    version_number(args, |version| version.patch)
}
