//! Merges an apply configuration into an object, as a mutating admission policy does: fields it sets are replaced,
//! fields it omits are kept, list items are matched by key. Field ownership is not tracked.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::{Field, ListSchema, ListType, ValueType};
use crate::{Object, Table, TypeId};

/// Why an apply configuration was rejected, with upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyConfigurationError {
    #[error("failed to convert patch object to typed object: {0}: field not declared in schema")]
    UndeclaredField(String),
    #[error("failed to convert patch object to typed object: {path}: {reason}")]
    TypeMismatch { path: String, reason: String },
    /// A partial value would silently remove the rest of an atomic list, map or struct.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
}

/// Merges `patch` into `object`, both of the type `type_id`. The caller must decode the result again.
pub fn merge_apply_configuration(
    table: &Table,
    type_id: TypeId,
    object: &Object,
    patch: Object,
) -> Result<Object, ApplyConfigurationError> {
    let mut merger = ApplyConfigurationMerger {
        table,
        path: String::new(),
        atomic_paths: Vec::new(),
    };
    let mut object = object.clone();
    merger.merge_object(type_id, &mut object, patch)?;
    if merger.atomic_paths.is_empty() {
        Ok(object)
    } else {
        Err(ApplyConfigurationError::Atomic(merger.atomic_paths))
    }
}

/// State of one merge.
struct ApplyConfigurationMerger<'a> {
    table: &'a Table,
    /// Path of the value being merged.
    path: String,
    /// Paths of the atomic values that the patch sets.
    atomic_paths: Vec<String>,
}

