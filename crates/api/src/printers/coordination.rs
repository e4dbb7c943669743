//! Printers of the coordination group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "Lease").then_some(LEASE)
}

const LEASE: Printer = Printer::new(
    &[NAME, Column::text("Holder", "Who holds it."), AGE],
    |object, now| {
        let object = Part::Root(object);
        let holder = object.at("spec.holderIdentity").str();
        vec![name(object), json!(holder), age(object, now)]
    },
);
