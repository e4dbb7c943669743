//! [`JsonView`]: read access to nested JSON values that may be absent, for the printers.

use serde_json::Value;

use crate::JsonObject;

/// A reference to a JSON value or to an absent one. Children of an absent value are absent.
#[derive(Debug, Clone, Copy)]
pub(super) enum JsonView<'a> {
    Absent,
    Root(&'a JsonObject),
    Value(&'a Value),
}

impl<'a> JsonView<'a> {
    fn of(value: Option<&'a Value>) -> JsonView<'a> {
        match value {
            None | Some(Value::Null) => JsonView::Absent,
            Some(value) => JsonView::Value(value),
        }
    }

    /// The value at a dotted path.
    pub(super) fn at(self, path: &str) -> JsonView<'a> {
        path.split('.').fold(self, JsonView::key)
    }

    /// A field or map entry.
    pub(super) fn key(self, key: &str) -> JsonView<'a> {
        JsonView::of(self.object().and_then(|object| object.get(key)))
    }

    pub(super) fn object(self) -> Option<&'a JsonObject> {
        match self {
            JsonView::Root(object) | JsonView::Value(Value::Object(object)) => Some(object),
            _ => None,
        }
    }

    pub(super) fn exists(self) -> bool {
        !matches!(self, JsonView::Absent)
    }

    /// The string; empty if absent.
    pub(super) fn str(self) -> &'a str {
        self.opt_str().unwrap_or_default()
    }

    pub(super) fn opt_str(self) -> Option<&'a str> {
        match self {
            JsonView::Value(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The string, or `other` if absent or empty.
    pub(super) fn str_or(self, other: &'a str) -> &'a str {
        match self.str() {
            "" => other,
            text => text,
        }
    }

    /// The number; zero if absent.
    pub(super) fn int(self) -> i64 {
        self.opt_int().unwrap_or_default()
    }

    pub(super) fn opt_int(self) -> Option<i64> {
        match self {
            JsonView::Value(value) => value.as_i64(),
            _ => None,
        }
    }

    pub(super) fn is_true(self) -> bool {
        self.opt_bool() == Some(true)
    }

    pub(super) fn opt_bool(self) -> Option<bool> {
        match self {
            JsonView::Value(value) => value.as_bool(),
            _ => None,
        }
    }

    /// A quantity, number or string as written. `None` if absent.
    pub(super) fn opt_scalar(self) -> Option<String> {
        match self {
            JsonView::Value(Value::String(text)) => Some(text.clone()),
            JsonView::Value(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A quantity; `0` if absent.
    pub(super) fn quantity(self) -> String {
        self.opt_scalar().unwrap_or_else(|| "0".to_string())
    }

    pub(super) fn items(self) -> impl DoubleEndedIterator<Item = JsonView<'a>> + ExactSizeIterator {
        let items = match self {
            JsonView::Value(Value::Array(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().map(|item| JsonView::of(Some(item)))
    }

    /// The number of list items or map entries.
    pub(super) fn item_count(self) -> usize {
        match self {
            JsonView::Value(Value::Array(items)) => items.len(),
            _ => self.object().map_or(0, JsonObject::len),
        }
    }

    /// Joins the string items of a list, or one string field of each item.
    pub(super) fn join(self, field: Option<&str>, separator: &str) -> String {
        self.items()
            .map(|item| field.map_or(item, |field| item.key(field)).str())
            .collect::<Vec<_>>()
            .join(separator)
    }

    /// The first condition of this type.
    pub(super) fn condition(self, kind: &str) -> Option<JsonView<'a>> {
        self.items()
            .find(|condition| condition.key("type").str() == kind)
    }
}
