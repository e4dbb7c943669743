//! Strategic merge patch. Upstream counterpart: `strategicpatch`.
//!
//! Entry point: [`strategic_merge`]. The order of operations and the error messages are upstream's. List items are
//! looked up in a hash map instead of by linear search, so that a merge takes time linear in its input.

mod describe;
mod lists;
mod lookup;
mod order;

use serde_json::Value;

use crate::{Object, Table, TypeId};
use describe::{directive_text, go_type_of};
use lists::merge_lists;
use lookup::PatchSchema;

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";
const RETAIN_KEYS: &str = "$retainKeys";

const REPLACE: &str = "replace";
const DELETE: &str = "delete";
const MERGE: &str = "merge";

const BAD_ELEMENT_ORDER: &str = "invalid patch format of setElementOrder list";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";
const BAD_DELETE_FROM: &str = "invalid patch format of primitive list";

/// Why a patch could not be applied, with upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatchError(pub String);

impl From<&str> for PatchError {
    fn from(text: &str) -> PatchError {
        PatchError(text.to_owned())
    }
}

type MergeResult<T> = Result<T, PatchError>;

/// Applies a strategic merge patch to an object of a type. The caller must decode the result again: a patch is not
/// checked against the schema.
pub fn strategic_merge(
    table: &Table,
    type_id: TypeId,
    original: &Object,
    patch: Object,
) -> Result<Object, PatchError> {
    merge_objects(PatchSchema::root(table, type_id), original.clone(), patch)
}

fn merge_objects(
    schema: PatchSchema<'_>,
    mut original: Object,
    mut patch: Object,
) -> MergeResult<Object> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some(REPLACE) => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some(DELETE) => Ok(Object::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(schema, &mut original, &mut patch)?;
    for (key, value) in patch {
        merge_key(schema, &mut original, key, value)?;
    }
    Ok(original)
}

fn merge_key(
    schema: PatchSchema<'_>,
    original: &mut Object,
    key: String,
    patch: Value,
) -> MergeResult<()> {
    let (key, is_delete) = if key.starts_with(DELETE_FROM) {
        (
            directive_field(&key, DELETE_FROM, BAD_DELETE_FROM)?.to_owned(),
            true,
        )
    } else {
        (key, false)
    };
    if patch.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), patch) {
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let field_schema = schema.field(&key)?;
            Some(Value::Object(if field_schema.replaces() {
                patch
            } else {
                merge_objects(field_schema, old, patch)?
            }))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let list = schema.list(&key)?;
            Some(Value::Array(if list.merges() || is_delete {
                merge_lists(&list, old, patch, is_delete)?
            } else {
                patch
            }))
        }
        (old, _) if is_delete => old,
        (_, mut patch) => {
            discard_nulls(&mut patch);
            without_directives(patch)
        }
    };
    if let Some(merged) = merged {
        original.insert(key, merged);
    }
    Ok(())
}

/// Applies `$retainKeys`: removes the fields that it does not list.
fn retain_keys(original: &mut Object, patch: &mut Object) -> MergeResult<()> {
    let Some(listed) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(listed) = listed else {
        return Err(BAD_RETAIN_KEYS.into());
    };
    let listed: std::collections::HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
    let is_listed = |(key, value): (&String, &Value)| {
        value.is_null()
            || key.starts_with(DELETE_FROM)
            || key.starts_with(ELEMENT_ORDER)
            || listed.contains(key.as_str())
    };
    if !patch.iter().all(is_listed) {
        return Err(BAD_RETAIN_KEYS.into());
    }
    original.retain(|key, _| listed.contains(key.as_str()));
    Ok(())
}

/// The field that a directive key such as `$setElementOrder/containers` refers to.
fn directive_field<'k>(key: &'k str, directive: &str, problem: &str) -> MergeResult<&'k str> {
    let rest = key.strip_prefix(directive);
    rest.and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(|| problem.into())
}

/// Removes nulls where there is no value to delete. Nulls in lists are items and stay.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Removes directives from a patch value that has no original; `None` if the value itself is a directive.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(DIRECTIVE) => None,
        Value::Object(object) => {
            let kept = object
                .into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        other => Some(other),
    }
}

fn unknown_directive(directive: &Value, patch: &Object) -> PatchError {
    PatchError(format!(
        "unknown patch type: {} in map: {}",
        directive_text(directive),
        describe::object(patch)
    ))
}

fn no_merge_key(item: &Object, key: &str) -> PatchError {
    PatchError(format!(
        "map: {} does not contain declared merge key: {key}",
        describe::object(item)
    ))
}

fn wrong_type(expected: &str, actual: &Value) -> PatchError {
    PatchError(format!(
        "expected a {expected}, but received a {}",
        go_type_of(actual)
    ))
}

#[cfg(test)]
mod tests;
