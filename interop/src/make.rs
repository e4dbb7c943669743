//! Random objects of a type, and random patches of them.

use rhumb_schema::{Field, Items, Object, Shape, Table, TypeId};
use serde_json::{Value, json};

/// Few words, so that keys meet.
const WORDS: [&str; 6] = ["a", "b", "web", "true", "", "x/y"];
const DEPTH_MAX: u32 = 9;

/// The fields about which upstream can be asked.
fn upstream_fields(table: &Table, of: TypeId) -> impl Iterator<Item = &Field> {
    let fields = table.get(of).fields.iter();
    fields.filter(|field| !field.is_ours())
}

#[derive(Debug)]
pub struct Maker<'t> {
    table: &'t Table,
    state: u64,
    mistakes: bool,
    dense: bool,
    depth: u32,
}

impl<'t> Maker<'t> {
    pub fn new(table: &'t Table, seed: u64, mistakes: bool) -> Maker<'t> {
        Maker {
            table,
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d,
            mistakes,
            dense: false,
            depth: 0,
        }
    }

    /// Objects with many fields, fewer the deeper they are.
    pub fn dense(self) -> Maker<'t> {
        Maker {
            dense: true,
            ..self
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % limit
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len() as u64);
        from[usize::try_from(at).expect("fits")]
    }

    pub fn object(&mut self, of: TypeId) -> Value {
        let table = self.table;
        let mut object = Object::new();
        self.depth += 1;
        let share = match self.dense {
            true => 1 + u64::from(self.depth) / 2,
            false => 2 + table.get(of).fields.len() as u64 / 4,
        };
        for field in upstream_fields(table, of) {
            if &*field.name == "kind" || &*field.name == "apiVersion" {
                continue;
            }
            if self.depth <= DEPTH_MAX && self.chance(share.min(6)) {
                let value = self.field(field);
                object.insert((*field.name).to_owned(), value);
            }
        }
        if self.mistakes && self.chance(8) {
            object.insert("unknown".to_owned(), json!({"a": [1]}));
        }
        self.depth -= 1;
        Value::Object(object)
    }

    fn field(&mut self, field: &Field) -> Value {
        if self.mistakes && self.chance(60) {
            return self.pick(&[0, 1, 2, 3, 4, 5]).into_mistake();
        }
        if self.mistakes && self.chance(12) {
            return Value::Null;
        }
        self.value(&field.shape)
    }

