//! Merging lists, of objects by a key or of plain values.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::describe::{self, GO_OBJECT};
use super::lookup::ListPlace;
use super::order::in_order;
use super::{
    DELETE, DIRECTIVE, MERGE, Merged, PatchError, REPLACE, merge_objects, no_merge_key,
    unknown_directive, wrong_type,
};
use crate::Object;

/// A value that tells items apart, as text. Values of different types are different.
pub(super) type Key = String;

pub(super) fn key_of(value: &Value) -> Key {
    value.to_string()
}

pub(super) fn merge_lists(
    place: &ListPlace<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
    deletes: bool,
) -> Merged<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if !all_objects(&original, &patch)? {
        return Ok(if deletes {
            delete_values(original, &patch)
        } else {
            merge_values(original, patch)
        });
    }
    if place.merge_key().is_empty() {
        return Err(PatchError(format!(
            "cannot merge lists without merge key for {}",
            place.items.kind()
        )));
    }
    let (original, patch) = apply_directives(original, patch, place.merge_key())?;
    merge_items(place, original, patch)
}

/// Whether all items are objects; an error if they are of different types.
pub(super) fn all_objects(original: &[Value], patch: &[Value]) -> Merged<bool> {
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
    let deleted: HashSet<Key> = patch.iter().map(key_of).collect();
    let mut kept = original;
    kept.retain(|value| !deleted.contains(&key_of(value)));
    kept
}

fn merge_values(original: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    let positions = |list: &[Value]| -> HashMap<Key, usize> {
        let keys = list.iter().map(key_of).enumerate().rev();
        keys.map(|(at, key)| (key, at)).collect()
    };
    let (server_order, patch_order) = (positions(&original), positions(&patch));
    let mut seen = HashSet::new();
    let mut server_only = Vec::new();
    let mut from_patch = Vec::new();
    for value in original.into_iter().chain(patch) {
        let key = key_of(&value);
        if !seen.insert(key.clone()) {
            continue;
        }
        if patch_order.contains_key(&key) {
            from_patch.push((key, value));
        } else {
            server_only.push((key, value));
        }
    }
    in_order(server_only, from_patch, &patch_order, &server_order)
}

/// Carries out the directives among the items: what is deleted goes, and with a replacement all of it.
fn apply_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Merged<(Vec<Value>, Vec<Value>)> {
    let mut deleted = HashSet::new();
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Value::Object(object) = &item else {
            return Err(wrong_type(GO_OBJECT, &item));
        };
        let Some(directive) = object.get(DIRECTIVE) else {
            plain.push(item);
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
        return Ok((plain, Vec::new()));
    }
    if !deleted.is_empty() {
        let is_deleted = |item: &Value| {
            let key = item.get(merge_key);
            key.is_some_and(|key| deleted.contains(&key_of(key)))
        };
        original.retain(|item| !is_deleted(item));
    }
    Ok((original, plain))
}

fn merge_items(
    place: &ListPlace<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> Merged<Vec<Value>> {
    let merge_key = place.merge_key();
    let mut items: Vec<(Option<Key>, Object)> = Vec::with_capacity(original.len() + patch.len());
    let mut server_order: HashMap<Key, usize> = HashMap::new();
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
    let mut found = server_order.clone();
    let mut patch_order: HashMap<Key, usize> = HashMap::new();
    for (at, item) in patch.into_iter().enumerate() {
        let Value::Object(object) = item else {
            return Err(wrong_type(GO_OBJECT, &item));
        };
        let key = object.get(merge_key).map(key_of);
        let key = key.ok_or_else(|| no_merge_key(&object, merge_key))?;
        patch_order.entry(key.clone()).or_insert(at);
        match found.get(&key) {
            Some(&index) => {
                let old = std::mem::take(&mut items[index].1);
                items[index].1 = merge_objects(place.items, old, object)?;
            }
            None => {
                found.insert(key.clone(), items.len());
                items.push((Some(key), object));
            }
        }
    }
    let (server_only, from_patch) = partition(items, &patch_order, merge_key)?;
    Ok(in_order(
        server_only,
        from_patch,
        &patch_order,
        &server_order,
    ))
}

type Keyed = Vec<(Key, Value)>;

/// Items that are not in the patch, and those that are.
fn partition(
    items: Vec<(Option<Key>, Object)>,
    in_patch: &HashMap<Key, usize>,
    merge_key: &str,
) -> Merged<(Keyed, Keyed)> {
    let mut server_only = Vec::new();
    let mut from_patch = Vec::new();
    for (key, object) in items {
        let key = key.ok_or_else(|| no_merge_key(&object, merge_key))?;
        let group = if in_patch.contains_key(&key) {
            &mut from_patch
        } else {
            &mut server_only
        };
        group.push((key, Value::Object(object)));
    }
    Ok((server_only, from_patch))
}
