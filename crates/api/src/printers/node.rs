//! Printers of the node group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "RuntimeClass").then_some(RUNTIME_CLASS)
}

const RUNTIME_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Handler", "What a node's runtime calls it."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
        let handler = object.key("handler").str();
        vec![name(object), json!(handler), age(object, now)]
    },
);
