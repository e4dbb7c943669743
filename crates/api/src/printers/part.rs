//! Reading parts of an object that may be absent.

use serde_json::Value;

use crate::Object;

/// A part of an object. Parts of an absent part are absent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    Absent,
    Root(&'a Object),
    Value(&'a Value),
}

impl<'a> Part<'a> {
    fn of(value: Option<&'a Value>) -> Part<'a> {
        match value {
            None | Some(Value::Null) => Part::Absent,
            Some(value) => Part::Value(value),
        }
    }

    /// The part at a path of field names with dots between them.
    pub(super) fn at(self, path: &str) -> Part<'a> {
        path.split('.').fold(self, Part::key)
    }

    /// The entry of a map, or a field.
    pub(super) fn key(self, key: &str) -> Part<'a> {
        Part::of(self.object().and_then(|object| object.get(key)))
    }

    pub(super) fn object(self) -> Option<&'a Object> {
        match self {
            Part::Root(object) | Part::Value(Value::Object(object)) => Some(object),
            _ => None,
        }
    }

    pub(super) fn exists(self) -> bool {
        !matches!(self, Part::Absent)
    }

    /// Its text; empty if there is none.
    pub(super) fn str(self) -> &'a str {
        self.opt_str().unwrap_or_default()
    }

    pub(super) fn opt_str(self) -> Option<&'a str> {
        match self {
            Part::Value(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Its text, or `other` if it is absent or empty.
    pub(super) fn str_or(self, other: &'a str) -> &'a str {
        match self.str() {
            "" => other,
            text => text,
        }
    }

    /// Its number; zero if there is none.
    pub(super) fn int(self) -> i64 {
        self.opt_int().unwrap_or_default()
    }

    pub(super) fn opt_int(self) -> Option<i64> {
        match self {
            Part::Value(value) => value.as_i64(),
            _ => None,
        }
    }

    pub(super) fn is_true(self) -> bool {
        self.opt_bool() == Some(true)
    }

    pub(super) fn opt_bool(self) -> Option<bool> {
        match self {
            Part::Value(value) => value.as_bool(),
            _ => None,
        }
    }

    /// A quantity, or a number or a text: the way it is written. `None` if absent.
    pub(super) fn opt_scalar(self) -> Option<String> {
        match self {
            Part::Value(Value::String(text)) => Some(text.clone()),
            Part::Value(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        }
    }

    /// A quantity; one that is not there is zero.
    pub(super) fn quantity(self) -> String {
        self.opt_scalar().unwrap_or_else(|| "0".to_string())
    }

    pub(super) fn items(self) -> impl DoubleEndedIterator<Item = Part<'a>> + ExactSizeIterator {
        let items = match self {
            Part::Value(Value::Array(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().map(|item| Part::of(Some(item)))
    }

    /// How many items or entries it has.
    pub(super) fn len(self) -> usize {
        match self {
            Part::Value(Value::Array(items)) => items.len(),
            _ => self.object().map_or(0, Object::len),
        }
    }

    /// The texts of a list's items, or of one field of each.
    pub(super) fn join(self, field: Option<&str>, separator: &str) -> String {
        self.items()
            .map(|item| field.map_or(item, |field| item.key(field)).str())
            .collect::<Vec<_>>()
            .join(separator)
    }

    /// The first of its conditions that has this type.
    pub(super) fn condition(self, kind: &str) -> Option<Part<'a>> {
        self.items()
            .find(|condition| condition.key("type").str() == kind)
    }
}
