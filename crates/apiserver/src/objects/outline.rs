//! As much of a stored object as selectors can ask for: labels, and scalars that are at most two names deep.
//!
//! The caches read every object that is written. Most of it, such as the containers of a pod, they would read in vain.

use std::fmt;

use rhumb_api::Object;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads the outline of an object in JSON. What is deeper is null.
pub(super) fn read(json: &[u8]) -> serde_json::Result<Object> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let value = Level::Object.deserialize(&mut deserializer)?;
    deserializer.end()?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(serde_json::Error::custom("it is not an object")),
    }
}

/// Where in an object a value is.
#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
    /// `spec`, `status` and their like, and labels: only scalars are read.
    Part,
    Beyond,
}

impl Level {
    fn below(self, name: &str) -> Level {
        match (self, name) {
            (Level::Object, "metadata") => Level::Metadata,
            (Level::Object, _) | (Level::Metadata, "labels") => Level::Part,
            _ => Level::Beyond,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        if let Level::Beyond = self {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.below(&name))?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_near_the_root_and_labels_are_read() {
        let object = json!({
            "kind": "Pod",
            "metadata": {
                "name": "a",
                "labels": {"app": "web", "spec": "x"},
                "annotations": {"long": "text"},
                "ownerReferences": [{"name": "b"}],
            },
            "spec": {"nodeName": "n", "hostNetwork": true, "containers": [{"name": "c"}], "deep": {"x": 1}},
            "status": {"succeeded": 3, "ratio": 0.5, "none": null},
            "list": [1, [2], {"x": 3}],
        });
        let expect = json!({
            "kind": "Pod",
            "metadata": {
                "name": "a",
                "labels": {"app": "web", "spec": "x"},
                "annotations": null,
                "ownerReferences": null,
            },
            "spec": {"nodeName": "n", "hostNetwork": true, "containers": null, "deep": null},
            "status": {"succeeded": 3, "ratio": 0.5, "none": null},
            "list": null,
        });
        let outline = read(object.to_string().as_bytes()).expect("an outline");
        assert_eq!(Value::Object(outline), expect);
        for wrong in ["[]", "5", "{\"a\":", "{} x", ""] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    /// A kind with a selectable field that is deeper would select wrongly.
    #[test]
    fn every_selectable_field_is_in_the_outline() {
        let kinds = rhumb_api::kinds::all();
        let mut object = json!({
            "metadata": {"name": "m"},
            "source": {"component": "x"},
            "spec": {"unschedulable": true, "hostNetwork": true},
            "status": {"succeeded": 3, "replicas": 3},
        });
        let names = kinds.iter().flat_map(|kind| &kind.selectable);
        for name in names.map(|field| field.name) {
            // Those of the other kind of events are read from the one that is stored.
            let name = name.replace("regarding.", "involvedObject.");
            match name.split_once('.') {
                Some((part, name)) if object[part].get(name).is_none() => {
                    object[part][name] = "x".into();
                }
                None if !["name", "source"].contains(&name.as_str()) => object[name] = "x".into(),
                _ => {}
            }
        }
        let outline = read(object.to_string().as_bytes()).expect("an outline");
        let Value::Object(whole) = object else {
            panic!("not an object");
        };
        for kind in &kinds {
            for field in &kind.selectable {
                let value = (field.value)(&whole);
                let which = format!("{} of {}", field.name, kind.name);
                assert_ne!(value, (field.value)(&Object::new()), "{which} is not read");
                assert_eq!(value, (field.value)(&outline), "{which}");
            }
        }
    }
}
