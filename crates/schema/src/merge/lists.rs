//! Merges lists of objects by their merge key, and lists of scalars by value.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::describe::{self, GO_OBJECT};
use super::lookup::ListPatchSchema;
use super::order::merge_in_order;
use super::{
    DELETE, DIRECTIVE, MERGE, MergeResult, PatchError, REPLACE, merge_objects, no_merge_key,
    unknown_directive, wrong_type,
};
use crate::Object;

/// Identity of a list item: its merge key (for a scalar, itself) as JSON.
pub(super) type ItemKey = String;

pub(super) fn key_of(value: &Value) -> ItemKey {
    value.to_string()
}

pub(super) fn merge_lists(
    schema: &ListPatchSchema<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
    is_delete: bool,
) -> MergeResult<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !all_objects(&original, &patch)? {
        return Ok(if is_delete {
            delete_values(original, &patch)
        } else {
            merge_values(original, patch)
        });
    }
    if schema.merge_key().is_empty() {
        return Err(PatchError(format!(
            "cannot merge lists without merge key for {}",
            schema.items.go_kind()
        )));
    }
    let (original, patch) = apply_directives(original, patch, schema.merge_key())?;
    merge_items(schema, original, patch)
}

/// Whether all items are objects; an error if they are of different types.
pub(super) fn all_objects(original: &[Value], patch: &[Value]) -> MergeResult<bool> {
    let mut items = original.iter().chain(patch);
    let first = items
        .next()
        .ok_or("no elements in any of the given slices")?;
    if first.is_array() {
        return Err("lists of lists are not supported".into());
    }
    let kind = describe::go_type_of(first);
    if items.any(|item| describe::go_type_of(item) != kind) {
        return Err(PatchError(format!(
            "list element types are not identical: [{} {}]",
            describe::list(original),
            describe::list(patch)
        )));
    }
    Ok(first.is_object())
}

fn delete_values(original: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let deleted: HashSet<ItemKey> = patch.iter().map(key_of).collect();
    let mut kept = original;
    kept.retain(|value| !deleted.contains(&key_of(value)));
    kept
}

fn merge_values(original: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    let positions = |list: &[Value]| -> HashMap<ItemKey, usize> {
        let keys = list.iter().map(key_of).enumerate().rev();
        keys.map(|(at, key)| (key, at)).collect()
    };
    let (server_order, patch_order) = (positions(&original), positions(&patch));
    let mut processed = HashSet::new();
    let mut server_only = Vec::new();
    let mut from_patch = Vec::new();
    for value in original.into_iter().chain(patch) {
        let key = key_of(&value);
        if !processed.insert(key.clone()) {
            continue;
        }
        if patch_order.contains_key(&key) {
            from_patch.push((key, value));
        } else {
            server_only.push((key, value));
        }
    }
    merge_in_order(server_only, from_patch, &patch_order, &server_order)
}

/// Applies the `$patch` directives among the items: `delete` removes items, `replace` removes all of them.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> MergeResult<(Vec<Value>, Vec<Value>)> {
    let mut deleted = HashSet::new();
    let mut without_directive = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Value::Object(object) = &item else {
            return Err(wrong_type(GO_OBJECT, &item));
        };
        let Some(directive) = object.get(DIRECTIVE) else {
            without_directive.push(item);
            continue;
        };
        match directive.as_str() {
            Some(DELETE) => {
                let key = object.get(merge_key);
                let key = key.ok_or_else(|| no_merge_key(object, merge_key))?;
                deleted.insert(key_of(key));
            }
            Some(REPLACE) => replace = true,
            Some(MERGE) => {
                return Err("merging lists cannot yet be specified in the patch".into());
            }
            _ => return Err(unknown_directive(directive, object)),
        }
    }
    if replace {
        return Ok((without_directive, Vec::new()));
    }
    if !deleted.is_empty() {
        let is_deleted = |item: &Value| {
            let key = item.get(merge_key);
            key.is_some_and(|key| deleted.contains(&key_of(key)))
        };
        original.retain(|item| !is_deleted(item));
    }
    Ok((original, without_directive))
}

fn merge_items(
    schema: &ListPatchSchema<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> MergeResult<Vec<Value>> {
    let merge_key = schema.merge_key();
    let mut items: Vec<(Option<ItemKey>, Object)> =
        Vec::with_capacity(original.len() + patch.len());
    let mut server_order: HashMap<ItemKey, usize> = HashMap::new();
    for item in original {
        let Value::Object(object) = item else {
            return Err(wrong_type(GO_OBJECT, &item));
        };
        let key = object.get(merge_key).map(key_of);
        if let Some(key) = &key {
            server_order.entry(key.clone()).or_insert(items.len());
        }
        items.push((key, object));
    }
    let mut positions = server_order.clone();
    let mut patch_order: HashMap<ItemKey, usize> = HashMap::new();
    for (at, item) in patch.into_iter().enumerate() {
        let Value::Object(object) = item else {
            return Err(wrong_type(GO_OBJECT, &item));
        };
        let key = object.get(merge_key).map(key_of);
        let key = key.ok_or_else(|| no_merge_key(&object, merge_key))?;
        patch_order.entry(key.clone()).or_insert(at);
        match positions.get(&key) {
            Some(&index) => {
                let old = std::mem::take(&mut items[index].1);
                items[index].1 = merge_objects(schema.items, old, object)?;
            }
            None => {
                positions.insert(key.clone(), items.len());
                items.push((Some(key), object));
            }
        }
    }
    let (server_only, from_patch) = partition(items, &patch_order, merge_key)?;
    Ok(merge_in_order(
        server_only,
        from_patch,
        &patch_order,
        &server_order,
    ))
}

type KeyedItems = Vec<(ItemKey, Value)>;

/// Splits items into those that are not in the patch and those that are.
fn partition(
    items: Vec<(Option<ItemKey>, Object)>,
    in_patch: &HashMap<ItemKey, usize>,
    merge_key: &str,
) -> MergeResult<(KeyedItems, KeyedItems)> {
    let mut server_only = Vec::new();
    let mut from_patch = Vec::new();
    for (key, object) in items {
        let key = key.ok_or_else(|| no_merge_key(&object, merge_key))?;
        let target = if in_patch.contains_key(&key) {
            &mut from_patch
        } else {
            &mut server_only
        };
        target.push((key, Value::Object(object)));
    }
    Ok((server_only, from_patch))
}
