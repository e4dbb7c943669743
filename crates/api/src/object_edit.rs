//! Helpers to modify nested JSON objects, used by defaulting and by `prepare_*` of the strategies.

use serde_json::Value;

use crate::JsonObject;

/// The object at field `name`, inserted if absent; `None` if the field has another type.
pub(crate) fn child_or_insert<'a>(
    object: &'a mut JsonObject,
    name: &str,
) -> Option<&'a mut JsonObject> {
    let value = object.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(JsonObject::new());
    }
    value.as_object_mut()
}

/// Applies `change` to the object at `path`, inserting it if absent.
pub(crate) fn edit_child(
    object: &mut JsonObject,
    path: &[&str],
    change: impl FnOnce(&mut JsonObject),
) {
    if let Some(object) = path
        .iter()
        .try_fold(object, |object, name| child_or_insert(object, name))
    {
        change(object);
    }
}

/// The object at `path`, if there is one.
pub(crate) fn find_object<'a>(
    object: &'a mut JsonObject,
    path: &[&str],
) -> Option<&'a mut JsonObject> {
    path.iter().try_fold(object, |object, name| {
        object.get_mut(*name).and_then(Value::as_object_mut)
    })
}

/// The value at `path`; null counts as absent.
pub(crate) fn get<'a>(object: &'a JsonObject, path: &[&str]) -> Option<&'a Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(object, |object, name| {
        object.get(*name).and_then(Value::as_object)
    })?;
    parent.get(*last).filter(|value| !value.is_null())
}

pub(crate) fn is_absent(object: &JsonObject, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

/// Sets a field that is absent or null.
pub(crate) fn set_default(object: &mut JsonObject, name: &str, value: impl Into<Value>) {
    if is_absent(object, name) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a string that is absent or empty, which are equal for upstream's non-pointer string fields.
pub(crate) fn set_default_string(object: &mut JsonObject, name: &str, value: &str) {
    if text(object, name).is_empty() {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a number that is absent or zero, for fields where zero means unset.
pub(crate) fn set_default_number(object: &mut JsonObject, name: &str, value: i64) {
    if object.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
        object.insert(name.to_owned(), value.into());
    }
}

pub(crate) fn text<'a>(object: &'a JsonObject, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
