//! Access to nested fields of a JSON object by dotted path, for code that reports no field errors.
//!
//! Validation uses `FieldView` instead, which carries the path for errors.

use serde_json::{Map, Value};

use crate::JsonObject;

/// The value at a path such as `spec.type`; null counts as absent.
pub fn get<'a>(object: &'a JsonObject, path: &str) -> Option<&'a Value> {
    let (mut at, mut path) = (object, path);
    while let Some((parent, below)) = path.split_once('.') {
        at = at.get(parent)?.as_object()?;
        path = below;
    }
    at.get(path).filter(|value| !value.is_null())
}

/// The string at a path; empty if absent.
pub fn text(object: &JsonObject, path: &str) -> String {
    str(object, path).to_owned()
}

pub fn str<'a>(object: &'a JsonObject, path: &str) -> &'a str {
    get(object, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub fn int(object: &JsonObject, path: &str) -> Option<i64> {
    get(object, path).and_then(Value::as_i64)
}

/// The items of the list at a path; empty if absent.
pub fn items<'a>(object: &'a JsonObject, path: &str) -> &'a [Value] {
    get(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The items of the list at a path that are objects.
pub fn objects_mut<'a>(
    object: &'a mut JsonObject,
    path: &str,
) -> impl Iterator<Item = &'a mut JsonObject> {
    get_mut(object, path)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

pub fn get_mut<'a>(object: &'a mut JsonObject, path: &str) -> Option<&'a mut Value> {
    let (mut at, mut path) = (object, path);
    while let Some((parent, below)) = path.split_once('.') {
        at = at.get_mut(parent)?.as_object_mut()?;
        path = below;
    }
    at.get_mut(path).filter(|value| !value.is_null())
}

/// The object at a path, inserted if absent; `None` if a value of another type is in the way.
pub fn object_or_insert<'a>(object: &'a mut JsonObject, path: &str) -> Option<&'a mut JsonObject> {
    let mut at = object;
    for name in path.split('.') {
        let value = at.entry(name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        at = value.as_object_mut()?;
    }
    Some(at)
}

pub fn set(object: &mut JsonObject, path: &str, value: impl Into<Value>) {
    let parent = match path.rsplit_once('.') {
        Some((parent, name)) => object_or_insert(object, parent).map(|parent| (parent, name)),
        None => Some((object, path)),
    };
    if let Some((parent, name)) = parent {
        parent.insert(name.to_owned(), value.into());
    }
}

pub fn remove(object: &mut JsonObject, path: &str) -> Option<Value> {
    match path.rsplit_once('.') {
        Some((parent, name)) => get_mut(object, parent)?.as_object_mut()?.remove(name),
        None => object.remove(path),
    }
}

/// Sets a field that is absent or an empty string.
pub fn set_if_empty(object: &mut JsonObject, path: &str, value: impl Into<Value>) {
    if matches!(get(object, path), None | Some(Value::String(_))) && str(object, path).is_empty() {
        set(object, path, value);
    }
}

/// Restores a field to its value in `old`, removing it if it was absent.
pub fn restore_from(object: &mut JsonObject, old: &JsonObject, path: &str) {
    match get(old, path) {
        Some(value) => set(object, path, value.clone()),
        None => {
            remove(object, path);
        }
    }
}

/// Removes nulls, empty lists and empty objects recursively, so that semantically equal values compare equal.
pub fn without_empty(value: Value) -> Value {
    let is_non_empty = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    match value {
        Value::Object(object) => {
            let kept = object
                .into_iter()
                .map(|(name, value)| (name, without_empty(value)));
            Value::Object(kept.filter(|(_, value)| is_non_empty(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

/// The decoded length of a base64 string.
pub fn base64_decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn fields_are_read_by_path() {
        let read = object(json!({"a": {"b": {"c": "x"}, "n": null, "i": 3}, "l": [1]}));
        assert_eq!(text(&read, "a.b.c"), "x");
        assert_eq!(text(&read, "a.b.d"), "");
        assert_eq!(get(&read, "a.n"), None);
        assert_eq!(int(&read, "a.i"), Some(3));
        assert_eq!(items(&read, "l").len(), 1);
        assert_eq!(items(&read, "a").len(), 0);
    }

    #[test]
    fn fields_are_written_by_path() {
        let mut written = object(json!({"a": null, "t": "", "k": "x"}));
        set(&mut written, "a.b.c", 1);
        set_if_empty(&mut written, "t", "filled");
        set_if_empty(&mut written, "k", "kept");
        set_if_empty(&mut written, "a.b.c", 2);
        remove(&mut written, "k.none");
        let want = json!({"a": {"b": {"c": 1}}, "t": "filled", "k": "x"});
        assert_eq!(Value::Object(written.clone()), want);
        restore_from(&mut written, &object(json!({"t": "old"})), "t");
        restore_from(&mut written, &object(json!({})), "a.b");
        let want = json!({"a": {}, "t": "old", "k": "x"});
        assert_eq!(Value::Object(written), want);
    }

    #[test]
    fn empty_values_are_removed() {
        let given = json!({"a": {"b": [], "c": null}, "d": [{"e": {}}], "f": "", "g": false});
        let want = json!({"d": [{}], "f": "", "g": false});
        assert_eq!(without_empty(given), want);
    }

    #[test]
    fn base64_decoded_length_is_computed() {
        for (text, bytes) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3)] {
            assert_eq!(base64_decoded_len(text), bytes, "{text}");
        }
    }
}
