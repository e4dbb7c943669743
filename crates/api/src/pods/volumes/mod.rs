//! Validation of the volumes of a pod: unique names, and exactly one source each.

mod claim_template;
mod file_sources;
mod projected;
mod storage_sources;

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::gotext;
use rhumb_meta::validation;

use super::{PodValidationOptions, checks};
use crate::FieldView;
use crate::small_map::SmallMap;

const ISCSI_NAME_MAX_BYTES: usize = 64;

/// Kind of a volume, as far as mounts and devices depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeKind {
    PersistentVolumeClaim,
    Other,
}

/// What the validation of a volume needs from its pod.
pub(super) struct VolumeValidationContext<'a> {
    pub(super) options: &'a PodValidationOptions,
    /// Empty in a template.
    pub(super) pod_name: &'a str,
}

type VolumeSourceValidator = fn(&FieldView<'_>, &VolumeValidationContext<'_>, &mut ErrorList);

struct VolumeSourceRule {
    field: &'static str,
    /// Field name in upstream's errors.
    error_name: &'static str,
    /// Field name in the error about a second source.
    extra_source_error_name: &'static str,
    check: VolumeSourceValidator,
}

const fn source_rule(field: &'static str, check: VolumeSourceValidator) -> VolumeSourceRule {
    VolumeSourceRule {
        field,
        error_name: field,
        extra_source_error_name: field,
        check,
    }
}

/// All sources but `emptyDir`, in upstream's order; the first one that is set is the source of the volume.
const SOURCES: &[VolumeSourceRule] = &[
    source_rule("hostPath", file_sources::host_path),
    source_rule("gitRepo", file_sources::git_repo),
    VolumeSourceRule {
        field: "gcePersistentDisk",
        error_name: "persistentDisk",
        extra_source_error_name: "gcePersistentDisk",
        check: storage_sources::gce,
    },
    source_rule("awsElasticBlockStore", storage_sources::aws),
    source_rule("secret", file_sources::secret),
    source_rule("nfs", storage_sources::nfs),
    source_rule("iscsi", storage_sources::iscsi),
    source_rule("glusterfs", storage_sources::glusterfs),
    source_rule("flocker", storage_sources::flocker),
    source_rule("persistentVolumeClaim", storage_sources::claim),
    source_rule("rbd", storage_sources::rbd),
    source_rule("cinder", storage_sources::cinder),
    VolumeSourceRule {
        field: "cephfs",
        error_name: "cephfs",
        extra_source_error_name: "cephFS",
        check: storage_sources::cephfs,
    },
    source_rule("quobyte", storage_sources::quobyte),
    VolumeSourceRule {
        field: "downwardAPI",
        error_name: "downwardAPI",
        extra_source_error_name: "downwarAPI",
        check: file_sources::downward_api,
    },
    source_rule("fc", storage_sources::fc),
    source_rule("flexVolume", storage_sources::flex),
    source_rule("configMap", file_sources::config_map),
    source_rule("azureFile", storage_sources::azure_file),
    source_rule("vsphereVolume", storage_sources::vsphere),
    source_rule("photonPersistentDisk", storage_sources::photon),
    source_rule("portworxVolume", storage_sources::portworx),
    source_rule("azureDisk", storage_sources::azure_disk),
    source_rule("storageos", storage_sources::storage_os),
    source_rule("projected", projected::validate),
    source_rule("scaleIO", storage_sources::scale_io),
    source_rule("csi", storage_sources::csi),
    source_rule("ephemeral", claim_template::ephemeral),
    source_rule("image", file_sources::image),
];

/// Validates all volumes. Returns the valid ones by name.
pub(super) fn validate<'a>(
    volumes: &'a FieldView<'a>,
    context: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) -> SmallMap<&'a str, VolumeKind> {
    let mut created: Option<HashSet<String>> = None;
    let mut known = SmallMap::with_capacity(volumes.len());
    for item in volumes.items() {
        let index = item.index();
        let volume = item.with_index(&index);
        let before = errors.len();
        validate_sources(&volume, context, errors);
        let name = item.text("name");
        checks::required_dns_label(&volume.field("name"), errors);
        if known.contains_key(&name) {
            errors.push(Error::duplicate(volume.field("name").path(), name));
        }
        if errors.len() == before {
            let is_claim = volume.has("persistentVolumeClaim") || volume.has("ephemeral");
            let kind = if is_claim {
                VolumeKind::PersistentVolumeClaim
            } else {
                VolumeKind::Other
            };
            known.insert(name, kind);
        }
        if !volume.has("persistentVolumeClaim") {
            continue;
        }
        let created =
            created.get_or_insert_with(|| ephemeral_claim_names(volumes, context.pod_name));
        let claim = volume.field("persistentVolumeClaim");
        if created.contains(claim.text("claimName")) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            checks::invalid_text(&claim.field("claimName"), errors, detail);
        }
    }
    known
}

/// Names of the claims that will be created for ephemeral volumes.
fn ephemeral_claim_names(volumes: &FieldView<'_>, pod_name: &str) -> HashSet<String> {
    if pod_name.is_empty() {
        return HashSet::new();
    }
    volumes
        .items()
        .filter(|volume| volume.has("ephemeral"))
        .map(|volume| format!("{pod_name}-{}", volume.text("name")))
        .collect()
}

fn validate_sources(
    volume: &FieldView<'_>,
    context: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let mut has_source = volume.has("emptyDir");
    if has_source {
        empty_dir(&volume.field("emptyDir"), errors);
    }
    for source in SOURCES {
        if !volume.has(source.field) {
            continue;
        }
        if has_source {
            let surplus = volume.path().child(source.extra_source_error_name);
            let detail = "may not specify more than 1 volume type";
            errors.push(Error::forbidden(&surplus, detail));
        } else {
            has_source = true;
            let path = volume.path().child(source.error_name);
            let view = FieldView::at(volume.get(source.field), path);
            (source.check)(&view, context, errors);
            if source.field == "ephemeral" {
                validate_ephemeral_claim_name(volume, context.pod_name, errors);
            }
        }
        if source.field == "iscsi" {
            iscsi_name(volume, errors);
        }
    }
    if !has_source {
        volume.required(errors, "must specify a volume type");
    }
}

fn empty_dir(source: &FieldView<'_>, errors: &mut ErrorList) {
    let limit = source.field("sizeLimit");
    if checks::quantity(&limit, errors).is_some_and(|limit| limit.is_negative()) {
        limit.forbidden(errors, "SizeLimit field must be a valid resource quantity");
    }
}

fn iscsi_name(volume: &FieldView<'_>, errors: &mut ErrorList) {
    let iscsi = volume.field("iscsi");
    let length = volume.text("name").len() + 1 + iscsi.text("targetPortal").len();
    if iscsi.has("initiatorName") && length > ISCSI_NAME_MAX_BYTES {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        checks::invalid_text(&volume.field("name"), errors, detail);
    }
}

/// Requires the name of the claim created for an ephemeral volume to be valid.
fn validate_ephemeral_claim_name(volume: &FieldView<'_>, pod_name: &str, errors: &mut ErrorList) {
    let name = volume.text("name");
    if pod_name.is_empty() || name.is_empty() {
        return;
    }
    let claim = format!("{pod_name}-{name}");
    for problem in validation::dns1123_subdomain(&claim) {
        let detail = format!("PVC name {}: {problem}", gotext::quote(&claim));
        checks::invalid_text(&volume.field("name"), errors, detail);
    }
}
