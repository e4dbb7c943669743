//! Quantities and versions, which share the names of some functions.

use super::semver::{self, Semver};
use super::{Table, fail, no_overload};
use crate::error::Evaluated;
use crate::library::opaque::Opaque;
use crate::run::Machine;
use crate::value::Value;
use rhumb_meta::quantity::{Format, Quantity};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("quantity", |_, args| match args {
        [Value::String(text)] => match Quantity::parse(text) {
            Ok(quantity) => Ok(Value::Opaque(Opaque::Quantity(Arc::new(quantity)))),
            Err(problem) => fail(problem.to_string()),
        },
        _ => no_overload(),
    }),
    ("isQuantity", |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => no_overload(),
    }),
    ("sign", |_, args| {
        of_quantity(args, |quantity| Ok(Value::Int(i64::from(quantity.sign()))))
    }),
    ("isInteger", |_, args| {
        of_quantity(args, |quantity| {
            Ok(Value::Bool(integer(quantity).is_some()))
        })
    }),
    ("asInteger", |_, args| {
        of_quantity(args, |quantity| match integer(quantity) {
            Some(integer) => Ok(Value::Int(integer)),
            None => fail("cannot convert value to integer"),
        })
    }),
    ("asApproximateFloat", |_, args| {
        of_quantity(args, |quantity| Ok(Value::Double(approximate(quantity))))
    }),
    ("add", |_, args| changed(args, Quantity::add)),
    ("sub", |_, args| changed(args, Quantity::sub)),
    ("isGreaterThan", |_, args| {
        Ok(Value::Bool(compared(args)? == Ordering::Greater))
    }),
    ("isLessThan", |_, args| {
        Ok(Value::Bool(compared(args)? == Ordering::Less))
    }),
    ("compareTo", |_, args| {
        Ok(Value::Int(compared(args)? as i64))
    }),
    ("semver", |_, args| match parsed(args)? {
        Ok(version) => Ok(Value::Opaque(Opaque::Semver(Arc::new(version)))),
        Err(problem) => fail(problem),
    }),
    ("isSemver", |_, args| Ok(Value::Bool(parsed(args)?.is_ok()))),
    ("major", |_, args| of_version(args, |version| version.major)),
    ("minor", |_, args| of_version(args, |version| version.minor)),
    ("patch", patch),
];

fn of_quantity(args: &[Value], of: fn(&Quantity) -> Evaluated<Value>) -> Evaluated<Value> {
    match args {
        [Value::Opaque(Opaque::Quantity(quantity))] => of(quantity),
        _ => no_overload(),
    }
}

/// The amount, if it is whole and fits.
fn integer(quantity: &Quantity) -> Option<i64> {
    let value = quantity.value();
    let exact = Quantity::new(value, Format::DecimalSi) == *quantity;
    (quantity.is_integer() && exact).then_some(value)
}

/// The amount as a double: what is written, times what its suffix stands for.
fn approximate(quantity: &Quantity) -> f64 {
    if let Some(integer) = integer(quantity) {
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

fn changed(args: &[Value], change: fn(&mut Quantity, &Quantity)) -> Evaluated<Value> {
    let (left, right) = match args {
        [
            Value::Opaque(Opaque::Quantity(left)),
            Value::Opaque(Opaque::Quantity(right)),
        ] => (left, Quantity::clone(right)),
        [Value::Opaque(Opaque::Quantity(left)), Value::Int(right)] => {
            (left, Quantity::new(*right, Format::DecimalExponent))
        }
        _ => return no_overload(),
    };
    let mut result = Quantity::clone(left);
    change(&mut result, &right);
    Ok(Value::Opaque(Opaque::Quantity(Arc::new(result))))
}

fn compared(args: &[Value]) -> Evaluated<Ordering> {
    match args {
        [
            Value::Opaque(Opaque::Quantity(left)),
            Value::Opaque(Opaque::Quantity(right)),
        ] => Ok(left.cmp(right)),
        [
            Value::Opaque(Opaque::Semver(left)),
            Value::Opaque(Opaque::Semver(right)),
        ] => Ok(Semver::cmp(left, right)),
        _ => no_overload(),
    }
}

fn parsed(args: &[Value]) -> Evaluated<Result<Semver, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(semver::parse(text))
        }
        [Value::String(text), Value::Bool(true)] => Ok(semver::parse_tolerant(text)),
        _ => no_overload(),
    }
}

fn of_version(args: &[Value], of: fn(&Semver) -> u64) -> Evaluated<Value> {
    match args {
        [Value::Opaque(Opaque::Semver(version))] => {
            // Upstream's numbers wrap around where they do not fit.
            Ok(Value::Int(of(version).cast_signed()))
        }
        _ => no_overload(),
    }
}

fn patch(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    of_version(args, |version| version.patch)
}
