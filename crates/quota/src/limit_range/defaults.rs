//! Default requests and limits of containers.

use rhumb_api::{JsonObject, fields};
use serde_json::Value;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Defaults for containers, as raw resource lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ContainerDefaults {
    requests: JsonObject,
    limits: JsonObject,
}

impl ContainerDefaults {
    /// Merges the defaults of a limit for containers; later limits override earlier ones.
    pub(super) fn merge_limit(&mut self, limit: &JsonObject) {
        let amounts = |field: &str| limit.get(field).and_then(Value::as_object).cloned();
        self.requests
            .extend(amounts("defaultRequest").unwrap_or_default());
        self.limits.extend(amounts("default").unwrap_or_default());
    }

    pub(super) fn apply(&self, pod: &mut JsonObject) {
        if self.requests.is_empty() && self.limits.is_empty() {
            return;
        }
        let mut descriptions = Vec::new();
        for (list, kind) in [
            ("spec.containers", "container"),
            ("spec.initContainers", "init container"),
        ] {
            for container in fields::objects_mut(pod, list) {
                for (field, defaults, what) in [
                    ("resources.requests", &self.requests, "request"),
                    ("resources.limits", &self.limits, "limit"),
                ] {
                    let added = add_missing(container, field, defaults);
                    if !added.is_empty() {
                        let (added, name) = (added.join(", "), fields::str(container, "name"));
                        descriptions.push(format!("{added} {what} for {kind} {name}"));
                    }
                }
            }
        }
        if descriptions.is_empty() {
            return;
        }
        if let Some(annotations) = fields::object_or_insert(pod, "metadata.annotations") {
            let text = format!("LimitRanger plugin set: {}", descriptions.join("; "));
            annotations.insert(ANNOTATION.to_owned(), text.into());
        }
    }
}

/// Adds missing entries to a resource list and returns their names, sorted.
fn add_missing<'a>(
    container: &mut JsonObject,
    field: &str,
    defaults: &'a JsonObject,
) -> Vec<&'a str> {
    let specified = fields::get(container, field).and_then(Value::as_object);
    let is_specified = |name: &str| specified.is_some_and(|specified| specified.contains_key(name));
    let missing = defaults.iter().filter(|(name, _)| !is_specified(name));
    let missing: Vec<(&String, &Value)> = missing.collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let Some(amounts) = fields::object_or_insert(container, field) else {
        return Vec::new();
    };
    let mut added = Vec::with_capacity(missing.len());
    for (name, amount) in missing {
        amounts.insert(name.clone(), amount.clone());
        added.push(name.as_str());
    }
    added.sort_unstable();
    added
}
