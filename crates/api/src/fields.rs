//! Reading and writing fields of objects by their paths, where errors need no path.

use serde_json::{Map, Value};

use crate::Object;

/// The value at a path such as `spec.type`; a null is no value.
pub fn get<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    let (mut at, mut path) = (object, path);
    while let Some((parent, below)) = path.split_once('.') {
        at = at.get(parent)?.as_object()?;
        path = below;
    }
    at.get(path).filter(|value| !value.is_null())
}

/// The text at a path; empty if there is none.
pub fn text(object: &Object, path: &str) -> String {
    str(object, path).to_owned()
}

pub fn str<'a>(object: &'a Object, path: &str) -> &'a str {
    get(object, path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub fn int(object: &Object, path: &str) -> Option<i64> {
    get(object, path).and_then(Value::as_i64)
}

/// The items of the list at a path.
pub fn items<'a>(object: &'a Object, path: &str) -> &'a [Value] {
    get(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The objects of the list at a path.
pub fn objects_mut<'a>(object: &'a mut Object, path: &str) -> impl Iterator<Item = &'a mut Object> {
    get_mut(object, path)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

pub fn get_mut<'a>(object: &'a mut Object, path: &str) -> Option<&'a mut Value> {
    let (mut at, mut path) = (object, path);
    while let Some((parent, below)) = path.split_once('.') {
        at = at.get_mut(parent)?.as_object_mut()?;
        path = below;
    }
    at.get_mut(path).filter(|value| !value.is_null())
}

/// The object at a path, made if there is none; `None` if something else is in the way.
pub fn object_at<'a>(object: &'a mut Object, path: &str) -> Option<&'a mut Object> {
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

pub fn set(object: &mut Object, path: &str, value: impl Into<Value>) {
    let parent = match path.rsplit_once('.') {
        Some((parent, name)) => object_at(object, parent).map(|parent| (parent, name)),
        None => Some((object, path)),
    };
    if let Some((parent, name)) = parent {
        parent.insert(name.to_owned(), value.into());
    }
}

pub fn remove(object: &mut Object, path: &str) -> Option<Value> {
    match path.rsplit_once('.') {
        Some((parent, name)) => get_mut(object, parent)?.as_object_mut()?.remove(name),
        None => object.remove(path),
    }
}

/// Sets a field that is absent, or an empty text.
pub fn fill(object: &mut Object, path: &str, value: impl Into<Value>) {
    if matches!(get(object, path), None | Some(Value::String(_))) && str(object, path).is_empty() {
        set(object, path, value);
    }
}

/// Gives a field back the value that it had.
pub fn keep(object: &mut Object, old: &Object, path: &str) {
    match get(old, path) {
        Some(value) => set(object, path, value.clone()),
        None => {
            remove(object, path);
        }
    }
}

/// A value without anything empty in it: two values that mean the same are then equal.
pub fn without_empty(value: Value) -> Value {
    let is_something = |value: &Value| match value {
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
            Value::Object(kept.filter(|(_, value)| is_something(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

/// How many bytes a text in base64 stands for.
pub fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
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
        fill(&mut written, "t", "filled");
        fill(&mut written, "k", "kept");
        fill(&mut written, "a.b.c", 2);
        remove(&mut written, "k.none");
        let want = json!({"a": {"b": {"c": 1}}, "t": "filled", "k": "x"});
        assert_eq!(Value::Object(written.clone()), want);
        keep(&mut written, &object(json!({"t": "old"})), "t");
        keep(&mut written, &object(json!({})), "a.b");
        let want = json!({"a": {}, "t": "old", "k": "x"});
        assert_eq!(Value::Object(written), want);
    }

    #[test]
    fn what_is_empty_says_nothing() {
        let given = json!({"a": {"b": [], "c": null}, "d": [{"e": {}}], "f": "", "g": false});
        let want = json!({"d": [{}], "f": "", "g": false});
        assert_eq!(without_empty(given), want);
    }

    #[test]
    fn base64_stands_for_fewer_bytes() {
        for (text, bytes) in [("", 0), ("AA==", 1), ("AAA=", 2), ("AAAA", 3)] {
            assert_eq!(decoded_len(text), bytes, "{text}");
        }
    }
}
