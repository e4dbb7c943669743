//! Validation of file-based volume sources: hostPath, gitRepo, secret, configMap, downwardAPI, image.

use rhumb_meta::field::{Error, ErrorList};

use super::VolumeValidationContext;
use crate::FieldView;
use crate::pods::{checks, env};

pub(super) const FIELD_PATHS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

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

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

pub(super) fn host_path(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let path = source.field("path");
    if path.is_empty() {
        path.required(errors, "");
        return;
    }
    checks::no_backsteps(&path, errors);
    checks::optional_one_of(&source.field("type"), HOST_PATH_TYPES, errors);
}

pub(super) fn git_repo(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("repository"), errors);
    checks::local_descending_path(&source.field("directory"), errors);
}

pub(super) fn secret(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("secretName"), errors);
    key_files(source, errors);
}

pub(super) fn config_map(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("name"), errors);
    key_files(source, errors);
}

fn key_files(source: &FieldView<'_>, errors: &mut ErrorList) {
    checks::file_mode(&source.field("defaultMode"), errors);
    for item in source.field("items").items() {
        key_to_path(&item, errors);
    }
}

pub(super) fn key_to_path(item: &FieldView<'_>, errors: &mut ErrorList) {
    checks::required(&item.field("key"), errors);
    checks::required(&item.field("path"), errors);
    checks::local_non_reserved_path(&item.field("path"), errors);
    checks::file_mode(&item.field("mode"), errors);
}

pub(super) fn downward_api(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::file_mode(&source.field("defaultMode"), errors);
    for item in source.field("items").items() {
        downward_file(&FieldView::at(item.value(), *source.path()), errors);
    }
}

/// Validates a downward API file. As upstream, errors are reported at the volume, not at the file.
pub(super) fn downward_file(file: &FieldView<'_>, errors: &mut ErrorList) {
    checks::required(&file.field("path"), errors);
    checks::local_non_reserved_path(&file.field("path"), errors);
    match (file.has("fieldRef"), file.has("resourceFieldRef")) {
        (true, both) => {
            env::field_selector(&file.field("fieldRef"), FIELD_PATHS, errors);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid(file.path(), "resource", detail));
            }
        }
        (false, true) => env::resource_selector(&file.field("resourceFieldRef"), true, errors),
        (false, false) => {
            file.required(errors, "one of fieldRef and resourceFieldRef is required");
        }
    }
    checks::file_mode(&file.field("mode"), errors);
}

pub(super) fn image(
    source: &FieldView<'_>,
    context: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    if context.options.is_pod {
        checks::required(&source.field("reference"), errors);
    }
    checks::required_one_of(&source.field("pullPolicy"), PULL_POLICIES, errors);
}
