//! Declares `VolumeAttachment` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/storage/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::driver_names;
use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        "io.k8s.api.storage.v1.VolumeAttachment",
    )
    .returns_deleted()
    .requires_resource_version()
    .status()
    .status_update_preserves(crate::kind::USER_METADATA_FIELDS)
    .requires_resource_version()
    .strategy(VolumeAttachmentStrategy)
}

const METADATA_MAX_BYTES: usize = 256 * 1024;
const MESSAGE_MAX_BYTES: usize = 1024;

#[derive(Debug)]
struct VolumeAttachmentStrategy;

impl ResourceStrategy for VolumeAttachmentStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
        checks::immutable(&object.field("spec"), &old.field("spec"), errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }
}

fn validate(object: &FieldView<'_>, errors: &mut ErrorList) {
    let spec = object.field("spec");
    driver_names::validate_driver(&spec.field("attacher"), errors);
    let source = spec.field("source");
    let volume = source.field("persistentVolumeName");
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source.field("inlineVolumeSpec").exists(), volume.exists()) {
        (false, false) => source.required(errors, detail),
        (true, true) => source.forbidden(errors, detail),
        (false, true) if volume.is_empty() => {
            volume.required(errors, "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    let node = spec.field("nodeName");
    checks::push_problems(&node, validation::dns1123_subdomain(node.str()), errors);
    validate_status(&object.field("status"), errors);
    if volume.exists() {
        checks::push_problems(&volume, validation::dns1123_subdomain(volume.str()), errors);
    }
}

fn validate_status(status: &FieldView<'_>, errors: &mut ErrorList) {
    let metadata = status.field("attachmentMetadata");
    if driver_names::total_bytes(&metadata) > METADATA_MAX_BYTES {
        errors.push(Error::too_long(metadata.path(), METADATA_MAX_BYTES));
    }
    for name in ["attachError", "detachError"] {
        let error = status.field(name);
        let message = error.field("message");
        if message.len() > MESSAGE_MAX_BYTES {
            // Upstream reports the limit of the metadata.
            errors.push(Error::too_long(message.path(), METADATA_MAX_BYTES));
        }
        let code = error.field("errorCode");
        if code.int().is_some_and(|code| code < 0) {
            code.invalid(errors, "must be between 0 and 2147483647, inclusive");
        }
    }
}