impl ApplyConfigurationMerger<'_> {
    fn merge_object(
        &mut self,
        type_id: TypeId,
        object: &mut Object,
        patch: Object,
    ) -> Result<(), ApplyConfigurationError> {
        let table = self.table;
        let object_type = table.get(type_id);
        for (name, value) in patch {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(&name);
            match object_type.field(&name) {
                Some(field) => {
                    self.merge_field(field, object.entry(name).or_insert(Value::Null), value)?;
                }
                None if object_type.preserve_unknown_fields => {
                    object.insert(name, value);
                }
                None => return Err(ApplyConfigurationError::UndeclaredField(self.path.clone())),
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    fn merge_field(
        &mut self,
        field: &Field,
        value: &mut Value,
        patch: Value,
    ) -> Result<(), ApplyConfigurationError> {
        let is_atomic = match &field.value_type {
            ValueType::Object(type_id) => field.atomic.unwrap_or(self.table.get(*type_id).atomic),
            ValueType::Map(_) => field.atomic.unwrap_or(false),
            _ => false,
        };
        if is_atomic && patch.is_object() {
            self.atomic_paths.push(self.path.clone());
        }
        self.merge_value(&field.value_type, value, patch)
    }

    fn merge_value(
        &mut self,
        value_type: &ValueType,
        value: &mut Value,
        patch: Value,
    ) -> Result<(), ApplyConfigurationError> {
        match (value_type, patch) {
            (ValueType::Object(type_id), Value::Object(patch)) => {
                let mut object = take_object(value);
                self.merge_object(*type_id, &mut object, patch)?;
                *value = Value::Object(object);
                Ok(())
            }
            (ValueType::Map(type_id), Value::Object(patch)) => {
                let mut map = take_object(value);
                for (key, item) in patch {
                    let length = self.path.len();
                    self.path.push('.');
                    self.path.push_str(&key);
                    self.merge_value(type_id, map.entry(key).or_insert(Value::Null), item)?;
                    self.path.truncate(length);
                }
                *value = Value::Object(map);
                Ok(())
            }
            (ValueType::List(list_schema), Value::Array(patch)) => {
                let mut list = take_list(value);
                self.merge_list(list_schema, &mut list, patch)?;
                *value = Value::Array(list);
                Ok(())
            }
            (ValueType::Object(_) | ValueType::Map(_), patch) if !patch.is_null() => {
                Err(self.type_mismatch(format!("expected map, got {patch}")))
            }
            (ValueType::List(_), patch) if !patch.is_null() => {
                Err(self.type_mismatch(format!("expected list, got {patch}")))
            }
            (_, patch) => {
                *value = patch;
                Ok(())
            }
        }
    }

    fn type_mismatch(&self, reason: String) -> ApplyConfigurationError {
        ApplyConfigurationError::TypeMismatch {
            path: self.path.clone(),
            reason,
        }
    }

    fn merge_list(
        &mut self,
        list_schema: &ListSchema,
        list: &mut Vec<Value>,
        patch: Vec<Value>,
    ) -> Result<(), ApplyConfigurationError> {
        match &list_schema.list_type {
            ListType::Atomic => {
                self.atomic_paths.push(self.path.clone());
                Ok(())
            }
            ListType::Set => {
                for item in patch {
                    if !list.contains(&item) {
                        list.push(item);
                    }
                }
                Ok(())
            }
            ListType::Map(keys) => {
                for (position, item) in patch.into_iter().enumerate() {
                    let length = self.path.len();
                    // Writing to a String does not fail.
                    let _ = write!(self.path, "[{position}]");
                    let item_key = self.key(list_schema, keys, &item);
                    let found = list
                        .iter()
                        .position(|existing| self.key(list_schema, keys, existing) == item_key);
                    let position = found.unwrap_or_else(|| {
                        list.push(Value::Null);
                        list.len() - 1
                    });
                    if let Some(existing) = list.get_mut(position) {
                        self.merge_value(&list_schema.item_type, existing, item)?;
                    }
                    self.path.truncate(length);
                }
                Ok(())
            }
        }
    }

    /// The values of the list map keys of an item. An absent key has its default.
    fn key(&self, list_schema: &ListSchema, keys: &[Box<str>], item: &Value) -> Vec<Value> {
        let type_id = match &list_schema.item_type {
            ValueType::Object(type_id) => Some(self.table.get(*type_id)),
            _ => None,
        };
        keys.iter()
            .map(|key| match item.get(&**key) {
                None | Some(Value::Null) => type_id
                    .and_then(|object_type| object_type.field(key)?.default.clone())
                    .unwrap_or_default(),
                Some(value) => value.clone(),
            })
            .collect()
    }
}

/// Takes the object out of a value; empty if the value is not an object.
fn take_object(value: &mut Value) -> Object {
    match value.take() {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

fn take_list(value: &mut Value) -> Vec<Value> {
    match value.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("{other} is no object"),
        }
    }

    fn merge_into_pod(before: Value, patch: Value) -> Result<Value, String> {
        let table = Table::builtin();
        let type_id = table.type_id("io.k8s.api.core.v1.Pod").expect("a type");
        merge_apply_configuration(table, type_id, &object(before), object(patch))
            .map(Value::Object)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn set_fields_are_merged_and_others_kept() {
        let before = json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {
                "nodeName": "n",
                "containers": [
                    {"name": "x", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                    {"name": "y"},
                ],
            },
        });
        let patch = json!({
            "metadata": {"labels": {"c": "d"}, "finalizers": ["f/g"]},
            "spec": {
                "containers": [
                    {"name": "z", "image": "new"},
                    {"name": "x", "image": "j", "ports": [{"containerPort": 80, "name": "http"}]},
                ],
            },
        });
        let want = json!({
            "metadata": {"name": "p", "labels": {"a": "b", "c": "d"}, "finalizers": ["f/g"]},
            "spec": {
                "nodeName": "n",
                "containers": [
                    {
                        "name": "x", "image": "j",
                        "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}],
                    },
                    {"name": "y"},
                    {"name": "z", "image": "new"},
                ],
            },
        });
        assert_eq!(merge_into_pod(before, patch), Ok(want));
    }

    #[test]
    fn atomic_and_mismatched_values_are_rejected() {
        let table = [
            (
                json!({"spec": {"containers": [{"name": "x", "args": ["a"]}]}}),
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].args",
            ),
            (
                json!({"spec": {"nodeSelector": {"a": "b"}}}),
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector",
            ),
            (
                json!({"spec": {"nope": 1}}),
                "failed to convert patch object to typed object: .spec.nope: field not declared in schema",
            ),
            (
                json!({"spec": []}),
                "failed to convert patch object to typed object: .spec: expected map, got []",
            ),
            (
                json!({"spec": {"containers": {}}}),
                "failed to convert patch object to typed object: .spec.containers: expected list, got {}",
            ),
        ];
        for (patch, want) in table {
            assert_eq!(
                merge_into_pod(json!({}), patch.clone()),
                Err(want.to_owned()),
                "{patch}"
            );
        }
    }
}
