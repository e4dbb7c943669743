//! Services, endpoints, policies, roles and the rest.

mod service;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Fill;
use super::pods::resources::{self, round_list};
use crate::{Object, fields};

pub(super) const NAMESPACE: &str = "io.k8s.api.core.v1.Namespace";

pub(super) const TYPES: &[(&str, Fill)] = &[
    (NAMESPACE, label_namespace),
    ("io.k8s.api.core.v1.Secret", fill_secret),
    ("io.k8s.api.core.v1.Service", service::fill),
    ("io.k8s.api.core.v1.LimitRangeItem", fill_limit),
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
        fields::fill(port, "protocol", "TCP");
    }),
    ("io.k8s.api.discovery.v1.EndpointPort", |port| {
        fill_pointer(port, "name", "");
        fill_pointer(port, "protocol", "TCP");
    }),
    (
        "io.k8s.api.networking.v1.NetworkPolicy",
        fill_network_policy,
    ),
    ("io.k8s.api.networking.v1.NetworkPolicyPort", |port| {
        fill_pointer(port, "protocol", "TCP");
    }),
    (
        "io.k8s.api.networking.v1.IngressClassParametersReference",
        |parameters| {
            fill_pointer(parameters, "scope", "Cluster");
        },
    ),
    ("io.k8s.api.core.v1.PersistentVolume", |volume| {
        fields::fill(volume, "status.phase", "Pending");
        fields::fill(volume, "spec.persistentVolumeReclaimPolicy", "Retain");
        fill_pointer(volume, "spec.volumeMode", "Filesystem");
    }),
    ("io.k8s.api.core.v1.PersistentVolumeClaim", |claim| {
        fields::fill(claim, "status.phase", "Pending");
    }),
    ("io.k8s.api.core.v1.PersistentVolumeClaimSpec", |spec| {
        fill_pointer(spec, "volumeMode", "Filesystem");
    }),
    ("io.k8s.api.storage.v1.StorageClass", |class| {
        fill_pointer(class, "reclaimPolicy", "Delete");
        fill_pointer(class, "volumeBindingMode", "Immediate");
    }),
    ("io.k8s.api.storage.v1.CSIDriver", fill_csi_driver),
    ("io.k8s.api.scheduling.v1.PriorityClass", |class| {
        fill_pointer(class, "preemptionPolicy", "PreemptLowerPriority");
    }),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", fill_role_ref),
    ("io.k8s.api.rbac.v1.RoleBinding", fill_role_ref),
    ("io.k8s.api.rbac.v1.Subject", |subject| {
        if matches!(fields::str(subject, "kind"), "User" | "Group") {
            fields::fill(subject, "apiGroup", RBAC);
        }
    }),
];

const RBAC: &str = "rbac.authorization.k8s.io";

fn fill_csi_driver(driver: &mut Object) {
    fill_pointer(driver, "spec.attachRequired", true);
    fill_pointer(driver, "spec.fsGroupPolicy", "ReadWriteOnceWithFSType");
    if fields::items(driver, "spec.volumeLifecycleModes").is_empty() {
        fields::set(driver, "spec.volumeLifecycleModes", json!(["Persistent"]));
    }
    for denied in [
        "spec.podInfoOnMount",
        "spec.storageCapacity",
        "spec.requiresRepublish",
        "spec.seLinuxMount",
    ] {
        fill_pointer(driver, denied, false);
    }
}

fn fill_role_ref(binding: &mut Object) {
    fields::fill(binding, "roleRef.apiGroup", RBAC);
}

/// Sets a field that is absent; an empty text is a value of its own.
fn fill_pointer(object: &mut Object, name: &str, value: impl Into<Value>) {
    if fields::get(object, name).is_none() {
        fields::set(object, name, value);
    }
}

/// A policy that does not say what it is about is about ingress, and about egress if it has rules for it.
fn fill_network_policy(policy: &mut Object) {
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

/// The label by which every namespace can be selected by its name.
pub const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// Puts the name of a namespace into its labels, over whatever a client has put there.
pub fn label_namespace(namespace: &mut Object) {
    let name = fields::text(namespace, "metadata.name");
    if name.is_empty() {
        return;
    }
    if let Some(labels) = fields::object_at(namespace, "metadata.labels") {
        labels.insert(NAMESPACE_LABEL.to_owned(), json!(name));
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
