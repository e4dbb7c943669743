//! Printers of persistent volumes and persistent volume claims.

use serde_json::json;

use crate::printers::json_view::JsonView;
use crate::printers::{AGE, NAME, age, is_being_deleted, name};
use crate::table::{TableColumn, TablePrinter};

const VOLUME_MODE: TableColumn =
    TableColumn::text("VolumeMode", "A file system or a raw device.").wide();

pub(super) const PERSISTENT_VOLUME: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Capacity", "How much it holds."),
        TableColumn::text("Access Modes", "How it can be mounted."),
        TableColumn::text("Reclaim Policy", "What happens to it once it is released."),
        TableColumn::text("Status", "Whether it is free, bound or released."),
        TableColumn::text("Claim", "The claim it is bound to."),
        TableColumn::text("StorageClass", "The storage class it belongs to."),
        TableColumn::text("VolumeAttributesClass", "The class of its attributes."),
        TableColumn::text("Reason", "Why it is in that status."),
        AGE,
        VOLUME_MODE,
    ],
    |object, now| {
        let volume = JsonView::Root(object);
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

pub(super) const PERSISTENT_VOLUME_CLAIM: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Status", "Whether it is bound to a volume."),
        TableColumn::text("Volume", "The volume it is bound to."),
        TableColumn::text("Capacity", "How much the volume holds."),
        TableColumn::text("Access Modes", "How the volume can be mounted."),
        TableColumn::text("StorageClass", "The storage class it asks for."),
        TableColumn::text(
            "VolumeAttributesClass",
            "The requested volume attributes class.",
        ),
        AGE,
        VOLUME_MODE,
    ],
    |object, now| {
        let claim = JsonView::Root(object);
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

fn phase(object: JsonView<'_>) -> &str {
    if is_being_deleted(object) {
        "Terminating"
    } else {
        object.at("status.phase").str()
    }
}

fn or_unset(part: JsonView<'_>) -> &str {
    part.opt_str().unwrap_or("<unset>")
}

fn access_modes(modes: JsonView<'_>) -> String {
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

/// The storage class; the legacy annotation takes precedence over the field.
fn storage_class(object: JsonView<'_>) -> &str {
    object
        .at("metadata.annotations")
        .key("volume.beta.kubernetes.io/storage-class")
        .opt_str()
        .unwrap_or_else(|| object.at("spec.storageClassName").str())
}
