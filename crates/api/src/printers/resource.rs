//! Printers of the `resource.k8s.io` group (dynamic resource allocation).

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, NAME_AND_AGE, age, is_being_deleted, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "DeviceClass" | "ResourceClaimTemplate" => NAME_AND_AGE,
        "ResourceClaim" => RESOURCE_CLAIM,
        "ResourceSlice" => RESOURCE_SLICE,
        _ => return None,
    })
}

const RESOURCE_CLAIM: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("State", "Whether the claim is allocated and reserved."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![name(object), json!(state(object)), age(object, now)]
    },
);

const RESOURCE_SLICE: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Node", "The node that has the devices."),
        TableColumn::text("Driver", "The driver that manages the devices."),
        TableColumn::text("Pool", "The pool the devices belong to."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        vec![
            name(object),
            json!(spec.key("nodeName").str()),
            json!(spec.key("driver").str()),
            json!(spec.at("pool.name").str()),
            age(object, now),
        ]
    },
);

fn state(claim: JsonView<'_>) -> &'static str {
    let is_allocated = claim.at("status.allocation").exists();
    let is_reserved = claim.at("status.reservedFor").item_count() > 0;
    match (is_being_deleted(claim), is_allocated, is_reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}
