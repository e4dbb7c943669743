//! Amounts of resources: `100m`, `1.5Gi`, `12e6`.
//!
//! Read and printed as upstream's `resource.Quantity` does, down to when it keeps the text that was written
//! and when it writes the amount anew. Arithmetic is exact: a decimal mantissa and a power of ten.

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

/// The way a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

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

/// An exact amount and how it is written. Comparing looks at the amount only.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Decimal,
    format: Format,
    /// The text it came from, where it is kept though it is not the canonical one.
    written: Option<Box<str>>,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity {
        amount: Decimal::ZERO,
        format: Format::DecimalSi,
        written: None,
    };

    pub const fn new(value: i64, format: Format) -> Self {
        Quantity {
            amount: Decimal::new(value as i128, 0),
            format,
            written: None,
        }
    }

    pub const fn from_milli(value: i64, format: Format) -> Self {
        Quantity {
            amount: Decimal::new(value as i128, -3),
            format,
            written: None,
        }
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// A quantity in JSON is a string or a number.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Quantity::ZERO),
            Value::String(text) => Self::parse(text.trim()),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    pub const fn format(&self) -> Format {
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

    /// In whole units, a fraction rounded away from zero; at most what fits.
    pub fn value(&self) -> i64 {
        self.amount.scaled(0)
    }

    /// In thousandths, rounded away from zero; at most what fits.
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled(-3)
    }

    /// Whether it is a whole number of units.
    pub fn is_integer(&self) -> bool {
        self.amount.is_integer()
    }

    /// Whether it is a whole number of thousandths.
    pub fn is_whole_milli(&self) -> bool {
        self.amount.is_multiple_of_scale(-3)
    }

    /// Rounds to a multiple of ten to the `scale`, away from zero.
    pub fn round_up(&mut self, scale: i32) {
        if self.amount.scale() < scale {
            self.written = None;
            self.amount = self.amount.rounded(scale);
        }
    }

    /// Adds; a sum with zero is written as the other one is.
    pub fn add(&mut self, other: &Quantity) {
        self.take_format(other);
        self.amount = self.amount.plus(other.amount);
    }

    pub fn sub(&mut self, other: &Quantity) {
        self.take_format(other);
        self.amount = self.amount.plus(other.amount.negated());
    }

    pub fn neg(&mut self) {
        self.written = None;
        self.amount = self.amount.negated();
    }

    fn take_format(&mut self, other: &Quantity) {
        self.written = None;
        if self.is_zero() {
            self.format = other.format;
        }
    }

    /// The number and suffix to write, whatever was read.
    fn canonical(&self) -> (i128, Cow<'static, str>) {
        if self.is_zero() {
            return (0, Cow::Borrowed(""));
        }
        if self.format == Format::BinarySi
            && let Some(whole) = self.amount.integer()
            && whole.unsigned_abs() >= 1024
        {
            return binary(whole);
        }
        let (mantissa, exponent) = self.amount.in_thousands();
        let suffix = match self.format {
            Format::DecimalExponent if exponent == 0 => Cow::Borrowed(""),
            Format::DecimalExponent => Cow::Owned(format!("e{exponent}")),
            // What has no suffix is written without one, as upstream does.
            _ => Cow::Borrowed(parse::decimal_suffix(exponent).unwrap_or_default()),
        };
        (mantissa, suffix)
    }
}

fn binary(whole: i128) -> (i128, Cow<'static, str>) {
    let (mut number, mut power) = (whole, 0_usize);
    while number.unsigned_abs() >= 1024 && number & 1023 == 0 {
        // Exact, since nothing but zeros is lost, whatever the sign.
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
        // Numbers of 64 bits, as nearly all are, are written much faster.
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
