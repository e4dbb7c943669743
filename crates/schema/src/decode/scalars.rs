//! Values that are neither objects nor lists, and what Go makes of them.

use serde_json::{Number, Value};

use super::base64;
use super::quantities::canonical_quantity;
use super::spot;
use super::spot::Here;
use super::walk::{Read, Stop, Walk};
use crate::{Object, Shape};

impl Walk<'_, '_> {
    pub(super) fn bool(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        match self.reader.peek()? {
            b't' => self.reader.word("true")?,
            b'f' => {
                self.reader.word("false")?;
                return Ok(Some(Value::Bool(false)));
            }
            _ => return self.misfit(shape, here),
        }
        Ok(Some(Value::Bool(true)))
    }

    pub(super) fn integer(
        &mut self,
        shape: &Shape,
        range: std::ops::RangeInclusive<i64>,
        here: Here<'_>,
    ) -> Read {
        if !is_number(self.reader.peek()?) {
            return self.misfit(shape, here);
        }
        let literal = self.reader.number()?;
        match literal.parse::<i64>().ok().filter(|n| range.contains(n)) {
            Some(number) => Ok(Some(number.into())),
            None => {
                let go = spot::go_type(self.table, here, shape);
                self.save(
                    spot::mismatch(here, &format!("number {literal}"), &go),
                    here,
                );
                Ok(None)
            }
        }
    }

    /// A number where anything may be.
    pub(super) fn any_number(&mut self, here: Here<'_>) -> Result<Value, Stop> {
        let literal = self.reader.number()?;
        Ok(any_number(literal).unwrap_or_else(|| {
            let found = format!("number {literal}");
            self.save(spot::mismatch(here, &found, "float64"), here);
            Value::Null
        }))
    }

    pub(super) fn float(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        if !is_number(self.reader.peek()?) {
            return self.misfit(shape, here);
        }
        let literal = self.reader.number()?;
        match literal.parse::<f64>().ok().filter(|n| n.is_finite()) {
            Some(number) => Ok(Some(float(number))),
            None => {
                let go = spot::go_type(self.table, here, shape);
                self.save(
                    spot::mismatch(here, &format!("number {literal}"), &go),
                    here,
                );
                Ok(None)
            }
        }
    }

    pub(super) fn bytes(&mut self, shape: &Shape, here: Here<'_>) -> Read {
        if self.reader.peek()? != b'"' {
            return self.misfit(shape, here);
        }
        let text = self.reader.string()?;
        match base64::canonical(&text) {
            Ok(canonical) => Ok(Some(Value::String(canonical.into_owned()))),
            Err(at) => {
                self.save(format!("illegal base64 data at input byte {at}"), here);
                Ok(None)
            }
        }
    }

    pub(super) fn quantity(&mut self) -> Read {
        let raw = String::from_utf8_lossy(self.reader.skip()?);
        let text = raw
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(&raw);
        canonical_quantity(text.trim())
            .map(|text| Some(Value::String(text)))
            .map_err(Stop::Refused)
    }

    pub(super) fn int_or_string(&mut self, here: Here<'_>) -> Read {
        if self.reader.peek()? == b'"' {
            return Ok(Some(Value::String(self.reader.string()?.into_owned())));
        }
        let found = if is_number(self.reader.peek()?) {
            let literal = self.reader.number()?;
            if let Ok(number) = literal.parse::<i32>() {
                return Ok(Some(number.into()));
            }
            format!("number {literal}")
        } else {
            self.skip_as("number")?.to_owned()
        };
        Err(Stop::Refused(spot::mismatch(here, &found, "int32")))
    }

    /// A type that is a string in JSON and checks it itself.
    pub(super) fn text_type(
        &mut self,
        here: Here<'_>,
        read: fn(&str) -> Result<String, String>,
    ) -> Read {
        if self.reader.peek()? != b'"' {
            let found = self.skip_as("number")?;
            return Err(Stop::Refused(spot::mismatch(here, found, "string")));
        }
        let text = self.reader.string()?;
        match read(&text) {
            Ok(canonical) => Ok(Some(Value::String(canonical))),
            Err(error) => Err(Stop::Refused(error)),
        }
    }
}

fn is_number(first: u8) -> bool {
    first == b'-' || first.is_ascii_digit()
}

/// Go's zero value of a shape, as JSON shows it.
pub(crate) fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::String(String::new()),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => 0.into(),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Duration => Value::String("0s".to_owned()),
        Shape::Object(_) => Value::Object(Object::new()),
        Shape::OrBool(_) => Value::Bool(false),
        Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::Any
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::OrList(_)
        | Shape::OrStrings(_) => Value::Null,
    }
}

/// Whole numbers are written without a point, as Go does.
pub(crate) fn float(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// `None` if it is too large for any number.
fn any_number(literal: &str) -> Option<Value> {
    if let Ok(number) = literal.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = literal.parse::<u64>() {
        return Some(number.into());
    }
    let number = literal.parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number)
}