    fn value(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::String => self.pick(&WORDS).into(),
            Shape::Bool => (self.below(2) == 0).into(),
            Shape::Int32 => self.pick(&[0, 1, -1, 80, i32::MAX]).into(),
            Shape::Int64 => self.pick(&[0, 1, -1, i64::MAX, i64::MIN]).into(),
            Shape::Float64 => self.pick(&[0.0, 1.0, 1.5, -2.25]).into(),
            Shape::Bytes => self.pick(&["", "aGk=", "aGVsbG8h"]).into(),
            Shape::Quantity => self
                .pick(&["0", "1", "1500m", "1024Ki", "1e3", "0.5"])
                .into(),
            Shape::IntOrString => self.pick(&[0, 1, 2]).into_int_or_string(),
            Shape::Time => self
                .pick(&["2024-05-01T12:00:00Z", "2024-05-01T12:00:00.5+02:00"])
                .into(),
            Shape::MicroTime => "2024-05-01T12:00:00.123456+02:00".into(),
            Shape::Duration => "1m0s".into(),
            Shape::Any => json!({"a": [1, "b", {}]}),
            Shape::Object(id) => self.object(*id),
            Shape::OrBool(id) => match self.chance(2) {
                true => true.into(),
                false => self.object(*id),
            },
            Shape::OrList(id) => match self.chance(2) {
                true => Value::Array(vec![self.object(*id)]),
                false => self.object(*id),
            },
            Shape::OrStrings(id) => match self.chance(2) {
                true => json!(["a"]),
                false => self.object(*id),
            },
            Shape::List(items) => self.list(items),
            Shape::Map(values) => {
                let keys = (0..self.below(3)).map(|_| self.pick(&WORDS).to_owned());
                let keys: Vec<String> = keys.collect();
                let entries = keys.into_iter().map(|key| (key, self.value(values)));
                Value::Object(entries.collect())
            }
        }
    }

    fn list(&mut self, items: &Items) -> Value {
        let length = self.below(4);
        let mut list: Vec<Value> = (0..length).map(|_| self.value(&items.shape)).collect();
        if items.shape == Shape::String {
            // How upstream merges values that are there twice depends on the capacity of a slice.
            let mut seen = std::collections::HashSet::new();
            list.retain(|item| seen.insert(item.to_string()));
        }
        if let (Some(key), Some(id)) = (&items.merge, items.shape.object())
            && !key.is_empty()
        {
            let field = self.table.get(id).field(key).expect("a merge key");
            for item in &mut list {
                item[&**key] = self.value(&field.shape);
            }
        }
        Value::Array(list)
    }

    /// An object with directives here and there.
    pub fn patch(&mut self, of: TypeId) -> Value {
        let mut patch = self.object(of);
        self.add_directives(&Shape::Object(of), &mut patch);
        patch
    }

    fn add_directives(&mut self, shape: &Shape, value: &mut Value) {
        match (shape, value) {
            (Shape::Object(id), Value::Object(object)) => {
                let table = self.table;
                for field in upstream_fields(table, *id) {
                    if let Some(value) = object.get_mut(&*field.name) {
                        self.add_directives(&field.shape, value);
                    } else if self.chance(40) {
                        object.insert((*field.name).to_owned(), Value::Null);
                    }
                    self.add_list_directives(field, object);
                }
                if self.chance(40) {
                    let directive = self.pick(&["replace", "delete", "merge", "what"]);
                    object.insert("$patch".to_owned(), directive.into());
                }
                if self.chance(30) {
                    let mut keys: Vec<Value> = object.keys().cloned().map(Value::from).collect();
                    keys.push("name".into());
                    if self.chance(4) {
                        keys.remove(0);
                    }
                    object.insert("$retainKeys".to_owned(), keys.into());
                }
            }
            (Shape::List(items), Value::Array(list)) => {
                for item in list {
                    self.add_directives(&items.shape, item);
                }
            }
            (Shape::Map(_), Value::Object(map)) if self.chance(6) => {
                map.insert("b".to_owned(), Value::Null);
            }
            _ => {}
        }
    }

    fn add_list_directives(&mut self, field: &Field, object: &mut Object) {
        let Shape::List(items) = &field.shape else {
            return;
        };
        let Some(key) = &items.merge else {
            return;
        };
        // With both a deletion and a patch of one list, Go takes them in any order.
        let patched = object.contains_key(&*field.name);
        if items.shape == Shape::String && !patched && self.chance(4) {
            let name = format!("$deleteFromPrimitiveList/{}", field.name);
            object.insert(name, json!(["a", "web"]));
        } else if items.shape.object().is_some() && self.chance(4) {
            let patched = object.get(&*field.name).and_then(Value::as_array);
            let mut order: Vec<Value> = patched
                .into_iter()
                .flatten()
                .map(|item| json!({&**key: item[&**key]}))
                .collect();
            if self.chance(3) {
                order.reverse();
            }
            order.dedup();
            object.insert(format!("$setElementOrder/{}", field.name), order.into());
        }
    }
}

trait Variant {
    fn into_mistake(self) -> Value;
    fn into_int_or_string(self) -> Value;
}

impl Variant for i32 {
    /// A value that fits few types.
    fn into_mistake(self) -> Value {
        match self {
            0 => json!(1.5),
            1 => json!("text"),
            2 => json!([]),
            3 => json!({}),
            4 => json!(true),
            _ => json!(99_999_999_999_i64),
        }
    }

    fn into_int_or_string(self) -> Value {
        match self {
            0 => json!(0),
            1 => json!(80),
            _ => json!("50%"),
        }
    }
}
