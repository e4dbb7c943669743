//! Random objects, made by the table.

use rhumb_schema::{Field, Shape, Table, Type};
use serde_json::{Map, Value, json};

/// Far enough for every embedding and list, and small enough to be read by people.
const DEPTH_MAX: usize = 7;

/// A sequence of numbers that is the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below that one.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits fit") % end
    }

    fn one_of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())].clone()
    }

    pub(crate) fn object(&mut self, table: &Table, of: &Type, depth: usize) -> Value {
        let mut object = Map::new();
        for field in &of.fields {
            if self.below(10) < 6 && !is_type(field) {
                if let Some(value) = self.value(table, &field.shape, depth) {
                    object.insert((*field.name).to_owned(), value);
                }
            }
        }
        Value::Object(object)
    }

    /// A value of that shape; `None` where it would be too deep.
    fn value(&mut self, table: &Table, shape: &Shape, depth: usize) -> Option<Value> {
        Some(match shape {
            Shape::String => self.one_of(&["", "a", "ü\u{10ffff}", "two words"]).into(),
            Shape::Bool => self.one_of(&[true, false]).into(),
            Shape::Int32 => self.one_of(&[0, 1, -1, 300, i32::MAX, i32::MIN]).into(),
            Shape::Int64 => self.one_of(&[0, 1, -1, 1 << 40, i64::MAX, i64::MIN]).into(),
            Shape::Float64 => self.one_of(&[json!(0), json!(1.5), json!(-3), json!(1e300)]),
            Shape::Bytes => self.one_of(&["", "AA==", "AAEC/w=="]).into(),
            Shape::Quantity => self
                .one_of(&["0", "500m", "1Gi", "-3", "1.5", "1e3"])
                .into(),
            Shape::IntOrString => {
                self.one_of(&[json!(0), json!(-1), json!(8080), json!(""), json!("50%")])
            }
            Shape::Time => self
                .one_of(&[
                    "2024-05-01T10:00:00Z",
                    "1969-12-31T23:59:59Z",
                    "1970-01-01T00:00:00Z",
                ])
                .into(),
            Shape::MicroTime => self
                .one_of(&["2024-05-01T10:00:00.000001Z", "1969-12-31T23:59:59.999999Z"])
                .into(),
            Shape::Duration => return None,
            Shape::Any => {
                self.one_of(&[json!({"a": [1, null, 2.5]}), json!({}), json!({"b": "<"})])
            }
            Shape::Object(id) => self.deeper(table, table.get(*id), depth)?,
            Shape::List(items) => self.list(table, &items.shape, depth),
            Shape::Map(values) => {
                let keys = ["", "b", "a", "ü"];
                let entries = (0..self.below(3)).filter_map(|_| {
                    let key = self.one_of(&keys).to_owned();
                    Some((key, self.value(table, values, depth + 1)?))
                });
                Value::Object(entries.collect())
            }
            Shape::OrBool(id) => match self.below(2) {
                0 => self.one_of(&[true, false]).into(),
                _ => self.deeper(table, table.get(*id), depth)?,
            },
            Shape::OrList(id) => match self.below(2) {
                0 => json!([self.deeper(table, table.get(*id), depth)?]),
                _ => self.deeper(table, table.get(*id), depth)?,
            },
            Shape::OrStrings(id) => match self.below(2) {
                0 => json!(["a", ""]),
                _ => self.deeper(table, table.get(*id), depth)?,
            },
        })
    }

    fn deeper(&mut self, table: &Table, of: &Type, depth: usize) -> Option<Value> {
        // Types that are made of themselves would grow without end.
        let is_recursive = of.name.ends_with(".JSONSchemaProps");
        let too_deep = depth >= DEPTH_MAX || (is_recursive && self.below(depth + 2) > 1);
        (!too_deep).then(|| self.object(table, of, depth + 1))
    }

    fn list(&mut self, table: &Table, shape: &Shape, depth: usize) -> Value {
        (0..self.below(3))
            .filter_map(|_| self.value(table, shape, depth + 1))
            .collect()
    }

    /// Changes a few bytes of a message, or cuts it.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = bytes[at].wrapping_add(1),
                2 => bytes[at] ^= 1 << self.below(8),
                _ => {
                    bytes.remove(at);
                }
            }
        }
    }
}

/// `kind` and `apiVersion` are in the envelope.
fn is_type(field: &Field) -> bool {
    field.embedded.iter().any(|outer| &*outer.go == "TypeMeta")
}
