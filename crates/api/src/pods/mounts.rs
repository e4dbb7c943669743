//! Validation of `volumeMounts` and `volumeDevices` of a container.

use rhumb_meta::field::{Error, ErrorList};
use serde_json::Value;

use super::checks;
use super::volumes::VolumeKind;
use crate::FieldView;
use crate::small_map::{SmallMap, SmallSet};

/// The volumes of a pod by name.
pub(super) type VolumeKindsByName<'a> = SmallMap<&'a str, VolumeKind>;

pub(super) fn validate(
    container: &FieldView<'_>,
    volumes: &VolumeKindsByName<'_>,
    errors: &mut ErrorList,
) {
    let (mounts, devices) = (
        container.field("volumeMounts"),
        container.field("volumeDevices"),
    );
    let device_paths = paths(&devices, "devicePath");
    validate_mounts(container, &mounts, &device_paths, volumes, errors);
    if !devices.is_empty() {
        validate_devices(&devices, &paths(&mounts, "mountPath"), volumes, errors);
    }
}

/// Paths of mounts or devices by volume name.
fn paths<'a>(list: &FieldView<'a>, field: &str) -> SmallMap<&'a str, &'a str> {
    let items = list.value().and_then(Value::as_array).into_iter().flatten();
    let text = |item: &'a Value, field| item.get(field).and_then(Value::as_str).unwrap_or_default();
    items
        .map(|item| (text(item, "name"), text(item, field)))
        .collect()
}

fn validate_mounts(
    container: &FieldView<'_>,
    mounts: &FieldView<'_>,
    devices: &SmallMap<&str, &str>,
    volumes: &VolumeKindsByName<'_>,
    errors: &mut ErrorList,
) {
    let mut paths = SmallSet::with_capacity(mounts.len());
    let device_paths: SmallSet<&str> = devices.values().copied().collect();
    for item in mounts.items() {
        let index = item.index();
        let mount = item.with_index(&index);
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        checks::required(&name, errors);
        if !volumes.contains_key(&name.str()) {
            errors.push(Error::not_found(name.path(), name.str()));
        }
        checks::required(&path, errors);
        if !paths.insert(item.text("mountPath")) {
            checks::invalid_text(&path, errors, "must be unique");
        }
        if devices.contains_key(&name.str()) {
            checks::invalid_text(&name, errors, "must not already exist in volumeDevices");
        }
        if device_paths.contains(&path.str()) {
            let detail = "must not already exist as a path in volumeDevices";
            checks::invalid_text(&path, errors, detail);
        }
        sub_paths(mounts, &mount, errors);
        propagation(container, mounts, &mount, errors);
        recursive_read_only(mounts, &mount, errors);
    }
}

/// Returns a field of a mount; as upstream, its error path is below the list, without the index.
fn in_list<'a>(mounts: &'a FieldView<'a>, mount: &FieldView<'a>, name: &'a str) -> FieldView<'a> {
    FieldView::at(mount.get(name), mounts.path().child(name))
}

fn sub_paths(mounts: &FieldView<'_>, mount: &FieldView<'_>, errors: &mut ErrorList) {
    if !mount.text("subPath").is_empty() {
        checks::local_descending_path(&in_list(mounts, mount, "subPath"), errors);
    }
    if mount.text("subPathExpr").is_empty() {
        return;
    }
    if !mount.text("subPath").is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        checks::invalid_text(&mount.field("subPathExpr"), errors, detail);
    }
    checks::local_descending_path(&in_list(mounts, mount, "subPathExpr"), errors);
}

fn propagation(
    container: &FieldView<'_>,
    mounts: &FieldView<'_>,
    mount: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let mode = in_list(mounts, mount, "mountPropagation");
    if !mode.exists() {
        return;
    }
    checks::one_of(&mode, &["Bidirectional", "HostToContainer", "None"], errors);
    let security = container.field("securityContext");
    if mode.str() == "Bidirectional" && !security.field("privileged").is_true() {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        mode.forbidden(errors, detail);
    }
}

fn recursive_read_only(mounts: &FieldView<'_>, mount: &FieldView<'_>, errors: &mut ErrorList) {
    let mode = in_list(mounts, mount, "recursiveReadOnly");
    match mode.opt_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.field("readOnly").is_true() {
                mode.forbidden(errors, "may only be specified when readOnly is true");
            }
            let propagation = mount.field("mountPropagation");
            if propagation.exists() && propagation.str() != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                mode.forbidden(errors, detail);
            }
        }
        Some(_) => checks::one_of(&mode, &["Disabled", "Enabled", "IfPossible"], errors),
    }
}

fn validate_devices(
    devices: &FieldView<'_>,
    mounts: &SmallMap<&str, &str>,
    volumes: &VolumeKindsByName<'_>,
    errors: &mut ErrorList,
) {
    let (mut names, mut paths) = (SmallSet::new(), SmallSet::new());
    let mount_paths: SmallSet<&str> = mounts.values().copied().collect();
    for device in devices.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        checks::required(&name, errors);
        if !name.is_empty() && !names.insert(device.text("name")) {
            checks::invalid_text(&name, errors, "must be unique");
        }
        match volumes.get(&name.str()) {
            Some(VolumeKind::PersistentVolumeClaim) => {}
            Some(VolumeKind::Other) => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                checks::invalid_text(&name, errors, detail);
            }
            None => errors.push(Error::not_found(name.path(), name.str())),
        }
        checks::required(&path, errors);
        if paths.contains(&path.str()) {
            checks::invalid_text(&path, errors, "must be unique");
        }
        if checks::has_backsteps(path.str()) {
            checks::invalid_text(&path, errors, "can not contain backsteps ('..')");
        } else {
            paths.insert(device.text("devicePath"));
        }
        if mounts.contains_key(&name.str()) {
            checks::invalid_text(&name, errors, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(&path.str()) {
            let detail = "must not already exist as a path in volumeMounts";
            checks::invalid_text(&path, errors, detail);
        }
    }
}
