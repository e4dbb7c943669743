//! VolumeAttachment.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::names;
use crate::workloads::checks;
use crate::{Kind, Request, Rules, Scope, View};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        "io.k8s.api.storage.v1.VolumeAttachment",
    )
    .returns_deleted()
    .updates_need_version()
    .status()
    .status_keeps(crate::kind::ALL_OF_METADATA)
    .updates_need_version()
    .rules(VolumeAttachment)
}

const METADATA_MAX_BYTES: usize = 256 * 1024;
const MESSAGE_MAX_BYTES: usize = 1024;

#[derive(Debug)]
struct VolumeAttachment;

impl Rules for VolumeAttachment {
    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(object, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
        checks::immutable(&object.field("spec"), &old.field("spec"), errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }
}

fn validate(object: &View<'_>, errors: &mut ErrorList) {
    let spec = object.field("spec");
    names::validate_driver(&spec.field("attacher"), errors);
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
    checks::problems(&node, validation::dns1123_subdomain(node.str()), errors);
    validate_status(&object.field("status"), errors);
    if volume.exists() {
        checks::problems(&volume, validation::dns1123_subdomain(volume.str()), errors);
    }
}

fn validate_status(status: &View<'_>, errors: &mut ErrorList) {
    let metadata = status.field("attachmentMetadata");
    if names::size(&metadata) > METADATA_MAX_BYTES {
        errors.push(Error::too_long(metadata.path(), METADATA_MAX_BYTES));
    }
    for name in ["attachError", "detachError"] {
        let error = status.field(name);
        let message = error.field("message");
        if message.len() > MESSAGE_MAX_BYTES {
            // Upstream names the limit of the metadata.
            errors.push(Error::too_long(message.path(), METADATA_MAX_BYTES));
        }
        let code = error.field("errorCode");
        if code.int().is_some_and(|code| code < 0) {
            code.invalid(errors, "must be between 0 and 2147483647, inclusive");
        }
    }
}
