//! An apply configuration laid over an object: what it sets is set, what it leaves out stays, items of lists are
//! found by their keys. Nobody's ownership is tracked.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::{Field, Items, Shape, Topology};
use crate::{Object, Table, TypeId};

/// Why an apply configuration cannot be used, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    #[error("failed to convert patch object to typed object: {0}: field not declared in schema")]
    Unknown(String),
    #[error("failed to convert patch object to typed object: {path}: {reason}")]
    Misfit { path: String, reason: String },
    /// Setting a part of it would remove all the rest, which nobody expects.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
}

/// Lays `patch` over `object`, both of the type `of`. The result is to be decoded again.
pub fn overlay(
    table: &Table,
    of: TypeId,
    object: &Object,
    patch: Object,
) -> Result<Object, OverlayError> {
    let mut work = Work {
        table,
        path: String::new(),
        atomics: Vec::new(),
    };
    let mut object = object.clone();
    work.lay_object(of, &mut object, patch)?;
    if work.atomics.is_empty() {
        Ok(object)
    } else {
        Err(OverlayError::Atomic(work.atomics))
    }
}

struct Work<'a> {
    table: &'a Table,
    /// Where in the patch it is at.
    path: String,
    atomics: Vec<String>,
}

impl Work<'_> {
    fn lay_object(
        &mut self,
        of: TypeId,
        object: &mut Object,
        patch: Object,
    ) -> Result<(), OverlayError> {
        let table = self.table;
        let of = table.get(of);
        for (name, value) in patch {
            let length = self.path.len();
            self.path.push('.');
            self.path.push_str(&name);
            match of.field(&name) {
                Some(field) => {
                    self.lay_field(field, object.entry(name).or_insert(Value::Null), value)?;
                }
                None if of.open => {
                    object.insert(name, value);
                }
                None => return Err(OverlayError::Unknown(self.path.clone())),
            }
            self.path.truncate(length);
        }
        Ok(())
    }

    fn lay_field(
        &mut self,
        field: &Field,
        value: &mut Value,
        patch: Value,
    ) -> Result<(), OverlayError> {
        let is_whole = match &field.shape {
            Shape::Object(of) => field.atomic.unwrap_or(self.table.get(*of).atomic),
            Shape::Map(_) => field.atomic.unwrap_or(false),
            _ => false,
        };
        if is_whole && patch.is_object() {
            self.atomics.push(self.path.clone());
        }
        self.lay(&field.shape, value, patch)
    }

    fn lay(&mut self, shape: &Shape, value: &mut Value, patch: Value) -> Result<(), OverlayError> {
        match (shape, patch) {
            (Shape::Object(of), Value::Object(patch)) => {
                let mut object = take_object(value);
                self.lay_object(*of, &mut object, patch)?;
                *value = Value::Object(object);
                Ok(())
            }
            (Shape::Map(of), Value::Object(patch)) => {
                let mut map = take_object(value);
                for (key, item) in patch {
                    let length = self.path.len();
                    self.path.push('.');
                    self.path.push_str(&key);
                    self.lay(of, map.entry(key).or_insert(Value::Null), item)?;
                    self.path.truncate(length);
                }
                *value = Value::Object(map);
                Ok(())
            }
            (Shape::List(items), Value::Array(patch)) => {
                let mut list = take_list(value);
                self.lay_list(items, &mut list, patch)?;
                *value = Value::Array(list);
                Ok(())
            }
            (Shape::Object(_) | Shape::Map(_), patch) if !patch.is_null() => {
                Err(self.misfit(format!("expected map, got {patch}")))
            }
            (Shape::List(_), patch) if !patch.is_null() => {
                Err(self.misfit(format!("expected list, got {patch}")))
            }
            (_, patch) => {
                *value = patch;
                Ok(())
            }
        }
    }

    fn misfit(&self, reason: String) -> OverlayError {
        OverlayError::Misfit {
            path: self.path.clone(),
            reason,
        }
    }

    fn lay_list(
        &mut self,
        items: &Items,
        list: &mut Vec<Value>,
        patch: Vec<Value>,
    ) -> Result<(), OverlayError> {
        match &items.topology {
            Topology::Atomic => {
                self.atomics.push(self.path.clone());
                Ok(())
            }
            Topology::Set => {
                for item in patch {
                    if !list.contains(&item) {
                        list.push(item);
                    }
                }
                Ok(())
            }
            Topology::Map(keys) => {
                for (position, item) in patch.into_iter().enumerate() {
                    let length = self.path.len();
                    // A String takes whatever is written to it.
                    let _ = write!(self.path, "[{position}]");
                    let wanted = self.key(items, keys, &item);
                    let found = list
                        .iter()
                        .position(|known| self.key(items, keys, known) == wanted);
                    let at = found.unwrap_or_else(|| {
                        list.push(Value::Null);
                        list.len() - 1
                    });
                    if let Some(known) = list.get_mut(at) {
                        self.lay(&items.shape, known, item)?;
                    }
                    self.path.truncate(length);
                }
                Ok(())
            }
        }
    }

    /// What tells an item from others. A key that is left out has its default.
    fn key(&self, items: &Items, keys: &[Box<str>], item: &Value) -> Vec<Value> {
        let of = match &items.shape {
            Shape::Object(of) => Some(self.table.get(*of)),
            _ => None,
        };
        keys.iter()
            .map(|key| match item.get(&**key) {
                None | Some(Value::Null) => of
                    .and_then(|of| of.field(key)?.default.clone())
                    .unwrap_or_default(),
                Some(value) => value.clone(),
            })
            .collect()
    }
}

/// The object in a place; whatever else is there goes.
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

    fn lay(before: Value, patch: Value) -> Result<Value, String> {
        let table = Table::builtin();
        let of = table.named("io.k8s.api.core.v1.Pod").expect("a type");
        overlay(table, of, &object(before), object(patch))
            .map(Value::Object)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_set_is_set_and_all_else_stays() {
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
        assert_eq!(lay(before, patch), Ok(want));
    }

    #[test]
    fn what_cannot_be_set_in_part_is_refused() {
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
                lay(json!({}), patch.clone()),
                Err(want.to_owned()),
                "{patch}"
            );
        }
    }
}
