//! Access to the metadata of an object by field name (upstream: `metav1.Object`, `meta.Accessor`).

use rhumb_api::JsonObject;
use rhumb_meta::Timestamp;
use serde_json::Value;

/// Reads the metadata of an object. Absent fields read as empty.
pub trait ObjectMetadata {
    fn metadata(&self) -> Option<&JsonObject>;

    fn meta_str(&self, field: &str) -> &str {
        self.metadata()
            .and_then(|metadata| metadata.get(field))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.meta_str("name")
    }

    fn namespace(&self) -> &str {
        self.meta_str("namespace")
    }

    fn uid(&self) -> &str {
        self.meta_str("uid")
    }

    fn resource_version(&self) -> &str {
        self.meta_str("resourceVersion")
    }

    fn generation(&self) -> i64 {
        self.meta_int("generation").unwrap_or(0)
    }

    fn meta_int(&self, field: &str) -> Option<i64> {
        self.metadata()?.get(field)?.as_i64()
    }

    fn is_deleting(&self) -> bool {
        !self.meta_str("deletionTimestamp").is_empty()
    }

    fn labels(&self) -> Vec<(String, String)> {
        self.metadata()
            .and_then(|metadata| metadata.get("labels"))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    }

    fn finalizers(&self) -> Vec<&str> {
        self.metadata()
            .and_then(|metadata| metadata.get("finalizers"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }
}

impl ObjectMetadata for JsonObject {
    fn metadata(&self) -> Option<&JsonObject> {
        self.get("metadata").and_then(Value::as_object)
    }
}

/// Changes the metadata of an object.
pub trait ObjectMetadataMut {
    /// Changes the metadata, which is created if absent.
    fn edit_metadata(&mut self, update: impl FnOnce(&mut JsonObject));

    fn set_meta(&mut self, field: &str, value: impl Into<Value>) {
        self.edit_metadata(|metadata| {
            metadata.insert(field.to_owned(), value.into());
        });
    }

    fn clear_meta(&mut self, field: &str) {
        self.edit_metadata(|metadata| {
            metadata.remove(field);
        });
    }

    fn set_time(&mut self, field: &str, time: Timestamp) {
        self.set_meta(field, time.rfc3339().to_string());
    }

    /// Copies a field from the old object, or removes it if the old object does not have it.
    fn copy_meta_from(&mut self, old: &JsonObject, field: &str) {
        match old.metadata().and_then(|metadata| metadata.get(field)) {
            Some(value) => self.set_meta(field, value.clone()),
            None => self.clear_meta(field),
        }
    }

    fn set_finalizers(&mut self, finalizers: Vec<String>) {
        if finalizers.is_empty() {
            self.clear_meta("finalizers");
        } else {
            self.set_meta("finalizers", finalizers);
        }
    }
}

impl ObjectMetadataMut for JsonObject {
    fn edit_metadata(&mut self, update: impl FnOnce(&mut JsonObject)) {
        if let Some(Value::Object(metadata)) = self.get_mut("metadata") {
            return update(metadata);
        }
        let mut metadata = JsonObject::new();
        update(&mut metadata);
        self.insert("metadata".to_owned(), Value::Object(metadata));
    }
}
