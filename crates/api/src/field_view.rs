//! [`FieldView`]: read access to a JSON object that carries the field path for validation errors.
//!
//! It combines what upstream's validation functions take as two arguments, a value and its `field.Path`.

mod field_index;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use serde_json::Value;

use crate::JsonObject;

pub use field_index::FieldIndex;

/// A JSON value that may be absent, with its field path. Fields of an absent value are absent, so validation code
/// needs no nil checks.
#[derive(Debug, Clone, Copy)]
pub struct FieldView<'a> {
    node: FieldValue<'a>,
    index: Option<&'a FieldIndex<'a>>,
    path: Path<'a>,
}

#[derive(Debug, Clone, Copy)]
enum FieldValue<'a> {
    Absent,
    Root(&'a JsonObject),
    Value(&'a Value),
}

impl<'a> FieldView<'a> {
    pub const fn root(object: &'a JsonObject) -> Self {
        FieldView {
            node: FieldValue::Root(object),
            index: None,
            path: Path::NIL,
        }
    }

    #[inline]
    pub fn at(value: Option<&'a Value>, path: Path<'a>) -> Self {
        let node = match value {
            None | Some(Value::Null) => FieldValue::Absent,
            Some(value) => FieldValue::Value(value),
        };
        FieldView {
            node,
            index: None,
            path,
        }
    }

    /// Builds an index of its fields, for [`FieldView::with_index`].
    #[inline]
    pub fn index(&self) -> FieldIndex<'a> {
        FieldIndex::of(self.object())
    }

    /// The same view with an index of its fields; pays off if many fields are read.
    #[must_use]
    pub fn with_index(self, index: &'a FieldIndex<'a>) -> Self {
        FieldView {
            index: Some(index).filter(|index| index.is_complete()),
            ..self
        }
    }

    #[inline]
    pub fn field(&'a self, name: &'a str) -> FieldView<'a> {
        FieldView::at(self.get(name), self.path.child(name))
    }

    /// The value of a field, with the lifetime of the object (a field's view lives shorter).
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        match (self.index, self.node) {
            (_, FieldValue::Absent) => None,
            (Some(index), _) => index.get(name).filter(|value| !value.is_null()),
            (None, _) => self.search(name),
        }
    }

    #[inline(never)]
    fn search(&self, name: &str) -> Option<&'a Value> {
        self.object()?.get(name).filter(|value| !value.is_null())
    }

    #[inline]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The string value of a field, empty if absent, with the lifetime of the object.
    pub fn text(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number of a field, zero if absent.
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).and_then(Value::as_i64).unwrap_or_default()
    }

    /// An entry of a map, whose path is written with brackets: `metadata.labels[app]`.
    #[inline]
    pub fn key(&'a self, key: &'a str) -> FieldView<'a> {
        FieldView::at(self.get(key), self.path.key(key))
    }

    /// The items of a list; none if it is absent.
    pub fn items(&'a self) -> impl ExactSizeIterator<Item = FieldView<'a>> {
        let items = match self.node {
            FieldValue::Value(Value::Array(items)) => items.as_slice(),
            _ => &[],
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| FieldView::at(Some(item), self.path.index(index)))
    }

    /// The entries of a map, in order of their keys; none if it is absent.
    pub fn entries(&'a self) -> impl Iterator<Item = (&'a str, FieldView<'a>)> {
        self.object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), FieldView::at(Some(value), self.path.key(key))))
    }

    pub fn exists(&self) -> bool {
        !matches!(self.node, FieldValue::Absent)
    }

    /// Absent, or an empty string, list or map, or zero, or false.
    pub fn is_empty(&self) -> bool {
        match self.node {
            FieldValue::Absent => true,
            FieldValue::Root(object) | FieldValue::Value(Value::Object(object)) => {
                object.is_empty()
            }
            FieldValue::Value(Value::String(text)) => text.is_empty(),
            FieldValue::Value(Value::Array(items)) => items.is_empty(),
            FieldValue::Value(Value::Bool(value)) => !value,
            FieldValue::Value(Value::Number(number)) => number.as_f64() == Some(0.0),
            FieldValue::Value(Value::Null) => true,
        }
    }

    /// How many items, entries or bytes it has.
    pub fn len(&self) -> usize {
        match self.node {
            FieldValue::Root(object) | FieldValue::Value(Value::Object(object)) => object.len(),
            FieldValue::Value(Value::String(text)) => text.len(),
            FieldValue::Value(Value::Array(items)) => items.len(),
            _ => 0,
        }
    }

    /// Its text; empty if absent.
    pub fn str(&self) -> &'a str {
        self.opt_str().unwrap_or_default()
    }

    pub fn opt_str(&self) -> Option<&'a str> {
        self.value().and_then(Value::as_str)
    }

    pub fn int(&self) -> Option<i64> {
        self.value().and_then(Value::as_i64)
    }

    /// Whether it is there and true.
    pub fn is_true(&self) -> bool {
        self.opt_bool() == Some(true)
    }

    pub fn opt_bool(&self) -> Option<bool> {
        self.value().and_then(Value::as_bool)
    }

    pub fn object(&self) -> Option<&'a JsonObject> {
        match self.node {
            FieldValue::Root(object) | FieldValue::Value(Value::Object(object)) => Some(object),
            _ => None,
        }
    }

    /// The value itself; `None` if absent, and for the root of an object.
    pub fn value(&self) -> Option<&'a Value> {
        match self.node {
            FieldValue::Value(value) => Some(value),
            FieldValue::Absent | FieldValue::Root(_) => None,
        }
    }

    pub fn path(&self) -> &Path<'a> {
        &self.path
    }

    /// Whether both have equal values, regardless of their paths.
    pub fn same_as(&self, other: &FieldView<'_>) -> bool {
        match (self.object(), other.object()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.value() == other.value(),
        }
    }

    /// The value as errors show it.
    pub fn bad_value(&self) -> BadValue {
        match self.node {
            FieldValue::Absent => BadValue::json(&Value::Null),
            FieldValue::Root(object) => BadValue::json(object),
            FieldValue::Value(value) => BadValue::json(value),
        }
    }

    pub fn required(&self, errors: &mut ErrorList, detail: impl Into<String>) {
        errors.push(Error::required(&self.path, detail));
    }

    pub fn invalid(&self, errors: &mut ErrorList, detail: impl Into<String>) {
        errors.push(Error::invalid(&self.path, self.bad_value(), detail));
    }

    pub fn forbidden(&self, errors: &mut ErrorList, detail: impl Into<String>) {
        errors.push(Error::forbidden(&self.path, detail));
    }

    pub fn duplicate(&self, errors: &mut ErrorList) {
        errors.push(Error::duplicate(&self.path, self.bad_value()));
    }

    pub fn not_supported<V: AsRef<str>>(&self, errors: &mut ErrorList, supported: &[V]) {
        errors.push(Error::not_supported(
            &self.path,
            self.bad_value(),
            supported,
        ));
    }
}
