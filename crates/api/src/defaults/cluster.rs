//! Services, endpoints, policies, roles and the rest.

mod service;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Fill;
use crate::{Object, fields};

pub(super) const NAMESPACE: &str = "io.k8s.api.core.v1.Namespace";

pub(super) const TYPES: &[(&str, Fill)] = &[
    (NAMESPACE, label_namespace),
    ("io.k8s.api.core.v1.NamespaceStatus", |status| {
        fields::fill(status, "phase", "Active");
    }),
    ("io.k8s.api.core.v1.Secret", fill_secret),
    ("io.k8s.api.core.v1.Service", service::fill),
    ("io.k8s.api.core.v1.LimitRangeItem", fill_limit),
    ("io.k8s.api.core.v1.EndpointPort", |port| {
        fields::fill(port, "protocol", "TCP");
    }),
];

/// Puts the name of a namespace into its labels, over whatever a client has put there.
pub fn label_namespace(namespace: &mut Object) {
    let name = fields::text(namespace, "metadata.name");
    if name.is_empty() {
        return;
    }
    if let Some(labels) = fields::object_at(namespace, "metadata.labels") {
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
}

/// What was written as text joins the data, and goes before it.
fn fill_secret(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.remove("stringData")
        && let Some(data) = fields::object_at(secret, "data")
    {
        for (key, text) in texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, Value::String(encoded));
        }
    }
    fields::fill(secret, "type", "Opaque");
}

/// In limits of containers: the default limit is the maximum, the default request the default limit, or else
/// the minimum.
fn fill_limit(limit: &mut Object) {
    if fields::str(limit, "type") != "Container" {
        return;
    }
    fill_map(limit, "default", "max");
    fill_map(limit, "defaultRequest", "default");
    fill_map(limit, "defaultRequest", "min");
}

/// Adds the entries of one map that another does not have.
fn fill_map(object: &mut Object, into: &str, from: &str) {
    let Some(Value::Object(source)) = object.get(from).cloned() else {
        return;
    };
    let Some(target) = fields::object_at(object, into) else {
        return;
    };
    for (key, value) in source {
        target.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests;
