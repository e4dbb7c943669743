//! Printers of the storage group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name, none};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "CSIDriver" => CSI_DRIVER,
        "CSINode" => CSI_NODE,
        "CSIStorageCapacity" => CSI_STORAGE_CAPACITY,
        "StorageClass" => STORAGE_CLASS,
        "VolumeAttachment" => VOLUME_ATTACHMENT,
        "VolumeAttributesClass" => VOLUME_ATTRIBUTES_CLASS,
        _ => return None,
    })
}

const CSI_DRIVER: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::boolean("AttachRequired", "Whether volumes must be attached."),
        TableColumn::boolean(
            "PodInfoOnMount",
            "Whether pod information is passed on mount.",
        ),
        TableColumn::boolean(
            "StorageCapacity",
            "Whether it reports its storage capacity.",
        ),
        TableColumn::text("TokenRequests", "The audiences of tokens it asks for."),
        TableColumn::boolean(
            "RequiresRepublish",
            "Whether NodePublishVolume is called periodically.",
        ),
        TableColumn::text("Modes", "The volume lifecycle modes it supports."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        let tokens = spec.key("tokenRequests");
        let tokens = if tokens.exists() {
            tokens.join(Some("audience"), ",")
        } else {
            "<unset>".to_string()
        };
        let modes = spec.key("volumeLifecycleModes").join(None, ",");
        vec![
            name(object),
            json!(spec.key("attachRequired").opt_bool().unwrap_or(true)),
            json!(spec.key("podInfoOnMount").is_true()),
            json!(spec.key("storageCapacity").is_true()),
            tokens.into(),
            json!(spec.key("requiresRepublish").is_true()),
            if modes.is_empty() { none() } else { modes }.into(),
            age(object, now),
        ]
    },
);

const CSI_NODE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Drivers", "How many drivers the node has."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let drivers = object.at("spec.drivers").item_count();
        vec![name(object), json!(drivers), age(object, now)]
    },
);

const CSI_STORAGE_CAPACITY: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("StorageClassName", "The class it is about."),
        TableColumn::text("Capacity", "The available capacity."),
    ],
    |object, _| {
        let object = JsonView::Root(object);
        let capacity = object.key("capacity").opt_scalar();
        vec![
            name(object),
            json!(object.key("storageClassName").str()),
            capacity.unwrap_or_else(|| "<unset>".to_string()).into(),
        ]
    },
);

const STORAGE_CLASS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Provisioner", "The provisioner of its volumes."),
        TableColumn::text(
            "ReclaimPolicy",
            "What happens to volumes that are released.",
        ),
        TableColumn::text("VolumeBindingMode", "When volumes are made and bound."),
        TableColumn::text("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let mark = if is_default(object) { " (default)" } else { "" };
        vec![
            format!("{}{mark}", object.at("metadata.name").str()).into(),
            json!(object.key("provisioner").str()),
            json!(object.key("reclaimPolicy").opt_str().unwrap_or("Delete")),
            json!(
                object
                    .key("volumeBindingMode")
                    .opt_str()
                    .unwrap_or("Immediate")
            ),
            json!(object.key("allowVolumeExpansion").is_true()),
            age(object, now),
        ]
    },
);

const VOLUME_ATTACHMENT: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Attacher", "The driver that attaches it.").name_format(),
        TableColumn::text("PV", "The volume."),
        TableColumn::text("Node", "The node it is attached to."),
        TableColumn::boolean("Attached", "Whether it is attached."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        vec![
            name(object),
            json!(spec.key("attacher").str()),
            json!(spec.at("source.persistentVolumeName").str()),
            json!(spec.key("nodeName").str()),
            json!(object.at("status.attached").is_true()),
            age(object, now),
        ]
    },
);

const VOLUME_ATTRIBUTES_CLASS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("DriverName", "The driver it is for."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let driver = object.key("driverName").str();
        vec![name(object), json!(driver), age(object, now)]
    },
);

fn is_default(class: JsonView<'_>) -> bool {
    let annotations = class.at("metadata.annotations");
    [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .iter()
    .any(|annotation| annotations.key(annotation).str() == "true")
}
