//! Printers of the storage group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name, none};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
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

const CSI_DRIVER: Printer = Printer::new(
    &[
        NAME,
        Column::boolean("AttachRequired", "Whether volumes must be attached."),
        Column::boolean("PodInfoOnMount", "Whether it is told of the pod."),
        Column::boolean("StorageCapacity", "Whether it tells how much room it has."),
        Column::text("TokenRequests", "The audiences of tokens it asks for."),
        Column::boolean("RequiresRepublish", "Whether it is called again and again."),
        Column::text("Modes", "What kinds of volumes it makes."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

const CSI_NODE: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Drivers", "How many drivers the node has."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let drivers = object.at("spec.drivers").len();
        vec![name(object), json!(drivers), age(object, now)]
    },
);

const CSI_STORAGE_CAPACITY: Printer = Printer::new(
    &[
        NAME,
        Column::text("StorageClassName", "The class it is about."),
        Column::text("Capacity", "How much room is left."),
    ],
    |object, _| {
        let object = Part::Root(object);
        let capacity = object.key("capacity").opt_scalar();
        vec![
            name(object),
            json!(object.key("storageClassName").str()),
            capacity.unwrap_or_else(|| "<unset>".to_string()).into(),
        ]
    },
);

const STORAGE_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Provisioner", "Who makes its volumes."),
        Column::text(
            "ReclaimPolicy",
            "What happens to volumes that are released.",
        ),
        Column::text("VolumeBindingMode", "When volumes are made and bound."),
        Column::text("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

const VOLUME_ATTACHMENT: Printer = Printer::new(
    &[
        NAME,
        Column::text("Attacher", "The driver that attaches it.").names(),
        Column::text("PV", "The volume."),
        Column::text("Node", "The node it is attached to."),
        Column::boolean("Attached", "Whether it is attached."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

const VOLUME_ATTRIBUTES_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::text("DriverName", "The driver it is for."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let driver = object.key("driverName").str();
        vec![name(object), json!(driver), age(object, now)]
    },
);

fn is_default(class: Part<'_>) -> bool {
    let annotations = class.at("metadata.annotations");
    [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .iter()
    .any(|annotation| annotations.key(annotation).str() == "true")
}
