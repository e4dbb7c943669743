//! Printers of the scheduling group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "PriorityClass").then_some(PRIORITY_CLASS)
}

const PRIORITY_CLASS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::integer("Value", "The priority that pods of the class get."),
        TableColumn::boolean("Global-Default", "Whether pods without a class get it."),
        AGE,
        TableColumn::text("PreemptionPolicy", "Whether its pods may preempt others."),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            json!(object.key("value").int()),
            json!(object.key("globalDefault").is_true()),
            age(object, now),
            json!(object.key("preemptionPolicy").str()),
        ]
    },
);
