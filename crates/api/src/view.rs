//! Reading an object, with the path of what is read at hand for an error.

mod index;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use serde_json::Value;

use crate::Object;

pub use index::Index;

/// A value that may be absent, and where it is. Reading on from an absent value gives absent values, so
/// validation reads like the rule it checks.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    node: Node<'a>,
    index: Option<&'a Index<'a>>,
    path: Path<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Node<'a> {
    Absent,
    Root(&'a Object),
    Value(&'a Value),
}

impl<'a> View<'a> {
    pub const fn root(object: &'a Object) -> Self {
        View {
            node: Node::Root(object),
            index: None,
            path: Path::NIL,
        }
    }

    #[inline]
    pub fn at(value: Option<&'a Value>, path: Path<'a>) -> Self {
        let node = match value {
            None | Some(Value::Null) => Node::Absent,
            Some(value) => Node::Value(value),
        };
        View {
            node,
            index: None,
            path,
        }
    }

    /// The index of its fields, for [`View::with`].
    #[inline]
    pub fn index(&self) -> Index<'a> {
        Index::of(self.object())
    }

    /// The same view with an index of its own fields, which is worth it if many of them are asked for.
    #[must_use]
    pub fn with(self, index: &'a Index<'a>) -> Self {
        View {
            index: Some(index).filter(|index| index.is_complete()),
            ..self
        }
    }

    #[inline]
    pub fn field(&'a self, name: &'a str) -> View<'a> {
        View::at(self.get(name), self.path.child(name))
    }

    /// The value of a field. It lives as long as the object does, which a field's view does not.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        match (self.index, self.node) {
            (_, Node::Absent) => None,
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

    /// The text of a field, empty if absent. It lives as long as the object does.
    pub fn text(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number of a field, zero if absent.
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).and_then(Value::as_i64).unwrap_or_default()
    }

    /// An entry of a map, whose path is written with brackets: `metadata.labels[app]`.
    #[inline]
    pub fn key(&'a self, key: &'a str) -> View<'a> {
        View::at(self.get(key), self.path.key(key))
    }

    /// The items of a list; none if it is absent.
    pub fn items(&'a self) -> impl ExactSizeIterator<Item = View<'a>> {
        let items = match self.node {
            Node::Value(Value::Array(items)) => items.as_slice(),
            _ => &[],
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| View::at(Some(item), self.path.index(index)))
    }

    /// The entries of a map, in order of their keys; none if it is absent.
    pub fn entries(&'a self) -> impl Iterator<Item = (&'a str, View<'a>)> {
        self.object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), View::at(Some(value), self.path.key(key))))
    }

    pub fn exists(&self) -> bool {
        !matches!(self.node, Node::Absent)
    }

    /// Absent, or an empty string, list or map, or zero, or false.
    pub fn is_empty(&self) -> bool {
        match self.node {
            Node::Absent => true,
            Node::Root(object) | Node::Value(Value::Object(object)) => object.is_empty(),
            Node::Value(Value::String(text)) => text.is_empty(),
            Node::Value(Value::Array(items)) => items.is_empty(),
            Node::Value(Value::Bool(value)) => !value,
            Node::Value(Value::Number(number)) => number.as_f64() == Some(0.0),
            Node::Value(Value::Null) => true,
        }
    }

    /// How many items, entries or bytes it has.
    pub fn len(&self) -> usize {
        match self.node {
            Node::Root(object) | Node::Value(Value::Object(object)) => object.len(),
            Node::Value(Value::String(text)) => text.len(),
            Node::Value(Value::Array(items)) => items.len(),
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

    pub fn object(&self) -> Option<&'a Object> {
        match self.node {
            Node::Root(object) | Node::Value(Value::Object(object)) => Some(object),
            _ => None,
        }
    }

    /// The value itself; `None` if absent, and for the root of an object.
    pub fn value(&self) -> Option<&'a Value> {
        match self.node {
            Node::Value(value) => Some(value),
            Node::Absent | Node::Root(_) => None,
        }
    }

    pub fn path(&self) -> &Path<'a> {
        &self.path
    }

    /// Whether both hold the same value, wherever they are.
    pub fn same_as(&self, other: &View<'_>) -> bool {
        match (self.object(), other.object()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.value() == other.value(),
        }
    }

    /// The value as errors show it.
    pub fn bad_value(&self) -> BadValue {
        match self.node {
            Node::Absent => BadValue::json(&Value::Null),
            Node::Root(object) => BadValue::json(object),
            Node::Value(value) => BadValue::json(value),
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
