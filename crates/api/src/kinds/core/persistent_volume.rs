//! Declares `PersistentVolume` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::{Error, ErrorList, Path};
use serde_json::json;

use super::volume_validation;
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, SelectableField, StrategyContext,
    checks, fields, resource_names,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        "io.k8s.api.core.v1.PersistentVolume",
    )
    .returns_deleted()
    .short_names(&["pv"])
    // Not a path of the object, but clients have relied on it since the first release.
    .selectable(&[SelectableField::string("name", "metadata.name")])
    .status()
    .strategy(PersistentVolumeStrategy)
}

/// Volume sources, of which a spec has exactly one.
const SOURCES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

#[derive(Debug)]
struct PersistentVolumeStrategy;

impl ResourceStrategy for PersistentVolumeStrategy {
    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        let now = request.now.rfc3339().to_string();
        let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        object.insert("status".to_owned(), status);
    }

    /// Sets `lastPhaseTransitionTime` when the phase changes, unless the client sets it.
    fn prepare_status_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        let time = "status.lastPhaseTransitionTime";
        let same = |path: &str| fields::get(object, path) == fields::get(old, path);
        if same("status.phase") {
            if fields::get(object, time).is_none() {
                fields::restore_from(object, old, time);
            }
        } else if same(time) || fields::get(object, time).is_none() {
            fields::set(object, time, request.now.rfc3339().to_string());
        }
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        warn(object, warnings);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_spec(&object.field("spec"), errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        validate_spec(&spec, errors);
        if SOURCES
            .iter()
            .any(|name| is_changed(name, &spec, &old_spec))
        {
            let path = Path::new("spec.persistentvolumesource");
            let detail = "spec.persistentvolumesource is immutable after creation";
            errors.push(Error::forbidden(&path, detail));
        }
        // Upstream leaves `spec` out of these paths.
        for name in ["volumeMode", "nodeAffinity"] {
            let (field, old_field) = (spec.field(name), old_spec.field(name));
            let is_free = name == "nodeAffinity" && !old_field.exists();
            if !is_free {
                let field = FieldView::at(field.value(), Path::new(name));
                checks::immutable(&field, &old_field, errors);
            }
        }
        let class = spec.field("volumeAttributesClassName");
        if !class.exists() && old_spec.field("volumeAttributesClassName").exists() {
            class.forbidden(errors, "update from non-nil value to nil is forbidden");
        }
    }
}

/// Deprecated and removed volume sources, and the warnings about them.
const DEPRECATED_SOURCES: &[(&str, &str)] = &[
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

fn warn(object: &FieldView<'_>, warnings: &mut Vec<String>) {
    let spec = object.field("spec");
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    if reclaim.str() == "Recycle" {
        warnings.push(format!(
            "{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic \
             provisioning.",
            reclaim.path()
        ));
    }
    for (name, since) in DEPRECATED_SOURCES {
        if spec.field(name).exists() {
            let shown = if *name == "storageos" {
                "storageOS"
            } else {
                name
            };
            warnings.push(format!("spec.{shown}: {since}"));
        }
    }
}

/// Returns whether a source differs. The `controllerExpandSecretRef` of a CSI source may be added later.
fn is_changed(name: &str, spec: &FieldView<'_>, old: &FieldView<'_>) -> bool {
    let (source, old_source) = (spec.field(name), old.field(name));
    let mut now = source.object().cloned().unwrap_or_default();
    let before = old_source.object().cloned().unwrap_or_default();
    if name == "csi" && !before.contains_key("controllerExpandSecretRef") {
        now.remove("controllerExpandSecretRef");
    }
    source.exists() != old_source.exists() || now != before
}

fn validate_spec(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        modes.required(errors, "");
    }
    volume_validation::validate_access_modes(&modes, errors);
    let capacity = spec.field("capacity");
    if capacity.is_empty() {
        capacity.required(errors, "");
    }
    if !capacity.key("storage").exists() || capacity.len() > 1 {
        capacity.not_supported(errors, &["storage"]);
    }
    for (_, amount) in capacity.entries() {
        if let Some(quantity) = resource_names::quantity(&amount)
            && quantity.value() < 0
        {
            let detail = "must be a valid resource quantity";
            errors.push(Error::invalid(amount.path(), quantity.value(), detail));
        }
        volume_validation::validate_positive(&amount, &amount, errors);
    }
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    if !reclaim.is_empty() {
        checks::one_of(&reclaim, &["Delete", "Recycle", "Retain"], errors);
    }
    validate_source(spec, errors);
    volume_validation::validate_class_name(&spec.field("storageClassName"), errors);
    volume_validation::validate_volume_mode(&spec.field("volumeMode"), errors);
    let class = spec.field("volumeAttributesClassName");
    if class.exists() {
        if class.is_empty() {
            class.required(errors, "an empty string is disallowed");
        }
        volume_validation::validate_class_name(&class, errors);
        if !spec.field("csi").exists() {
            let detail = "has to be specified when using volumeAttributesClassName";
            spec.field("csi").required(errors, detail);
        }
    }
}

