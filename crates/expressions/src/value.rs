//! CEL values.

use crate::error::{EvaluationError, EvaluationResult};
use crate::library::opaque_value::OpaqueValue;
use crate::limits;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A CEL value. Clones are cheap: large contents are reference-counted.
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
    List(Arc<ListValue>),
    Map(Arc<MapValue>),
    Optional(Option<Arc<Value>>),
    /// A type as a value, by its name.
    Type(Arc<str>),
    /// `Object{...}`: an apply configuration or an object nested in it.
    Object(Arc<ObjectValue>),
    /// `JSONPatch{...}`: one operation of a JSON patch.
    JsonPatch(Arc<JsonPatchValue>),
    /// A value of an opaque type, such as an IP address or a quantity.
    Opaque(OpaqueValue),
}

/// A list and its size.
#[derive(Clone, Debug, Default)]
pub struct ListValue {
    items: Vec<Value>,
    size: ValueSize,
}

/// A map sorted by key, and its size.
#[derive(Clone, Debug, Default)]
pub struct MapValue {
    entries: Vec<(MapKey, Value)>,
    size: ValueSize,
}

/// A map key. An int and a uint of the same value are the same key.
#[derive(Clone, Debug)]
pub enum MapKey {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

/// A message created by `Object{...}`.
#[derive(Clone, Debug, Default)]
pub struct ObjectValue {
    pub(crate) type_name: Arc<str>,
    pub(crate) fields: BTreeMap<Arc<str>, Value>,
}

/// One JSON patch operation, created by `JSONPatch{...}`.
#[derive(Clone, Debug, Default)]
pub struct JsonPatchValue {
    pub op: Arc<str>,
    pub from: Arc<str>,
    pub path: Arc<str>,
    pub value: Option<Value>,
}

/// Size and depth of a value counted as a tree: shared parts count each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueSize {
    pub(crate) bytes: usize,
    pub(crate) depth: usize,
}

/// Bytes accounted per item, in addition to its text.
pub(crate) const ITEM_BYTES: usize = 32;

impl ValueSize {
    fn include(&mut self, value: &Value) {
        let inner = value.size();
        self.bytes = self
            .bytes
            .saturating_add(inner.bytes)
            .saturating_add(ITEM_BYTES);
        self.depth = self.depth.max(inner.depth + 1);
    }

    fn include_entry(&mut self, key: &MapKey, value: &Value) {
        self.include(value);
        if let MapKey::String(text) = key {
            self.bytes = self.bytes.saturating_add(text.len());
        }
    }

    pub(crate) fn check_limits(self) -> EvaluationResult<()> {
        if self.bytes > limits::VALUE_BYTES_MAX || self.depth > limits::VALUE_DEPTH_MAX {
            return Err(EvaluationError::TooLarge);
        }
        Ok(())
    }
}

impl ListValue {
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    pub(crate) fn push(&mut self, value: Value) {
        self.size.include(&value);
        self.items.push(value);
    }
}

impl FromIterator<Value> for ListValue {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> ListValue {
        let mut list = ListValue::default();
        for value in values {
            list.push(value);
        }
        list
    }
}

impl MapValue {
    pub fn entries(&self) -> &[(MapKey, Value)] {
        &self.entries
    }

    pub fn get(&self, key: &MapKey) -> Option<&Value> {
        let index = self.find(key).ok()?;
        Some(&self.entries[index].1)
    }

    pub fn get_str(&self, key: &str) -> Option<&Value> {
        let compare = |(entry, _): &(MapKey, Value)| match entry {
            MapKey::String(text) => (**text).cmp(key),
            _ => Ordering::Less,
        };
        let index = self.entries.binary_search_by(compare).ok()?;
        Some(&self.entries[index].1)
    }

    fn find(&self, key: &MapKey) -> Result<usize, usize> {
        self.entries.binary_search_by(|(entry, _)| entry.cmp(key))
    }

