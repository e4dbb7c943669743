//! Defaults of pods and all types within a pod template, of nodes and replication controllers.

mod images;
pub(super) mod resources;

use serde_json::{Value, json};

use super::DefaultingFn;
use crate::JsonObject;

const FILE_MODE: i64 = 0o644;
const TOKEN_EXPIRATION_SECONDS: i64 = 60 * 60;
const GRACE_SECONDS: i64 = 30;

pub(super) const DEFAULTERS: &[(&str, DefaultingFn)] = &[
    ("io.k8s.api.core.v1.Pod", pod),
    ("io.k8s.api.core.v1.PodTemplate", pod_template),
    ("io.k8s.api.core.v1.PodTemplateSpec", pod_template_spec),
    ("io.k8s.api.core.v1.PodSpec", pod_spec),
    ("io.k8s.api.core.v1.Container", container),
    ("io.k8s.api.core.v1.EphemeralContainer", container),
    ("io.k8s.api.core.v1.ContainerPort", container_port),
    ("io.k8s.api.core.v1.Probe", probe),
    ("io.k8s.api.core.v1.HTTPGetAction", http_get),
    ("io.k8s.api.core.v1.GRPCAction", grpc),
    ("io.k8s.api.core.v1.ResourceRequirements", resources::round),
    ("io.k8s.api.core.v1.ObjectFieldSelector", field_selector),
    (
        "io.k8s.api.core.v1.ResourceFieldSelector",
        resource_field_selector,
    ),
    ("io.k8s.api.core.v1.Volume", volume),
    ("io.k8s.api.core.v1.HostPathVolumeSource", host_path),
    ("io.k8s.api.core.v1.SecretVolumeSource", volume_file_mode),
    ("io.k8s.api.core.v1.ConfigMapVolumeSource", volume_file_mode),
    (
        "io.k8s.api.core.v1.DownwardAPIVolumeSource",
        volume_file_mode,
    ),
    ("io.k8s.api.core.v1.ProjectedVolumeSource", volume_file_mode),
    (
        "io.k8s.api.core.v1.ServiceAccountTokenProjection",
        token_projection,
    ),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", iscsi),
    ("io.k8s.api.core.v1.ISCSIPersistentVolumeSource", iscsi),
    ("io.k8s.api.core.v1.RBDVolumeSource", rbd),
    ("io.k8s.api.core.v1.RBDPersistentVolumeSource", rbd),
    ("io.k8s.api.core.v1.AzureDiskVolumeSource", azure_disk),
    ("io.k8s.api.core.v1.ScaleIOVolumeSource", scale_io),
    ("io.k8s.api.core.v1.ScaleIOPersistentVolumeSource", scale_io),
    ("io.k8s.api.core.v1.NodeStatus", node_status),
    (
        "io.k8s.api.core.v1.ReplicationController",
        replication_controller,
    ),
    (
        "io.k8s.api.core.v1.ReplicationControllerSpec",
        replication_controller_spec,
    ),
];

/// Sets a field that is absent or null.
fn set_if_absent(object: &mut JsonObject, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), value.into());
    }
}

/// Sets a field that is absent, null, an empty string or zero.
fn set_if_unset(object: &mut JsonObject, name: &str, value: impl Into<Value>) {
    let is_set = match object.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() != Some(0),
        Some(_) => true,
    };
    if !is_set {
        object.insert(name.to_owned(), value.into());
    }
}

/// Annotations that declared init containers before `spec.initContainers` existed.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
];

fn drop_init_container_annotations(object: &mut JsonObject) {
    let annotations = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        for key in INIT_CONTAINER_ANNOTATIONS {
            annotations.remove(key);
        }
    }
}

/// Sets an absent field to an empty object, so that the defaults of its type apply.
fn ensure_object(object: &mut JsonObject, name: &str) {
    set_if_absent(object, name, json!({}));
}

fn pod_template(object: &mut JsonObject) {
    ensure_object(object, "template");
}

fn pod_template_spec(object: &mut JsonObject) {
    drop_init_container_annotations(object);
    ensure_object(object, "spec");
}

fn pod(object: &mut JsonObject) {
    drop_init_container_annotations(object);
    ensure_object(object, "spec");
    let Some(Value::Object(spec)) = object.get_mut("spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            resources::requests_from_limits(container);
        }
    }
    resources::pod_level(spec);
    set_if_absent(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for container in items(spec, list) {
                host_ports(container);
            }
        }
    }
}

/// With host networking, `hostPort` defaults to `containerPort`.
fn host_ports(container: &mut JsonObject) {
    for port in items(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            set_if_unset(port, "hostPort", number);
        }
    }
}

/// The items of a list field that are objects.
fn items<'a>(object: &'a mut JsonObject, list: &str) -> impl Iterator<Item = &'a mut JsonObject> {
    let items = object.get_mut(list).and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn pod_spec(object: &mut JsonObject) {
    set_if_unset(object, "dnsPolicy", "ClusterFirst");
    set_if_unset(object, "restartPolicy", "Always");
    set_if_absent(object, "securityContext", json!({}));
    set_if_absent(object, "terminationGracePeriodSeconds", GRACE_SECONDS);
    set_if_unset(object, "schedulerName", "default-scheduler");
    resources::round_list(object, "overhead");
    mirror_service_account(object);
}