fn validate_source(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for name in SOURCES {
        let source = spec.field(name);
        if !source.exists() {
            continue;
        }
        if found {
            source.forbidden(errors, "may not specify more than 1 volume type");
        }
        found = true;
        for (owner, field) in REQUIRED_SOURCE_FIELDS
            .iter()
            .filter(|(owner, _)| owner == name)
        {
            let field = source.field(field);
            if field.is_empty() {
                field.required(errors, "");
            }
            if *owner == "local" && !spec.field("nodeAffinity").exists() {
                let affinity = spec.field("nodeAffinity");
                affinity.required(errors, "Local volume requires node affinity");
            }
        }
    }
    if !found {
        spec.required(errors, "must specify a volume type");
    }
    let host = spec.field("hostPath");
    let path = host.field("path");
    if path.str().split('/').any(|part| part == "..") {
        checks::invalid_text(&path, errors, "must not contain '..'");
    }
    let kind = host.field("type");
    if kind.exists() && !path.is_empty() {
        checks::one_of(&kind, HOST_PATH_TYPES, errors);
    }
    let mut parts = path.str().split('/');
    let is_root = path.str().starts_with('/') && parts.all(|part| matches!(part, "" | "."));
    let reclaim = spec.field("persistentVolumeReclaimPolicy");
    if is_root && reclaim.str() == "Recycle" {
        reclaim.forbidden(errors, "may not be 'recycle' for a hostPath mount of '/'");
    }
}

const HOST_PATH_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Required fields of the sources that are still supported.
const REQUIRED_SOURCE_FIELDS: &[(&str, &str)] = &[
    ("hostPath", "path"),
    ("nfs", "server"),
    ("nfs", "path"),
    ("local", "path"),
    ("csi", "driver"),
    ("csi", "volumeHandle"),
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, create, kind, patched};

    fn volume(changes: Value) -> Value {
        let base = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
            "hostPath": {"path": "/data"}}});
        Value::Object(patched(
            base.as_object().expect("an object"),
            json!({"spec": changes}),
        ))
    }

    fn check(changes: Value, want: &[&str]) {
        check_create(&kind("", "PersistentVolume"), volume(changes), want);
    }

    #[test]
    fn volume_source_and_capacity_are_validated() {
        check(json!({}), &[]);
        check(
            json!({"hostPath": null}),
            &["spec: Required value: must specify a volume type"],
        );
        check(
            json!({"nfs": {"server": "a", "path": "/b"}, "capacity": null, "accessModes": ["Odd"]}),
            &[
                concat!(
                    "spec.accessModes: Unsupported value: \"Odd\": supported values: \"ReadOnlyMany\", ",
                    "\"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\""
                ),
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                "spec.nfs: Forbidden: may not specify more than 1 volume type",
            ],
        );
        check(
            json!({"hostPath": null, "local": {}}),
            &[
                "spec.local.path: Required value",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        );
        check(
            json!({"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"}),
            &[
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        );
    }

    #[test]
    fn new_volume_is_pending() {
        let gates = crate::FeatureGates::default();
        let (made, _) = create(&kind("", "PersistentVolume"), volume(json!({})), &gates);
        let want = json!({"phase": "Pending", "lastPhaseTransitionTime": "2023-11-14T22:13:20Z"});
        assert_eq!(made["status"], want);
    }

    #[test]
    fn volume_source_is_immutable() {
        check_update(
            &kind("", "PersistentVolume"),
            volume(json!({})),
            json!({"spec": {"hostPath": {"path": "/other"}, "volumeMode": "Block"}}),
            &[
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
                "volumeMode: Invalid value: \"Block\": field is immutable",
            ],
        );
    }
}
