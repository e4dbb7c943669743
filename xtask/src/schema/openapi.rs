//! Type and field properties from OpenAPI. Version 2 has everything except defaults.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

pub(super) struct OpenApiDefinitions {
    types: Value,
    /// Defaults by type and field.
    defaults: BTreeMap<(String, String), Value>,
}

impl OpenApiDefinitions {
    pub(super) fn read(k8s_api: &Path) -> Result<OpenApiDefinitions> {
        let mut swagger = read_json(&k8s_api.join("swagger.json"))?;
        let mut defaults = BTreeMap::new();
        let directory = k8s_api.join("openapi-v3");
        for entry in std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read {}", directory.display()))?
        {
            let document = read_json(&entry?.path())?;
            collect_defaults(&document["components"]["schemas"], &mut defaults);
        }
        Ok(OpenApiDefinitions {
            types: swagger["definitions"].take(),
            defaults,
        })
    }

    pub(super) fn property(&self, of: &str, field: &str) -> Option<&Value> {
        self.types[of]["properties"].get(field)
    }

    pub(super) fn is_required(&self, of: &str, field: &str) -> bool {
        let required = self.types[of]["required"].as_array();
        required.is_some_and(|names| names.iter().any(|name| name == field))
    }

    pub(super) fn is_atomic_type(&self, name: &str) -> bool {
        self.types[name]["x-kubernetes-map-type"] == "atomic"
    }

    pub(super) fn default(&self, of: &str, field: &str) -> Option<&Value> {
        self.defaults.get(&(of.to_owned(), field.to_owned()))
    }
}

fn collect_defaults(schemas: &Value, defaults: &mut BTreeMap<(String, String), Value>) {
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let properties = schema["properties"].as_object();
        for (field, property) in properties.into_iter().flatten() {
            let Some(default) = property
                .get("default")
                .filter(|value| is_significant_default(value))
            else {
                continue;
            };
            defaults.insert((name.clone(), field.clone()), default.clone());
        }
    }
}

/// Skips zero values: OpenAPI has a zero default for every non-pointer field.
fn is_significant_default(default: &Value) -> bool {
    match default {
        Value::String(text) => !text.is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Bool(value) => *value,
        Value::Null | Value::Array(_) => false,
    }
}

fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}
