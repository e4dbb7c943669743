//! Strategic merge patch.
//!
//! The order of steps and the texts of errors are upstream's. Where upstream looks for items of a list one by
//! one, a map finds them here, so that a patch takes no longer than its size and the object's.

mod describe;
mod lists;
mod lookup;
mod order;

use serde_json::Value;

use crate::{Object, Table, TypeId};
use describe::{go_type_of, kind_of_directive};
use lists::merge_lists;
use lookup::Place;

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

/// Why a patch cannot be applied, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatchError(pub String);

impl From<&str> for PatchError {
    fn from(text: &str) -> PatchError {
        PatchError(text.to_owned())
    }
}

type Merged<T> = Result<T, PatchError>;

/// Applies a strategic merge patch to an object of a type. The result is to be decoded again: a patch can put
/// anything anywhere.
pub fn strategic_merge(
    table: &Table,
    of: TypeId,
    original: &Object,
    patch: Object,
) -> Result<Object, PatchError> {
    merge_objects(Place::root(table, of), original.clone(), patch)
}

fn merge_objects(place: Place<'_>, mut original: Object, mut patch: Object) -> Merged<Object> {
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
    order::apply(place, &mut original, &mut patch)?;
    for (key, value) in patch {
        merge_key(place, &mut original, key, value)?;
    }
    Ok(original)
}

fn merge_key(place: Place<'_>, original: &mut Object, key: String, patch: Value) -> Merged<()> {
    let (key, deletes) = if key.starts_with(DELETE_FROM) {
        (below(&key, DELETE_FROM, BAD_DELETE_FROM)?.to_owned(), true)
    } else {
        (key, false)
    };
    if patch.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let merged = match (original.remove(&key), patch) {
        (Some(Value::Object(old)), Value::Object(patch)) => {
            let below = place.field(&key)?;
            Some(Value::Object(if below.replaces() {
                patch
            } else {
                merge_objects(below, old, patch)?
            }))
        }
        (Some(Value::Array(old)), Value::Array(patch)) => {
            let list = place.list(&key)?;
            Some(Value::Array(if list.merges() || deletes {
                merge_lists(&list, old, patch, deletes)?
            } else {
                patch
            }))
        }
        (old, _) if deletes => old,
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

/// Drops everything that the patch does not list, if it has such a list.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Merged<()> {
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

/// The key that a directive with a slash is about.
fn below<'k>(key: &'k str, directive: &str, problem: &str) -> Merged<&'k str> {
    let rest = key.strip_prefix(directive);
    rest.and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(|| problem.into())
}

/// Nulls mean nothing where there is nothing to delete. Those in lists are items.
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

/// What is left of a patch where there is nothing to merge it with; `None` if it is a directive as a whole.
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

fn unknown_directive(directive: &Value, of: &Object) -> PatchError {
    PatchError(format!(
        "unknown patch type: {} in map: {}",
        kind_of_directive(directive),
        describe::object(of)
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
