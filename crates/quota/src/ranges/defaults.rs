//! What containers get that say nothing.

use rhumb_api::{Object, fields};
use serde_json::Value;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The amounts for containers, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Defaults {
    requests: Object,
    limits: Object,
}

impl Defaults {
    /// Takes in a limit for containers. What a later one says counts.
    pub(super) fn learn(&mut self, limit: &Object) {
        let amounts = |field: &str| limit.get(field).and_then(Value::as_object).cloned();
        self.requests
            .extend(amounts("defaultRequest").unwrap_or_default());
        self.limits.extend(amounts("default").unwrap_or_default());
    }

    pub(super) fn fill(&self, pod: &mut Object) {
        if self.requests.is_empty() && self.limits.is_empty() {
            return;
        }
        let mut told = Vec::new();
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
                        told.push(format!("{added} {what} for {kind} {name}"));
                    }
                }
            }
        }
        if told.is_empty() {
            return;
        }
        if let Some(annotations) = fields::object_at(pod, "metadata.annotations") {
            let text = format!("LimitRanger plugin set: {}", told.join("; "));
            annotations.insert(ANNOTATION.to_owned(), text.into());
        }
    }
}

/// Adds the amounts that are not there, and says which those were.
fn add_missing<'a>(container: &mut Object, field: &str, defaults: &'a Object) -> Vec<&'a str> {
    let known = fields::get(container, field).and_then(Value::as_object);
    let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
    let missing = defaults.iter().filter(|(name, _)| !is_known(name));
    let missing: Vec<(&String, &Value)> = missing.collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let Some(amounts) = fields::object_at(container, field) else {
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
