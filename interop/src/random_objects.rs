//! Generates random objects of a type, and random patches of them.

use rhumb_schema::{Field, ListSchema, Object, Table, TypeId, ValueType};
use serde_json::{Value, json};

/// A small vocabulary, so that keys collide.
const WORDS: [&str; 6] = ["a", "b", "web", "true", "", "x/y"];
const DEPTH_MAX: u32 = 9;

/// Excludes fields that upstream's types do not have.
fn upstream_fields(table: &Table, of: TypeId) -> impl Iterator<Item = &Field> {
    let fields = table.get(of).fields.iter();
    fields.filter(|field| !field.is_rhumb_extension())
}

#[derive(Debug)]
pub struct RandomObjectGenerator<'t> {
    table: &'t Table,
    state: u64,
    invalid_values: bool,
    dense: bool,
    depth: u32,
}

impl<'t> RandomObjectGenerator<'t> {
    pub fn new(table: &'t Table, seed: u64, invalid_values: bool) -> RandomObjectGenerator<'t> {
        RandomObjectGenerator {
            table,
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d,
            invalid_values,
            dense: false,
            depth: 0,
        }
    }

    /// Objects with many fields at the top and fewer at deeper levels.
    pub fn dense(self) -> RandomObjectGenerator<'t> {
        RandomObjectGenerator {
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
        if self.invalid_values && self.chance(8) {
            object.insert("unknown".to_owned(), json!({"a": [1]}));
        }
        self.depth -= 1;
        Value::Object(object)
    }

    fn field(&mut self, field: &Field) -> Value {
        if self.invalid_values && self.chance(60) {
            return self.pick(&[0, 1, 2, 3, 4, 5]).into_invalid_value();
        }
        if self.invalid_values && self.chance(12) {
            return Value::Null;
        }
        self.value(&field.value_type)
    }

    fn value(&mut self, value_type: &ValueType) -> Value {
        match value_type {
            ValueType::String => self.pick(&WORDS).into(),
            ValueType::Bool => (self.below(2) == 0).into(),
            ValueType::Int32 => self.pick(&[0, 1, -1, 80, i32::MAX]).into(),
            ValueType::Int64 => self.pick(&[0, 1, -1, i64::MAX, i64::MIN]).into(),
            ValueType::Float64 => self.pick(&[0.0, 1.0, 1.5, -2.25]).into(),
            ValueType::Bytes => self.pick(&["", "aGk=", "aGVsbG8h"]).into(),
            ValueType::Quantity => self
                .pick(&["0", "1", "1500m", "1024Ki", "1e3", "0.5"])
                .into(),
            ValueType::IntOrString => self.pick(&[0, 1, 2]).into_int_or_string(),
            ValueType::Time => self
                .pick(&["2024-05-01T12:00:00Z", "2024-05-01T12:00:00.5+02:00"])
                .into(),
            ValueType::MicroTime => "2024-05-01T12:00:00.123456+02:00".into(),
            ValueType::Duration => "1m0s".into(),
            ValueType::Any => json!({"a": [1, "b", {}]}),
            ValueType::Object(id) => self.object(*id),
            ValueType::SchemaOrBool(id) => match self.chance(2) {
                true => true.into(),
                false => self.object(*id),
            },
            ValueType::SchemaOrArray(id) => match self.chance(2) {
                true => Value::Array(vec![self.object(*id)]),
                false => self.object(*id),
            },
            ValueType::SchemaOrStringArray(id) => match self.chance(2) {
                true => json!(["a"]),
                false => self.object(*id),
            },
            ValueType::List(items) => self.list(items),
            ValueType::Map(values) => {
                let keys = (0..self.below(3)).map(|_| self.pick(&WORDS).to_owned());
                let keys: Vec<String> = keys.collect();
                let entries = keys.into_iter().map(|key| (key, self.value(values)));
                Value::Object(entries.collect())
            }
        }
    }

    fn list(&mut self, items: &ListSchema) -> Value {
        let length = self.below(4);
        let mut list: Vec<Value> = (0..length).map(|_| self.value(&items.item_type)).collect();
        if items.item_type == ValueType::String {
            // Upstream's merge of duplicate values depends on the capacity of a slice.
            let mut seen = std::collections::HashSet::new();
            list.retain(|item| seen.insert(item.to_string()));
        }
        if let (Some(key), Some(id)) = (&items.merge_key, items.item_type.object())
            && !key.is_empty()
        {
            let field = self.table.get(id).field(key).expect("a merge key");
            for item in &mut list {
                item[&**key] = self.value(&field.value_type);
            }
        }
        Value::Array(list)
    }

    /// A patch with strategic merge directives at random places.
    pub fn patch(&mut self, of: TypeId) -> Value {
        let mut patch = self.object(of);
        self.add_directives(&ValueType::Object(of), &mut patch);
        patch
    }

    fn add_directives(&mut self, value_type: &ValueType, value: &mut Value) {
        match (value_type, value) {
            (ValueType::Object(id), Value::Object(object)) => {
                let table = self.table;
                for field in upstream_fields(table, *id) {
                    if let Some(value) = object.get_mut(&*field.name) {
                        self.add_directives(&field.value_type, value);
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
            (ValueType::List(items), Value::Array(list)) => {
                for item in list {
                    self.add_directives(&items.item_type, item);
                }
            }
            (ValueType::Map(_), Value::Object(map)) if self.chance(6) => {
                map.insert("b".to_owned(), Value::Null);
            }
            _ => {}
        }
    }

    fn add_list_directives(&mut self, field: &Field, object: &mut Object) {
        let ValueType::List(items) = &field.value_type else {
            return;
        };
        let Some(key) = &items.merge_key else {
            return;
        };
        // Go applies a deletion and a patch of one list in random order.
        let patched = object.contains_key(&*field.name);
        if items.item_type == ValueType::String && !patched && self.chance(4) {
            let name = format!("$deleteFromPrimitiveList/{}", field.name);
            object.insert(name, json!(["a", "web"]));
        } else if items.item_type.object().is_some() && self.chance(4) {
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

trait IntoRandomValue {
    fn into_invalid_value(self) -> Value;
    fn into_int_or_string(self) -> Value;
}

impl IntoRandomValue for i32 {
    /// A value that is invalid for most types.
    fn into_invalid_value(self) -> Value {
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
