//! What expressions compute with.

use crate::error::{Evaluated, EvaluationError};
use crate::library::opaque::Opaque;
use crate::limits;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value of CEL. Copying one is cheap: what is large is shared.
#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Seconds since 1970, and nanoseconds.
    Timestamp(i64, u32),
    /// Nanoseconds.
    Duration(i64),
    List(Arc<List>),
    Map(Arc<Map>),
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(Arc<str>),
    /// `Object{...}`: a part of an apply configuration.
    Object(Arc<Object>),
    /// `JSONPatch{...}`: one operation of a patch.
    Patch(Arc<Patch>),
    /// An address, a quantity and the like: what only functions can look into.
    Opaque(Opaque),
}

/// A list, with what it would take up if nothing in it were shared.
#[derive(Clone, Debug, Default)]
pub struct List {
    items: Vec<Value>,
    extent: Extent,
}

/// A map, sorted by key.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Vec<(Key, Value)>,
    extent: Extent,
}

/// What can be the key of a map. Numbers that are equal are the same key, whatever their types.
#[derive(Clone, Debug)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

#[derive(Clone, Debug, Default)]
pub struct Object {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Value>,
}

/// One operation of a JSON patch, as `JSONPatch{...}` says it.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    pub op: Arc<str>,
    pub from: Arc<str>,
    pub path: Arc<str>,
    pub value: Option<Value>,
}

/// How large and how deep a value is, counted as a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) bytes: usize,
    pub(crate) depth: usize,
}

/// What an item takes up beside its text.
pub(crate) const ITEM_BYTES: usize = 32;

impl Extent {
    fn include(&mut self, value: &Value) {
        let inner = value.extent();
        self.bytes = self
            .bytes
            .saturating_add(inner.bytes)
            .saturating_add(ITEM_BYTES);
        self.depth = self.depth.max(inner.depth + 1);
    }

    fn include_entry(&mut self, key: &Key, value: &Value) {
        self.include(value);
        if let Key::String(text) = key {
            self.bytes = self.bytes.saturating_add(text.len());
        }
    }

    pub(crate) fn check(self) -> Evaluated<()> {
        if self.bytes > limits::VALUE_BYTES_MAX || self.depth > limits::VALUE_DEPTH_MAX {
            return Err(EvaluationError::TooLarge);
        }
        Ok(())
    }
}

impl List {
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    pub(crate) fn push(&mut self, value: Value) {
        self.extent.include(&value);
        self.items.push(value);
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> List {
        let mut list = List::default();
        for value in values {
            list.push(value);
        }
        list
    }
}

impl Map {
    pub fn entries(&self) -> &[(Key, Value)] {
        &self.entries
    }

    pub fn get(&self, key: &Key) -> Option<&Value> {
        let at = self.find(key).ok()?;
        Some(&self.entries[at].1)
    }

    pub fn get_str(&self, key: &str) -> Option<&Value> {
        let compare = |(entry, _): &(Key, Value)| match entry {
            Key::String(text) => (**text).cmp(key),
            _ => Ordering::Less,
        };
        let at = self.entries.binary_search_by(compare).ok()?;
        Some(&self.entries[at].1)
    }

    fn find(&self, key: &Key) -> Result<usize, usize> {
        self.entries.binary_search_by(|(entry, _)| entry.cmp(key))
    }

    /// Puts a value in, and gives back what was there.
    pub(crate) fn insert(&mut self, key: Key, value: Value) -> Option<Value> {
        self.extent.include_entry(&key, &value);
        match self.find(&key) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (key, value));
                None
            }
        }
    }
}

impl FromIterator<(Key, Value)> for Map {
    /// Of entries with the same key, the last one counts.
    fn from_iter<I: IntoIterator<Item = (Key, Value)>>(entries: I) -> Map {
        let mut entries: Vec<(Key, Value)> = entries.into_iter().collect();
        // Sorted at once: putting each into its place takes long if they come in the wrong order.
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        entries.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        let mut extent = Extent::default();
        for (key, value) in &entries {
            extent.include_entry(key, value);
        }
        Map { entries, extent }
    }
}

impl Key {
    pub(crate) fn from_value(value: &Value) -> Option<Key> {
        Some(match value {
            Value::Bool(bool) => Key::Bool(*bool),
            Value::Int(int) => Key::Int(*int),
            Value::Uint(uint) => Key::Uint(*uint),
            Value::String(text) => Key::String(text.clone()),
            _ => return None,
        })
    }

    /// As [`Key::from_value`], for looking things up: a whole number may also come as a double.
    pub(crate) fn for_lookup(value: &Value) -> Option<Key> {
        match value {
            Value::Double(double) => crate::run::compare::whole(*double).map(Key::Int),
            _ => Key::from_value(value),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Key::Bool(bool) => Value::Bool(*bool),
            Key::Int(int) => Value::Int(*int),
            Key::Uint(uint) => Value::Uint(*uint),
            Key::String(text) => Value::String(text.clone()),
        }
    }

    fn number(&self) -> i128 {
        match self {
            Key::Int(int) => i128::from(*int),
            Key::Uint(uint) => i128::from(*uint),
            Key::Bool(_) | Key::String(_) => 0,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Bool(_) => 0,
            Key::Int(_) | Key::Uint(_) => 1,
            Key::String(_) => 2,
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            (Key::Bool(left), Key::Bool(right)) => left.cmp(right),
            (Key::String(left), Key::String(right)) => left.cmp(right),
            _ => (self.rank(), self.number()).cmp(&(other.rank(), other.number())),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl Value {
    pub(crate) fn extent(&self) -> Extent {
        let leaf = |bytes| Extent { bytes, depth: 0 };
        match self {
            Value::String(text) => leaf(text.len()),
            Value::Bytes(bytes) => leaf(bytes.len()),
            Value::List(list) => list.extent,
            Value::Map(map) => map.extent,
            Value::Optional(Some(value)) => {
                let mut extent = Extent::default();
                extent.include(value);
                extent
            }
            Value::Object(object) => extent_of(object.fields.values()),
            Value::Patch(patch) => extent_of(patch.value.iter()),
            _ => leaf(0),
        }
    }

    pub(crate) fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(items.into_iter().collect()))
    }

    pub(crate) fn some(value: Value) -> Value {
        Value::Optional(Some(Arc::new(value)))
    }

    pub(crate) const NONE: Value = Value::Optional(None);

    /// The name of its type, as `type(value)` and error messages have it.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(..) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Object(object) => &object.type_name,
            Value::Patch(_) => "JSONPatch",
            Value::Opaque(opaque) => opaque.type_name(),
        }
    }
}

fn extent_of<'v>(values: impl Iterator<Item = &'v Value>) -> Extent {
    let mut extent = Extent::default();
    for value in values {
        extent.include(value);
    }
    extent
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::String(text.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.into())
    }
}
