//! Printers of the resource group: devices and the claims on them.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, NAME_AND_AGE, age, is_being_deleted, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    Some(match kind {
        "DeviceClass" | "ResourceClaimTemplate" => NAME_AND_AGE,
        "ResourceClaim" => RESOURCE_CLAIM,
        "ResourceSlice" => RESOURCE_SLICE,
        _ => return None,
    })
}

const RESOURCE_CLAIM: Printer = Printer::new(
    &[
        NAME,
        Column::text("State", "Whether it has a device, and is in use."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![name(object), json!(state(object)), age(object, now)]
    },
);

const RESOURCE_SLICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Node", "The node that has the devices."),
        Column::text("Driver", "Who manages the devices."),
        Column::text("Pool", "The pool the devices belong to."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

fn state(claim: Part<'_>) -> &'static str {
    let is_allocated = claim.at("status.allocation").exists();
    let is_reserved = claim.at("status.reservedFor").len() > 0;
    match (is_being_deleted(claim), is_allocated, is_reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}
