//! Field validation errors (upstream: `field.Error`).

use std::fmt;

use serde::Serialize;

use super::Path;
use crate::gotext;

/// The type of a field error; its name is the `reason` of a Status cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooShort,
    TooMany,
    TooFew,
    TypeInvalid,
    Internal,
}

impl ErrorType {
    /// The machine-readable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooShort => "FieldValueTooShort",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::TooFew => "FieldValueTooFew",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
            ErrorType::Internal => "InternalError",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooShort => "Too short",
            ErrorType::TooMany => "Too many",
            ErrorType::TooFew => "Too few",
            ErrorType::Internal => "Internal error",
        }
    }
}

/// The rejected value, as shown in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadValue {
    /// The message shows no value.
    Omitted,
    /// A string, shown quoted.
    Text(String),
    /// Any other value, already formatted.
    Rendered(String),
}

impl BadValue {
    /// A list, map or object, shown as JSON.
    ///
    /// Also for enumerations: upstream formats its named string types as JSON, which differs from a quoted string
    /// only in `<`, `>` and `&`.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        BadValue::Rendered(gotext::json(value))
    }
}

impl From<&str> for BadValue {
    fn from(value: &str) -> Self {
        BadValue::Text(value.to_owned())
    }
}

impl From<String> for BadValue {
    fn from(value: String) -> Self {
        BadValue::Text(value)
    }
}

impl From<i32> for BadValue {
    fn from(value: i32) -> Self {
        BadValue::Rendered(value.to_string())
    }
}

impl From<i64> for BadValue {
    fn from(value: i64) -> Self {
        BadValue::Rendered(value.to_string())
    }
}

impl From<usize> for BadValue {
    fn from(value: usize) -> Self {
        BadValue::Rendered(value.to_string())
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        BadValue::Rendered(value.to_string())
    }
}

impl From<f64> for BadValue {
    fn from(value: f64) -> Self {
        BadValue::Rendered(gotext::float(value))
    }
}

/// A validation error of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorType,
    pub field: String,
    pub bad_value: BadValue,
    pub detail: String,
}

impl Error {
    fn new(kind: ErrorType, path: &Path<'_>, value: BadValue, detail: impl Into<String>) -> Self {
        Error {
            kind,
            field: path.to_string(),
            bad_value: value,
            detail: detail.into(),
        }
    }

    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, path, BadValue::Omitted, detail)
    }

    pub fn invalid(path: &Path<'_>, value: impl Into<BadValue>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, path, value.into(), detail)
    }

    /// The value does not have the JSON type that the schema requires.
    pub fn type_invalid(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorType::TypeInvalid, path, value.into(), detail)
    }

    /// The value is not in the enumeration.
    pub fn not_supported<V: AsRef<str>>(
        path: &Path<'_>,
        value: impl Into<BadValue>,
        supported: &[V],
    ) -> Self {
        let mut detail = String::new();
        for value in supported {
            detail.push_str(if detail.is_empty() {
                "supported values: "
            } else {
                ", "
            });
            detail.push_str(&gotext::quote(value.as_ref()).to_string());
        }
        Self::new(ErrorType::NotSupported, path, value.into(), detail)
    }

    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, path, BadValue::Omitted, detail)
    }

    pub fn duplicate(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorType::Duplicate, path, value.into(), "")
    }

    pub fn not_found(path: &Path<'_>, value: impl Into<BadValue>) -> Self {
        Self::new(ErrorType::NotFound, path, value.into(), "")
    }

    pub fn too_long(path: &Path<'_>, max_bytes: usize) -> Self {
        let detail = format!(
            "may not be more than {max_bytes} {}",
            plural(max_bytes, "byte", "bytes")
        );
        Self::new(ErrorType::TooLong, path, BadValue::Omitted, detail)
    }

    pub fn too_long_characters(path: &Path<'_>, max: usize) -> Self {
        let detail = format!(
            "may not be more than {max} {}",
            plural(max, "character", "characters")
        );
        Self::new(ErrorType::TooLong, path, BadValue::Omitted, detail)
    }

    pub fn too_short(path: &Path<'_>, min: usize) -> Self {
        let detail = format!(
            "must be at least {min} {}",
            plural(min, "character", "characters")
        );
        Self::new(ErrorType::TooShort, path, BadValue::Omitted, detail)
    }

    /// The list has too many items; without `actual`, the message contains no count.
    pub fn too_many(path: &Path<'_>, actual: Option<usize>, max: usize) -> Self {
        let detail = format!("must have at most {max} {}", plural(max, "item", "items"));
        let value = actual.map_or(BadValue::Omitted, BadValue::from);
        Self::new(ErrorType::TooMany, path, value, detail)
    }

    pub fn too_few(path: &Path<'_>, actual: usize, min: usize) -> Self {
        let detail = format!("must have at least {min} {}", plural(min, "item", "items"));
        Self::new(ErrorType::TooFew, path, actual.into(), detail)
    }

    /// Validation itself failed, not because of the input.
    pub fn internal(path: &Path<'_>, error: impl fmt::Display) -> Self {
        Self::new(
            ErrorType::Internal,
            path,
            BadValue::Omitted,
            error.to_string(),
        )
    }

    /// The message without the field, as in a Status cause (upstream: `ErrorBody`).
    pub fn body(&self) -> FieldErrorBody<'_> {
        FieldErrorBody(self)
    }
}

fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for Error {}

/// Displays the message of an error without the field; see [`Error::body`].
#[derive(Debug, Clone, Copy)]
pub struct FieldErrorBody<'a>(&'a Error);

impl fmt::Display for FieldErrorBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind.text())?;
        match &self.0.bad_value {
            BadValue::Omitted => {}
            BadValue::Text(text) => write!(f, ": {}", gotext::quote(text))?,
            BadValue::Rendered(text) => write!(f, ": {text}")?,
        }
        if !self.0.detail.is_empty() {
            write!(f, ": {}", self.0.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_print_as_upstream() {
        let x = Path::new("spec.x");
        let table = [
            (Error::required(&x, ""), "spec.x: Required value"),
            (
                Error::required(&x, "say one"),
                "spec.x: Required value: say one",
            ),
            (
                Error::invalid(&x, "y\n", "detail"),
                "spec.x: Invalid value: \"y\\n\": detail",
            ),
            (Error::invalid(&x, 7_i64, ""), "spec.x: Invalid value: 7"),
            (Error::invalid(&x, 1e6, ""), "spec.x: Invalid value: 1e+06"),
            (
                Error::invalid(&x, true, "no"),
                "spec.x: Invalid value: true: no",
            ),
            (
                Error::invalid(&x, BadValue::json(&["a", "<"]), "no"),
                "spec.x: Invalid value: [\"a\",\"\\u003c\"]: no",
            ),
            (
                Error::type_invalid(&x, "y", "must be an integer"),
                "spec.x: Invalid value: \"y\": must be an integer",
            ),
            (
                Error::not_supported(&x, "a", &["b", "c"]),
                "spec.x: Unsupported value: \"a\": supported values: \"b\", \"c\"",
            ),
            (
                Error::not_supported(&x, "a", &[] as &[&str]),
                "spec.x: Unsupported value: \"a\"",
            ),
            (
                Error::forbidden(&x, "not now"),
                "spec.x: Forbidden: not now",
            ),
            (Error::duplicate(&x, "a"), "spec.x: Duplicate value: \"a\""),
            (Error::not_found(&x, "a"), "spec.x: Not found: \"a\""),
            (
                Error::too_long(&x, 1),
                "spec.x: Too long: may not be more than 1 byte",
            ),
            (
                Error::too_long(&x, 63),
                "spec.x: Too long: may not be more than 63 bytes",
            ),
            (
                Error::too_long_characters(&x, 1),
                "spec.x: Too long: may not be more than 1 character",
            ),
            (
                Error::too_long_characters(&x, 2),
                "spec.x: Too long: may not be more than 2 characters",
            ),
            (
                Error::too_short(&x, 1),
                "spec.x: Too short: must be at least 1 character",
            ),
            (
                Error::too_short(&x, 2),
                "spec.x: Too short: must be at least 2 characters",
            ),
            (
                Error::too_many(&x, Some(4), 3),
                "spec.x: Too many: 4: must have at most 3 items",
            ),
            (
                Error::too_many(&x, None, 1),
                "spec.x: Too many: must have at most 1 item",
            ),
            (
                Error::too_few(&x, 0, 1),
                "spec.x: Too few: 0: must have at least 1 item",
            ),
            (Error::internal(&x, "oops"), "spec.x: Internal error: oops"),
        ];
        for (error, want) in table {
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn every_error_has_its_reason() {
        let x = Path::new("x");
        let table = [
            (Error::required(&x, ""), "FieldValueRequired"),
            (Error::invalid(&x, "", ""), "FieldValueInvalid"),
            (Error::type_invalid(&x, "", ""), "FieldValueTypeInvalid"),
            (
                Error::not_supported(&x, "", &[""]),
                "FieldValueNotSupported",
            ),
            (Error::forbidden(&x, ""), "FieldValueForbidden"),
            (Error::duplicate(&x, ""), "FieldValueDuplicate"),
            (Error::not_found(&x, ""), "FieldValueNotFound"),
            (Error::too_long(&x, 1), "FieldValueTooLong"),
            (Error::too_long_characters(&x, 1), "FieldValueTooLong"),
            (Error::too_short(&x, 1), "FieldValueTooShort"),
            (Error::too_many(&x, None, 1), "FieldValueTooMany"),
            (Error::too_few(&x, 0, 1), "FieldValueTooFew"),
            (Error::internal(&x, ""), "InternalError"),
        ];
        for (error, reason) in table {
            assert_eq!(error.kind.as_str(), reason);
        }
    }
}
