//! Changing an object: what defaults and preparations are made of.

use serde_json::Value;

use crate::Object;

/// The object below `name`, made if there is none; `None` if something else stands there.
pub(crate) fn child<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    let value = object.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Object::new());
    }
    value.as_object_mut()
}

/// Changes the object below `path`, made if there is none.
pub(crate) fn within(object: &mut Object, path: &[&str], change: impl FnOnce(&mut Object)) {
    if let Some(object) = path
        .iter()
        .try_fold(object, |object, name| child(object, name))
    {
        change(object);
    }
}

/// The object below `path`, if there is one.
pub(crate) fn find<'a>(object: &'a mut Object, path: &[&str]) -> Option<&'a mut Object> {
    path.iter().try_fold(object, |object, name| {
        object.get_mut(*name).and_then(Value::as_object_mut)
    })
}

/// The value below `path`, if there is one.
pub(crate) fn get<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(object, |object, name| {
        object.get(*name).and_then(Value::as_object)
    })?;
    parent.get(*last).filter(|value| !value.is_null())
}

pub(crate) fn is_absent(object: &Object, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

/// Sets what is absent.
pub(crate) fn default(object: &mut Object, name: &str, value: impl Into<Value>) {
    if is_absent(object, name) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a text that is absent or empty: to upstream both are the same where a text is no pointer.
pub(crate) fn default_text(object: &mut Object, name: &str, value: &str) {
    if text(object, name).is_empty() {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a number that is absent or zero, where zero is no value of its own.
pub(crate) fn default_number(object: &mut Object, name: &str, value: i64) {
    if object.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
        object.insert(name.to_owned(), value.into());
    }
}

pub(crate) fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}
