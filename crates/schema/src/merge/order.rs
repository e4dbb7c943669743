//! Orders a merged list (`$setElementOrder`): items of the patch in patch order, all others in their original order.

use std::collections::HashMap;

use serde_json::Value;

use super::describe::{self, GO_LIST, GO_OBJECT};
use super::lists::{ItemKey, all_objects, key_of, merge_lists};
use super::lookup::{ListPatchSchema, PatchSchema};
use super::{
    BAD_ELEMENT_ORDER, DELETE, DIRECTIVE, ELEMENT_ORDER, MergeResult, PatchError, directive_field,
    no_merge_key, without_directives, wrong_type,
};
use crate::Object;

/// Merges two groups of items, each in its own order. Items that both existed keep their relative order; a new item
/// of the patch comes first.
pub(super) fn merge_in_order(
    mut server_only: Vec<(ItemKey, Value)>,
    mut from_patch: Vec<(ItemKey, Value)>,
    patch_order: &HashMap<ItemKey, usize>,
    server_order: &HashMap<ItemKey, usize>,
) -> Vec<Value> {
    let by = |order: &HashMap<ItemKey, usize>, key: &ItemKey| order.get(key).copied();
    from_patch.sort_by_key(|(key, _)| by(patch_order, key));
    server_only.sort_by_key(|(key, _)| by(server_order, key));
    let mut merged = Vec::with_capacity(server_only.len() + from_patch.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = from_patch.into_iter().peekable();
    loop {
        let from_left = match (left.peek(), right.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((left, _)), Some((right, _))) => {
                let positions = by(server_order, left).zip(by(server_order, right));
                positions.is_some_and(|(left, right)| left < right)
            }
        };
        let next = if from_left { left.next() } else { right.next() };
        merged.extend(next.map(|(_, value)| value));
    }
}

/// Applies the `$setElementOrder` directives, together with the patches of the lists they refer to.
pub(super) fn apply(
    schema: PatchSchema<'_>,
    original: &mut Object,
    patch: &mut Object,
) -> MergeResult<()> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        if let Some(order) = patch.remove(&directive) {
            apply_one(schema, original, patch, &directive, order)?;
        }
    }
    Ok(())
}

fn apply_one(
    schema: PatchSchema<'_>,
    original: &mut Object,
    patch: &mut Object,
    directive: &str,
    order: Value,
) -> MergeResult<()> {
    let order = list_of(order)?;
    let key = directive_field(directive, ELEMENT_ORDER, BAD_ELEMENT_ORDER)?;
    let old = original.get(key).cloned().map(list_of).transpose()?;
    let new = patch.get(key).cloned().map(list_of).transpose()?;
    let list = schema.list(key)?;
    check_patch_order(new.as_deref().unwrap_or_default(), &order, list.merge_key())?;
    let server_order = positions(old.as_deref().unwrap_or_default(), list.merge_key());
    let old_and_new = (
        old.clone().unwrap_or_default(),
        new.clone().unwrap_or_default(),
    );
    let merged = match (old, new) {
        (None, None) => return Ok(()),
        (Some(old), None) => old,
        (None, Some(new)) => match without_directives(Value::Array(new)) {
            Some(Value::Array(new)) => new,
            _ => return Ok(()),
        },
        (Some(old), Some(new)) if list.merges() => merge_lists(&list, old, new, false)?,
        (Some(_), Some(new)) => new,
    };
    let ordered = reorder(&list, merged, &order, &server_order, &old_and_new)?;
    original.insert(key.to_owned(), Value::Array(ordered));
    patch.remove(key);
    Ok(())
}

fn list_of(value: Value) -> MergeResult<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(wrong_type(GO_LIST, &other)),
    }
}

/// The position of each item by its key; the first one if a key occurs twice.
fn positions(items: &[Value], merge_key: &str) -> HashMap<ItemKey, usize> {
    let key = |item: &Value| match merge_key {
        "" => Some(key_of(item)),
        merge_key => item.get(merge_key).map(key_of),
    };
    let keys = items.iter().enumerate().rev();
    keys.filter_map(|(at, item)| Some((key(item)?, at)))
        .collect()
}

fn reorder(
    list: &ListPatchSchema<'_>,
    merged: Vec<Value>,
    order: &[Value],
    server_order: &HashMap<ItemKey, usize>,
    (old, new): &(Vec<Value>, Vec<Value>),
) -> MergeResult<Vec<Value>> {
    let merge_key = list.merge_key();
    let patch_order = positions(order, merge_key);
    let non_object = order.iter().position(|item| !item.is_object());
    if let Some(at) = non_object.filter(|_| !merge_key.is_empty() && !merged.is_empty()) {
        return Err(PatchError(format!("value for key {at} is not a map")));
    }
    let mut server_only = Vec::new();
    let mut from_patch = Vec::new();
    for item in merged {
        let key = match merge_key {
            "" => key_of(&item),
            merge_key => merge_key_of(&item, merge_key)?,
        };
        if patch_order.contains_key(&key) {
            from_patch.push((key, item));
        } else {
            server_only.push((key, item));
        }
    }
    if all_objects(old, new)? {
        for item in order {
            merge_key_of(item, merge_key)?;
        }
    }
    Ok(merge_in_order(
        server_only,
        from_patch,
        &patch_order,
        server_order,
    ))
}

fn merge_key_of(item: &Value, merge_key: &str) -> MergeResult<ItemKey> {
    let Value::Object(object) = item else {
        return Err(wrong_type(GO_OBJECT, item));
    };
    let key = object.get(merge_key).map(key_of);
    key.ok_or_else(|| no_merge_key(object, merge_key))
}

/// Checks that the items of a patch are in the order that the directive lists.
fn check_patch_order(patch: &[Value], order: &[Value], merge_key: &str) -> MergeResult<()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut pending = Vec::with_capacity(patch.len());
    for item in patch {
        if merge_key.is_empty() {
            pending.push(item);
            continue;
        }
        let Value::Object(object) = item else {
            return Err(wrong_type(GO_OBJECT, item));
        };
        if object.get(DIRECTIVE).and_then(Value::as_str) != Some(DELETE) {
            pending.push(item);
        }
    }
    let is_directive = |item: &&Value| item.get(DIRECTIVE).is_some();
    let mut pending = pending.into_iter().peekable();
    let mut listed = order.iter().peekable();
    while listed.peek().is_some() {
        if pending.next_if(is_directive).is_some() {
            continue;
        }
        let (Some(&next), Some(schema)) = (pending.peek(), listed.next()) else {
            break;
        };
        let same = if merge_key.is_empty() {
            next == schema
        } else {
            merge_key_of(next, merge_key)? == merge_key_of(schema, merge_key)?
        };
        if same {
            pending.next();
        }
    }
    if pending.peek().is_none() {
        return Ok(());
    }
    Err(PatchError(format!(
        "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
        describe::list(patch),
        describe::list(order)
    )))
}