/// Keeps the deprecated `serviceAccount` equal to `serviceAccountName`.
fn mirror_service_account(spec: &mut JsonObject) {
    const NEW: &str = "serviceAccountName";
    const OLD: &str = "serviceAccount";
    let (new, old) = (spec.get(NEW), spec.get(OLD));
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    match text(new).or_else(|| text(old)) {
        Some(account) => {
            spec.insert(NEW.to_owned(), account.clone().into());
            spec.insert(OLD.to_owned(), account.into());
        }
        None if new.is_none() && old.is_none() => {}
        None => {
            spec.remove(NEW);
            spec.remove(OLD);
        }
    }
}

fn container(object: &mut JsonObject) {
    let image = object.get("image").and_then(Value::as_str);
    let policy = images::pull_policy(image.unwrap_or_default());
    set_if_unset(object, "imagePullPolicy", policy);
    set_if_unset(object, "terminationMessagePath", "/dev/termination-log");
    set_if_unset(object, "terminationMessagePolicy", "File");
}

fn container_port(object: &mut JsonObject) {
    set_if_unset(object, "protocol", "TCP");
}

fn probe(object: &mut JsonObject) {
    set_if_unset(object, "timeoutSeconds", 1);
    set_if_unset(object, "periodSeconds", 10);
    set_if_unset(object, "successThreshold", 1);
    set_if_unset(object, "failureThreshold", 3);
}

fn http_get(object: &mut JsonObject) {
    set_if_unset(object, "path", "/");
    set_if_unset(object, "scheme", "HTTP");
}

fn grpc(object: &mut JsonObject) {
    set_if_absent(object, "service", "");
}

fn field_selector(object: &mut JsonObject) {
    set_if_unset(object, "apiVersion", "v1");
}

fn resource_field_selector(object: &mut JsonObject) {
    set_if_absent(object, "divisor", "0");
}

fn volume(object: &mut JsonObject) {
    let has_source = object
        .iter()
        .any(|(name, value)| name != "name" && !value.is_null());
    if !has_source {
        object.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(Value::Object(image)) = object.get_mut("image") {
        let reference = image.get("reference").and_then(Value::as_str);
        let policy = images::pull_policy(reference.unwrap_or_default());
        set_if_unset(image, "pullPolicy", policy);
    }
}

fn host_path(object: &mut JsonObject) {
    set_if_absent(object, "type", "");
}

fn volume_file_mode(object: &mut JsonObject) {
    set_if_absent(object, "defaultMode", FILE_MODE);
}

fn token_projection(object: &mut JsonObject) {
    set_if_absent(object, "expirationSeconds", TOKEN_EXPIRATION_SECONDS);
}

fn iscsi(object: &mut JsonObject) {
    set_if_unset(object, "iscsiInterface", "default");
}

fn rbd(object: &mut JsonObject) {
    set_if_unset(object, "pool", "rbd");
    set_if_unset(object, "user", "admin");
    set_if_unset(object, "keyring", "/etc/ceph/keyring");
}

fn azure_disk(object: &mut JsonObject) {
    set_if_absent(object, "cachingMode", "ReadWrite");
    set_if_absent(object, "kind", "Shared");
    set_if_absent(object, "fsType", "ext4");
    set_if_absent(object, "readOnly", false);
}

fn scale_io(object: &mut JsonObject) {
    set_if_unset(object, "storageMode", "ThinProvisioned");
    set_if_unset(object, "fsType", "xfs");
}

fn node_status(object: &mut JsonObject) {
    resources::round_list(object, "capacity");
    if let Some(capacity) = object.get("capacity").filter(|value| !value.is_null()) {
        let capacity = capacity.clone();
        set_if_absent(object, "allocatable", capacity);
    }
    resources::round_list(object, "allocatable");
}

/// Selector and labels default to the labels of the template.
fn replication_controller(object: &mut JsonObject) {
    let labels = object
        .get("spec")
        .and_then(|spec| spec.get("template"))
        .and_then(|template| template.get("metadata"))
        .and_then(|metadata| metadata.get("labels"))
        .and_then(Value::as_object)
        .cloned();
    let Some(labels) = labels else {
        return;
    };
    if let Some(Value::Object(spec)) = object.get_mut("spec") {
        set_if_empty_map(spec, "selector", &labels);
    }
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        set_if_empty_map(metadata, "labels", &labels);
    }
}

fn set_if_empty_map(object: &mut JsonObject, name: &str, value: &JsonObject) {
    let is_empty = match object.get(name) {
        Some(Value::Object(map)) => map.is_empty(),
        _ => true,
    };
    if is_empty {
        object.insert(name.to_owned(), Value::Object(value.clone()));
    }
}

fn replication_controller_spec(object: &mut JsonObject) {
    set_if_absent(object, "replicas", 1);
}

#[cfg(test)]
mod tests;
