//! Resource quantities: `100m`, `1.5Gi`, `12e6`.
//!
//! Parsing and printing match upstream's `resource.Quantity`, including when it keeps the original text and when it
//! prints the canonical form. Arithmetic is exact: a decimal mantissa and a power of ten.

mod decimal;
mod deserialize;
mod parse;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

use decimal::Decimal;

/// The notation of a quantity (upstream: `resource.Format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// Why a text is not a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An exact amount and its notation. Comparisons ignore the notation.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Decimal,
    format: QuantityFormat,
    /// The original text, if upstream keeps it although it is not canonical.
    written: Option<Box<str>>,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity {
        amount: Decimal::ZERO,
        format: QuantityFormat::DecimalSi,
        written: None,
    };

    pub const fn new(value: i64, format: QuantityFormat) -> Self {
        Quantity {
            amount: Decimal::new(value as i128, 0),
            format,
            written: None,
        }
    }

    pub const fn from_milli(value: i64, format: QuantityFormat) -> Self {
        Quantity {
            amount: Decimal::new(value as i128, -3),
            format,
            written: None,
        }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// From a JSON string or number; null is zero.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Quantity::ZERO),
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    pub const fn format(&self) -> QuantityFormat {
        self.format
    }

    pub const fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// -1, 0 or 1.
    pub const fn sign(&self) -> i32 {
        self.amount.sign()
    }

    pub const fn is_negative(&self) -> bool {
        self.sign() < 0
    }

    /// In whole units, rounded away from zero, saturating.
    pub fn value(&self) -> i64 {
        self.amount.scaled(0)
    }

    /// In thousandths, rounded away from zero, saturating.
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled(-3)
    }

    /// Whether it is a whole number of units.
    pub fn is_integer(&self) -> bool {
        self.amount.is_integer()
    }

    /// Whether it is a whole number of units if thousandths are rounded up, which is how upstream checks counts:
    /// `MilliValue() % 1000 == 0`.
    pub fn is_integer_at_milli(&self) -> bool {
        let amount = match self.amount.scale() {
            ..-3 => self.amount.rounded(-3),
            _ => self.amount,
        };
        amount.is_integer()
    }

    /// Whether it is a whole number of thousandths.
    pub fn is_whole_milli(&self) -> bool {
        self.amount.is_multiple_of_scale(-3)
    }

    /// Rounds away from zero to a multiple of 10^`scale`.
    pub fn round_up(&mut self, scale: i32) {
        if self.amount.scale() < scale {
            self.written = None;
            self.amount = self.amount.rounded(scale);
        }
    }

    /// Adds; if this quantity is zero, the result has the notation of the other.
    pub fn add(&mut self, other: &Quantity) {
        self.take_format(other);
        self.amount = self.amount.plus(other.amount);
    }

    pub fn sub(&mut self, other: &Quantity) {
        self.take_format(other);
        self.amount = self.amount.plus(other.amount.negated());
    }

    fn take_format(&mut self, other: &Quantity) {
        self.written = None;
        if self.is_zero() {
            self.format = other.format;
        }
    }

    /// The number and suffix of the canonical form.
    fn canonical(&self) -> (i128, Cow<'static, str>) {
        if self.is_zero() {
            return (0, Cow::Borrowed(""));
        }
        if self.format == QuantityFormat::BinarySi
            && let Some(whole) = self.amount.integer()
            && whole.unsigned_abs() >= 1024
        {
            return binary(whole);
        }
        let (mantissa, exponent) = self.amount.in_thousands();
        let suffix = match self.format {
            QuantityFormat::DecimalExponent if exponent == 0 => Cow::Borrowed(""),
            QuantityFormat::DecimalExponent => Cow::Owned(format!("e{exponent}")),
            // An exponent without a suffix is printed without one, as upstream.
            _ => Cow::Borrowed(parse::decimal_suffix(exponent).unwrap_or_default()),
        };
        (mantissa, suffix)
    }
}

fn binary(whole: i128) -> (i128, Cow<'static, str>) {
    let (mut number, mut power) = (whole, 0_usize);
    while number.unsigned_abs() >= 1024 && number & 1023 == 0 {
        // Exact for both signs, because the lost bits are zeros.
        number >>= 10;
        power += 1;
    }
    (number, Cow::Borrowed(parse::binary_suffix(power)))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(written) = &self.written {
            return f.write_str(written);
        }
        let (number, suffix) = self.canonical();
        // Fast path: formatting i64 is much faster than i128, and nearly all numbers fit.
        match i64::try_from(number) {
            Ok(number) => write!(f, "{number}")?,
            Err(_) => write!(f, "{number}")?,
        }
        f.write_str(&suffix)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(other.amount)
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Quantity::ZERO
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
