//! Parses the case files and applies defaults to their objects.

use std::collections::HashMap;
use std::path::Path;

use rhumb_api::defaults::{self, DefaultingFn};
use serde_json::{Map, Value};

/// A case of a validation test file.
pub(crate) struct ValidationCase {
    pub(crate) title: String,
    pub(crate) new: Value,
    pub(crate) old: Value,
    /// Errors in order, then warnings.
    pub(crate) expected: Vec<String>,
}

/// Parses a file: each case has a title after `# `, one or two lines of JSON, and the expected errors.
pub(crate) fn cases(file: &str) -> Vec<ValidationCase> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/pods")
        .join(file);
    let text = std::fs::read_to_string(&path).expect(file);
    let mut cases: Vec<ValidationCase> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            cases.push(ValidationCase {
                title: title.to_owned(),
                new: Value::Object(Map::new()),
                old: Value::Object(Map::new()),
                expected: Vec::new(),
            });
            continue;
        }
        let case = cases.last_mut().expect("a case begins with a title line");
        if let Some(json) = line.strip_prefix("new ") {
            case.new = serde_json::from_str(json).expect(line);
        } else if let Some(json) = line.strip_prefix("old ") {
            case.old = serde_json::from_str(json).expect(line);
        } else {
            case.expected.push(line.to_owned());
        }
    }
    assert!(!cases.is_empty(), "{file} has no cases");
    cases
}

/// Applies a JSON merge patch: null removes, objects merge, other values replace.
pub(crate) fn merged(base: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut object = match base {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            let old = object.remove(key).unwrap_or(Value::Null);
            object.insert(key.clone(), merged(old, value));
        }
    }
    Value::Object(object)
}

/// The nested types: owner type, field, type of the field or of its list items.
const FIELDS: &[(&str, &str, &str)] = &[
    ("Pod", "spec", "PodSpec"),
    ("PodTemplate", "template", "PodTemplateSpec"),
    ("PodTemplateSpec", "spec", "PodSpec"),
    ("ReplicationController", "spec", "ReplicationControllerSpec"),
    ("ReplicationControllerSpec", "template", "PodTemplateSpec"),
    ("Node", "status", "NodeStatus"),
    ("PodSpec", "volumes", "Volume"),
    ("PodSpec", "containers", "Container"),
    ("PodSpec", "initContainers", "Container"),
    ("PodSpec", "ephemeralContainers", "EphemeralContainer"),
    ("PodSpec", "resources", "ResourceRequirements"),
    ("Container", "ports", "ContainerPort"),
    ("Container", "env", "EnvVar"),
    ("Container", "resources", "ResourceRequirements"),
    ("Container", "livenessProbe", "Probe"),
    ("Container", "readinessProbe", "Probe"),
    ("Container", "startupProbe", "Probe"),
    ("Container", "lifecycle", "Lifecycle"),
    ("EphemeralContainer", "ports", "ContainerPort"),
    ("EphemeralContainer", "livenessProbe", "Probe"),
    ("Lifecycle", "postStart", "LifecycleHandler"),
    ("Lifecycle", "preStop", "LifecycleHandler"),
    ("LifecycleHandler", "httpGet", "HTTPGetAction"),
    ("Probe", "httpGet", "HTTPGetAction"),
    ("Probe", "grpc", "GRPCAction"),
    ("EnvVar", "valueFrom", "EnvVarSource"),
    ("EnvVarSource", "fieldRef", "ObjectFieldSelector"),
    ("EnvVarSource", "resourceFieldRef", "ResourceFieldSelector"),
    (
        "DownwardAPIVolumeFile",
        "resourceFieldRef",
        "ResourceFieldSelector",
    ),
    ("Volume", "hostPath", "HostPathVolumeSource"),
    ("Volume", "secret", "SecretVolumeSource"),
    ("Volume", "configMap", "ConfigMapVolumeSource"),
    ("Volume", "downwardAPI", "DownwardAPIVolumeSource"),
    ("Volume", "projected", "ProjectedVolumeSource"),
    ("Volume", "iscsi", "ISCSIVolumeSource"),
    ("Volume", "rbd", "RBDVolumeSource"),
    ("Volume", "azureDisk", "AzureDiskVolumeSource"),
    ("Volume", "scaleIO", "ScaleIOVolumeSource"),
    ("DownwardAPIVolumeSource", "items", "DownwardAPIVolumeFile"),
    ("DownwardAPIVolumeFile", "fieldRef", "ObjectFieldSelector"),
    ("ProjectedVolumeSource", "sources", "VolumeProjection"),
    ("VolumeProjection", "downwardAPI", "DownwardAPIProjection"),
    (
        "VolumeProjection",
        "serviceAccountToken",
        "ServiceAccountTokenProjection",
    ),
    ("DownwardAPIProjection", "items", "DownwardAPIVolumeFile"),
];

/// Applies the defaults of a kind and of its nested types.
pub(crate) fn with_defaults(kind: &str, mut object: Value) -> Value {
    let fills: HashMap<&str, DefaultingFn> = defaults::by_type().collect();
    apply_defaults(kind, &mut object, &fills);
    object
}

fn apply_defaults(kind: &str, value: &mut Value, fills: &HashMap<&str, DefaultingFn>) {
    match value {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| apply_defaults(kind, item, fills)),
        Value::Object(object) => {
            if let Some(defaults) = fills.get(format!("io.k8s.api.core.v1.{kind}").as_str()) {
                defaults(object);
            }
            for (_, field, child) in FIELDS.iter().filter(|(owner, ..)| *owner == kind) {
                if let Some(value) = object.get_mut(*field) {
                    apply_defaults(child, value, fills);
                }
            }
        }
        _ => {}
    }
}

/// The JSON pointers of all values of an object.
pub(crate) fn pointers(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, String::new(), &mut found);
    found
}

fn collect(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(value, format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
    if !at.is_empty() {
        found.push(at);
    }
}
