//! Decodes scalar values as Go's `encoding/json` does.

use serde_json::{Number, Value};

use super::base64;
use super::json_decoder::{FatalDecodeError, JsonDecoder, ValueResult};
use super::path;
use super::path::OptionalPath;
use super::quantities::canonical_quantity;
use crate::{Object, ValueType};

impl JsonDecoder<'_, '_> {
    pub(super) fn bool(&mut self, value_type: &ValueType, path: OptionalPath<'_>) -> ValueResult {
        match self.reader.peek()? {
            b't' => self.reader.word("true")?,
            b'f' => {
                self.reader.word("false")?;
                return Ok(Some(Value::Bool(false)));
            }
            _ => return self.type_mismatch(value_type, path),
        }
        Ok(Some(Value::Bool(true)))
    }

    pub(super) fn integer(
        &mut self,
        value_type: &ValueType,
        range: std::ops::RangeInclusive<i64>,
        path: OptionalPath<'_>,
    ) -> ValueResult {
        if !is_number(self.reader.peek()?) {
            return self.type_mismatch(value_type, path);
        }
        let literal = self.reader.number()?;
        match literal.parse::<i64>().ok().filter(|n| range.contains(n)) {
            Some(number) => Ok(Some(number.into())),
            None => {
                let go = path::go_type(self.table, path, value_type);
                self.record_mismatch(
                    path::type_mismatch(path, &format!("number {literal}"), &go),
                    path,
                );
                Ok(None)
            }
        }
    }

    /// A number in untyped JSON.
    pub(super) fn untyped_number(
        &mut self,
        path: OptionalPath<'_>,
    ) -> Result<Value, FatalDecodeError> {
        let literal = self.reader.number()?;
        Ok(untyped_number(literal).unwrap_or_else(|| {
            let found = format!("number {literal}");
            self.record_mismatch(path::type_mismatch(path, &found, "float64"), path);
            Value::Null
        }))
    }

    pub(super) fn float(&mut self, value_type: &ValueType, path: OptionalPath<'_>) -> ValueResult {
        if !is_number(self.reader.peek()?) {
            return self.type_mismatch(value_type, path);
        }
        let literal = self.reader.number()?;
        match literal.parse::<f64>().ok().filter(|n| n.is_finite()) {
            Some(number) => Ok(Some(float(number))),
            None => {
                let go = path::go_type(self.table, path, value_type);
                self.record_mismatch(
                    path::type_mismatch(path, &format!("number {literal}"), &go),
                    path,
                );
                Ok(None)
            }
        }
    }

    pub(super) fn bytes(&mut self, value_type: &ValueType, path: OptionalPath<'_>) -> ValueResult {
        if self.reader.peek()? != b'"' {
            return self.type_mismatch(value_type, path);
        }
        let text = self.reader.string()?;
        match base64::canonical(&text) {
            Ok(canonical) => Ok(Some(Value::String(canonical.into_owned()))),
            Err(position) => {
                self.record_mismatch(
                    format!("illegal base64 data at input byte {position}"),
                    path,
                );
                Ok(None)
            }
        }
    }

    pub(super) fn quantity(&mut self) -> ValueResult {
        let literal = String::from_utf8_lossy(self.reader.skip()?);
        let text = literal
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(&literal);
        canonical_quantity(text.trim())
            .map(|text| Some(Value::String(text)))
            .map_err(FatalDecodeError::Rejected)
    }

    pub(super) fn int_or_string(&mut self, path: OptionalPath<'_>) -> ValueResult {
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
            self.skip_and_describe("number")?.to_owned()
        };
        Err(FatalDecodeError::Rejected(path::type_mismatch(
            path, &found, "int32",
        )))
    }

    /// A type that is a string in JSON and validates it when decoded.
    pub(super) fn string_encoded(
        &mut self,
        path: OptionalPath<'_>,
        read: fn(&str) -> Result<String, String>,
    ) -> ValueResult {
        if self.reader.peek()? != b'"' {
            let found = self.skip_and_describe("number")?;
            return Err(FatalDecodeError::Rejected(path::type_mismatch(
                path, found, "string",
            )));
        }
        let text = self.reader.string()?;
        match read(&text) {
            Ok(canonical) => Ok(Some(Value::String(canonical))),
            Err(error) => Err(FatalDecodeError::Rejected(error)),
        }
    }
}

fn is_number(first: u8) -> bool {
    first == b'-' || first.is_ascii_digit()
}

/// Go's zero value of a type, as JSON.
pub(crate) fn zero(value_type: &ValueType) -> Value {
    match value_type {
        ValueType::String => Value::String(String::new()),
        ValueType::Bool => Value::Bool(false),
        ValueType::Int32 | ValueType::Int64 | ValueType::Float64 | ValueType::IntOrString => {
            0.into()
        }
        ValueType::Quantity => Value::String("0".to_owned()),
        ValueType::Duration => Value::String("0s".to_owned()),
        ValueType::Object(_) => Value::Object(Object::new()),
        ValueType::SchemaOrBool(_) => Value::Bool(false),
        ValueType::Bytes
        | ValueType::Time
        | ValueType::MicroTime
        | ValueType::Any
        | ValueType::List(_)
        | ValueType::Map(_)
        | ValueType::SchemaOrArray(_)
        | ValueType::SchemaOrStringArray(_) => Value::Null,
    }
}

/// A float as JSON. Integral values have no decimal point, as in Go.
pub(crate) fn float(number: f64) -> Value {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < MAX_EXACT_INTEGER {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// `None` if it overflows a float.
fn untyped_number(literal: &str) -> Option<Value> {
    if let Ok(number) = literal.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = literal.parse::<u64>() {
        return Some(number.into());
    }
    let number = literal.parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number)
}