    /// Inserts a value and returns the previous one.
    pub(crate) fn insert(&mut self, key: MapKey, value: Value) -> Option<Value> {
        self.size.include_entry(&key, &value);
        match self.find(&key) {
            Ok(index) => Some(std::mem::replace(&mut self.entries[index].1, value)),
            Err(index) => {
                self.entries.insert(index, (key, value));
                None
            }
        }
    }
}

impl FromIterator<(MapKey, Value)> for MapValue {
    /// The last of several entries with the same key wins.
    fn from_iter<I: IntoIterator<Item = (MapKey, Value)>>(entries: I) -> MapValue {
        let mut entries: Vec<(MapKey, Value)> = entries.into_iter().collect();
        // Sorting once avoids the quadratic cost of inserting in descending order.
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        entries.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        let mut size = ValueSize::default();
        for (key, value) in &entries {
            size.include_entry(key, value);
        }
        MapValue { entries, size }
    }
}

impl MapKey {
    pub(crate) fn from_value(value: &Value) -> Option<MapKey> {
        Some(match value {
            Value::Bool(bool) => MapKey::Bool(*bool),
            Value::Int(int) => MapKey::Int(*int),
            Value::Uint(uint) => MapKey::Uint(*uint),
            Value::String(text) => MapKey::String(text.clone()),
            _ => return None,
        })
    }

    /// As [`MapKey::from_value`], for lookups: a double without a fraction finds an int key.
    pub(crate) fn for_lookup(value: &Value) -> Option<MapKey> {
        match value {
            Value::Double(double) => {
                crate::interpreter::compare::double_to_int(*double).map(MapKey::Int)
            }
            _ => MapKey::from_value(value),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            MapKey::Bool(bool) => Value::Bool(*bool),
            MapKey::Int(int) => Value::Int(*int),
            MapKey::Uint(uint) => Value::Uint(*uint),
            MapKey::String(text) => Value::String(text.clone()),
        }
    }

    fn number(&self) -> i128 {
        match self {
            MapKey::Int(int) => i128::from(*int),
            MapKey::Uint(uint) => i128::from(*uint),
            MapKey::Bool(_) | MapKey::String(_) => 0,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            MapKey::Bool(_) => 0,
            MapKey::Int(_) | MapKey::Uint(_) => 1,
            MapKey::String(_) => 2,
        }
    }
}

impl Ord for MapKey {
    fn cmp(&self, other: &MapKey) -> Ordering {
        match (self, other) {
            (MapKey::Bool(left), MapKey::Bool(right)) => left.cmp(right),
            (MapKey::String(left), MapKey::String(right)) => left.cmp(right),
            _ => (self.rank(), self.number()).cmp(&(other.rank(), other.number())),
        }
    }
}

impl PartialOrd for MapKey {
    fn partial_cmp(&self, other: &MapKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MapKey {
    fn eq(&self, other: &MapKey) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MapKey {}

impl Value {
    pub(crate) fn size(&self) -> ValueSize {
        let leaf = |bytes| ValueSize { bytes, depth: 0 };
        match self {
            Value::String(text) => leaf(text.len()),
            Value::Bytes(bytes) => leaf(bytes.len()),
            Value::List(list) => list.size,
            Value::Map(map) => map.size,
            Value::Optional(Some(value)) => {
                let mut size = ValueSize::default();
                size.include(value);
                size
            }
            Value::Object(object) => total_size(object.fields.values()),
            Value::JsonPatch(patch) => total_size(patch.value.iter()),
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

    /// The type name, as `type(value)` and error messages have it.
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
            Value::JsonPatch(_) => "JSONPatch",
            Value::Opaque(opaque) => opaque.type_name(),
        }
    }
}

fn total_size<'v>(values: impl Iterator<Item = &'v Value>) -> ValueSize {
    let mut size = ValueSize::default();
    for value in values {
        size.include(value);
    }
    size
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
