//! The volumes of a pod: one source each, and names of their own.

mod claim_template;
mod disks;
mod files;
mod projected;

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::gotext;
use rhumb_meta::validation;

use super::{Options, checks};
use crate::View;
use crate::small::SmallMap;

const ISCSI_NAME_MAX_BYTES: usize = 64;

/// What the rest of the pod needs to know of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Volume {
    Claim,
    Other,
}

/// Where a volume is checked.
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    /// Empty in a template.
    pub(super) pod_name: &'a str,
}

type Check = fn(&View<'_>, &Context<'_>, &mut ErrorList);

struct Source {
    field: &'static str,
    /// The name that errors have for it, which is not always its own.
    shown: &'static str,
    /// The name that errors have for it when there is another one.
    surplus: &'static str,
    check: Check,
}

const fn source(field: &'static str, check: Check) -> Source {
    Source {
        field,
        shown: field,
        surplus: field,
        check,
    }
}

/// All sources but `emptyDir`, in the order in which they are looked at: the first one is the volume's.
const SOURCES: &[Source] = &[
    source("hostPath", files::host_path),
    source("gitRepo", files::git_repo),
    Source {
        field: "gcePersistentDisk",
        shown: "persistentDisk",
        surplus: "gcePersistentDisk",
        check: disks::gce,
    },
    source("awsElasticBlockStore", disks::aws),
    source("secret", files::secret),
    source("nfs", disks::nfs),
    source("iscsi", disks::iscsi),
    source("glusterfs", disks::glusterfs),
    source("flocker", disks::flocker),
    source("persistentVolumeClaim", disks::claim),
    source("rbd", disks::rbd),
    source("cinder", disks::cinder),
    Source {
        field: "cephfs",
        shown: "cephfs",
        surplus: "cephFS",
        check: disks::cephfs,
    },
    source("quobyte", disks::quobyte),
    Source {
        field: "downwardAPI",
        shown: "downwardAPI",
        surplus: "downwarAPI",
        check: files::downward_api,
    },
    source("fc", disks::fc),
    source("flexVolume", disks::flex),
    source("configMap", files::config_map),
    source("azureFile", disks::azure_file),
    source("vsphereVolume", disks::vsphere),
    source("photonPersistentDisk", disks::photon),
    source("portworxVolume", disks::portworx),
    source("azureDisk", disks::azure_disk),
    source("storageos", disks::storage_os),
    source("projected", projected::validate),
    source("scaleIO", disks::scale_io),
    source("csi", disks::csi),
    source("ephemeral", claim_template::ephemeral),
    source("image", files::image),
];

/// Checks all volumes. Gives those that are right, by name.
pub(super) fn validate<'a>(
    volumes: &'a View<'a>,
    context: &Context<'_>,
    errors: &mut ErrorList,
) -> SmallMap<&'a str, Volume> {
    let mut created: Option<HashSet<String>> = None;
    let mut known = SmallMap::with_capacity(volumes.len());
    for item in volumes.items() {
        let index = item.index();
        let volume = item.with(&index);
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
                Volume::Claim
            } else {
                Volume::Other
            };
            known.insert(name, kind);
        }
        if !volume.has("persistentVolumeClaim") {
            continue;
        }
        let created = created.get_or_insert_with(|| created_claims(volumes, context.pod_name));
        let claim = volume.field("persistentVolumeClaim");
        if created.contains(claim.text("claimName")) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            checks::bad_text(&claim.field("claimName"), errors, detail);
        }
    }
    known
}

/// The names of the claims that will be made for the pod's ephemeral volumes.
fn created_claims(volumes: &View<'_>, pod_name: &str) -> HashSet<String> {
    if pod_name.is_empty() {
        return HashSet::new();
    }
    volumes
        .items()
        .filter(|volume| volume.has("ephemeral"))
        .map(|volume| format!("{pod_name}-{}", volume.text("name")))
        .collect()
}

fn validate_sources(volume: &View<'_>, context: &Context<'_>, errors: &mut ErrorList) {
    let mut has_source = volume.has("emptyDir");
    if has_source {
        empty_dir(&volume.field("emptyDir"), errors);
    }
    for source in SOURCES {
        if !volume.has(source.field) {
            continue;
        }
        if has_source {
            let surplus = volume.path().child(source.surplus);
            let detail = "may not specify more than 1 volume type";
            errors.push(Error::forbidden(&surplus, detail));
        } else {
            has_source = true;
            let path = volume.path().child(source.shown);
            let view = View::at(volume.get(source.field), path);
            (source.check)(&view, context, errors);
            if source.field == "ephemeral" {
                claim_name(volume, context.pod_name, errors);
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

fn empty_dir(source: &View<'_>, errors: &mut ErrorList) {
    let limit = source.field("sizeLimit");
    if checks::quantity(&limit, errors).is_some_and(|limit| limit.is_negative()) {
        limit.forbidden(errors, "SizeLimit field must be a valid resource quantity");
    }
}

fn iscsi_name(volume: &View<'_>, errors: &mut ErrorList) {
    let iscsi = volume.field("iscsi");
    let length = volume.text("name").len() + 1 + iscsi.text("targetPortal").len();
    if iscsi.has("initiatorName") && length > ISCSI_NAME_MAX_BYTES {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        checks::bad_text(&volume.field("name"), errors, detail);
    }
}

/// The claim that is made for an ephemeral volume must have a name that it can have.
fn claim_name(volume: &View<'_>, pod_name: &str, errors: &mut ErrorList) {
    let name = volume.text("name");
    if pod_name.is_empty() || name.is_empty() {
        return;
    }
    let claim = format!("{pod_name}-{name}");
    for problem in validation::dns1123_subdomain(&claim) {
        let detail = format!("PVC name {}: {problem}", gotext::quote(&claim));
        checks::bad_text(&volume.field("name"), errors, detail);
    }
}
