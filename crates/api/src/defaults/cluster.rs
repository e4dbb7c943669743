//! Defaults of services, endpoints, network policies, volumes, storage, RBAC and namespaces.

mod service;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::DefaultingFn;
use super::pods::resources::{self, round_list};
use crate::{JsonObject, fields};

pub(super) const NAMESPACE: &str = "io.k8s.api.core.v1.Namespace";

pub(super) const DEFAULTERS: &[(&str, DefaultingFn)] = &[
    (NAMESPACE, label_namespace),
    ("io.k8s.api.core.v1.Secret", secret),
    ("io.k8s.api.core.v1.Service", service::fill),
    ("io.k8s.api.core.v1.LimitRangeItem", limit_range_item),
    ("io.k8s.api.core.v1.ResourceQuotaSpec", |spec| {
        round_list(spec, "hard");
    }),
    ("io.k8s.api.core.v1.ResourceQuotaStatus", |status| {
        round_list(status, "hard");
        round_list(status, "used");
    }),
    ("io.k8s.api.core.v1.PersistentVolumeSpec", |spec| {
        round_list(spec, "capacity");
    }),
    (
        "io.k8s.api.core.v1.VolumeResourceRequirements",
        resources::round,
    ),
    ("io.k8s.api.core.v1.PersistentVolumeClaimStatus", |status| {
        round_list(status, "capacity");
        round_list(status, "allocatedResources");
    }),
    ("io.k8s.api.core.v1.EndpointPort", |port| {
        fields::set_if_empty(port, "protocol", "TCP");
    }),
    ("io.k8s.api.discovery.v1.EndpointPort", |port| {
        set_if_absent(port, "name", "");
        set_if_absent(port, "protocol", "TCP");
    }),
    ("io.k8s.api.networking.v1.NetworkPolicy", network_policy),
    ("io.k8s.api.networking.v1.NetworkPolicyPort", |port| {
        set_if_absent(port, "protocol", "TCP");
    }),
    (
        "io.k8s.api.networking.v1.IngressClassParametersReference",
        |parameters| {
            set_if_absent(parameters, "scope", "Cluster");
        },
    ),
    ("io.k8s.api.core.v1.PersistentVolume", |volume| {
        fields::set_if_empty(volume, "status.phase", "Pending");
        fields::set_if_empty(volume, "spec.persistentVolumeReclaimPolicy", "Retain");
        set_if_absent(volume, "spec.volumeMode", "Filesystem");
    }),
    ("io.k8s.api.core.v1.PersistentVolumeClaim", |claim| {
        fields::set_if_empty(claim, "status.phase", "Pending");
    }),
    ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", |spec| {
        set_if_absent(spec, "volumeMode", "Filesystem");
    }),
    ("io.k8s.api.storage.v1.StorageClass", |class| {
        set_if_absent(class, "reclaimPolicy", "Delete");
        set_if_absent(class, "volumeBindingMode", "Immediate");
    }),
    ("io.k8s.api.storage.v1.CSIDriver", csi_driver),
    ("io.k8s.api.scheduling.v1.PriorityClass", |class| {
        set_if_absent(class, "preemptionPolicy", "PreemptLowerPriority");
    }),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", role_ref),
    ("io.k8s.api.rbac.v1.RoleBinding", role_ref),
    ("io.k8s.api.rbac.v1.Subject", |subject| {
        if matches!(fields::str(subject, "kind"), "User" | "Group") {
            fields::set_if_empty(subject, "apiGroup", RBAC_GROUP);
        }
    }),
];

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

fn csi_driver(driver: &mut JsonObject) {
    set_if_absent(driver, "spec.attachRequired", true);
    set_if_absent(driver, "spec.fsGroupPolicy", "ReadWriteOnceWithFSType");
    if fields::items(driver, "spec.volumeLifecycleModes").is_empty() {
        fields::set(driver, "spec.volumeLifecycleModes", json!(["Persistent"]));
    }
    for denied in [
        "spec.podInfoOnMount",
        "spec.storageCapacity",
        "spec.requiresRepublish",
        "spec.seLinuxMount",
    ] {
        set_if_absent(driver, denied, false);
    }
}

fn role_ref(binding: &mut JsonObject) {
    fields::set_if_empty(binding, "roleRef.apiGroup", RBAC_GROUP);
}

/// Sets a field that is absent (nil in Go); an empty string is a value.
fn set_if_absent(object: &mut JsonObject, name: &str, value: impl Into<Value>) {
    if fields::get(object, name).is_none() {
        fields::set(object, name, value);
    }
}

/// `policyTypes` defaults to Ingress, and Egress if there are egress rules.
fn network_policy(policy: &mut JsonObject) {
    if !fields::items(policy, "spec.policyTypes").is_empty() {
        return;
    }
    let has_egress = !fields::items(policy, "spec.egress").is_empty();
    let types = if has_egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    fields::set(policy, "spec.policyTypes", types);
}

/// The label with a namespace's name, by which selectors can select it.
pub const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// Sets the namespace's name label, overwriting a client's value.
pub fn label_namespace(namespace: &mut JsonObject) {
    let name = fields::text(namespace, "metadata.name");
    if name.is_empty() {
        return;
    }
    if let Some(labels) = fields::object_or_insert(namespace, "metadata.labels") {
        labels.insert(NAMESPACE_LABEL.to_owned(), json!(name));
    }
}

/// Merges `stringData` into `data`, with precedence for `stringData`.
fn secret(secret: &mut JsonObject) {
    if let Some(Value::Object(texts)) = secret.remove("stringData")
        && let Some(data) = fields::object_or_insert(secret, "data")
    {
        for (key, text) in texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            data.insert(key, Value::String(encoded));
        }
    }
    fields::set_if_empty(secret, "type", "Opaque");
}

/// For containers: `default` defaults to `max`, `defaultRequest` to `default` or else `min`.
fn limit_range_item(limit: &mut JsonObject) {
    for list in [
        "max",
        "min",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ] {
        round_list(limit, list);
    }
    if fields::str(limit, "type") != "Container" {
        return;
    }
    merge_missing(limit, "default", "max");
    merge_missing(limit, "defaultRequest", "default");
    merge_missing(limit, "defaultRequest", "min");
}

/// Adds the entries of map `from` that map `into` lacks.
fn merge_missing(object: &mut JsonObject, into: &str, from: &str) {
    let Some(Value::Object(source)) = object.get(from).cloned() else {
        return;
    };
    let Some(target) = fields::object_or_insert(object, into) else {
        return;
    };
    for (key, value) in source {
        target.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests;
