//! Printers of the scheduling group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "PriorityClass").then_some(PRIORITY_CLASS)
}

const PRIORITY_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Value", "The priority that pods of the class get."),
        Column::boolean("Global-Default", "Whether pods without a class get it."),
        AGE,
        Column::text("PreemptionPolicy", "Whether its pods may push others out."),
    ],
    |object, now| {
        let object = Part::Root(object);
        vec![
            name(object),
            json!(object.key("value").int()),
            json!(object.key("globalDefault").is_true()),
            age(object, now),
            json!(object.key("preemptionPolicy").str()),
        ]
    },
);
