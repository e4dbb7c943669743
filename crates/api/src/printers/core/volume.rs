//! Volumes and the claims on them.

use serde_json::json;

use crate::printers::part::Part;
use crate::printers::{AGE, NAME, age, is_being_deleted, name};
use crate::table::{Column, Printer};

const VOLUME_MODE: Column = Column::text("VolumeMode", "A file system or a raw device.").wide();

pub(super) const PERSISTENT_VOLUME: Printer = Printer::new(
    &[
        NAME,
        Column::text("Capacity", "How much it holds."),
        Column::text("Access Modes", "How it can be mounted."),
        Column::text("Reclaim Policy", "What happens to it once it is released."),
        Column::text("Status", "Whether it is free, bound or released."),
        Column::text("Claim", "The claim it is bound to."),
        Column::text("StorageClass", "The storage class it belongs to."),
        Column::text("VolumeAttributesClass", "The class of its attributes."),
        Column::text("Reason", "Why it is in that status."),
        AGE,
        VOLUME_MODE,
    ],
    |object, now| {
        let volume = Part::Root(object);
        let spec = volume.key("spec");
        let claim = spec.key("claimRef");
        let claim = if claim.exists() {
            format!(
                "{}/{}",
                claim.key("namespace").str(),
                claim.key("name").str()
            )
        } else {
            String::new()
        };
        vec![
            name(volume),
            spec.at("capacity.storage").quantity().into(),
            access_modes(spec.key("accessModes")).into(),
            json!(spec.key("persistentVolumeReclaimPolicy").str()),
            json!(phase(volume)),
            claim.into(),
            json!(storage_class(volume)),
            json!(or_unset(spec.key("volumeAttributesClassName"))),
            json!(volume.at("status.reason").str()),
            age(volume, now),
            json!(or_unset(spec.key("volumeMode"))),
        ]
    },
);

pub(super) const PERSISTENT_VOLUME_CLAIM: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether it is bound to a volume."),
        Column::text("Volume", "The volume it is bound to."),
        Column::text("Capacity", "How much the volume holds."),
        Column::text("Access Modes", "How the volume can be mounted."),
        Column::text("StorageClass", "The storage class it asks for."),
        Column::text(
            "VolumeAttributesClass",
            "The class of attributes it asks for.",
        ),
        AGE,
        VOLUME_MODE,
    ],
    |object, now| {
        let claim = Part::Root(object);
        let spec = claim.key("spec");
        let volume = spec.key("volumeName").str();
        let (capacity, modes) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            (
                claim.at("status.capacity.storage").quantity(),
                access_modes(claim.at("status.accessModes")),
            )
        };
        vec![
            name(claim),
            json!(phase(claim)),
            json!(volume),
            capacity.into(),
            modes.into(),
            json!(storage_class(claim)),
            json!(or_unset(spec.key("volumeAttributesClassName"))),
            age(claim, now),
            json!(or_unset(spec.key("volumeMode"))),
        ]
    },
);

fn phase(object: Part<'_>) -> &str {
    if is_being_deleted(object) {
        "Terminating"
    } else {
        object.at("status.phase").str()
    }
}

fn or_unset(part: Part<'_>) -> &str {
    part.opt_str().unwrap_or("<unset>")
}

fn access_modes(modes: Part<'_>) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode| modes.items().any(|item| item.str() == mode);
    SHORT
        .iter()
        .filter(|(mode, _)| has(*mode))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

/// The class; an annotation from before there was a field for it comes first.
fn storage_class(object: Part<'_>) -> &str {
    object
        .at("metadata.annotations")
        .key("volume.beta.kubernetes.io/storage-class")
        .opt_str()
        .unwrap_or_else(|| object.at("spec.storageClassName").str())
}
