//! Printers of the node group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "RuntimeClass").then_some(RUNTIME_CLASS)
}

const RUNTIME_CLASS: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Handler", "The runtime handler name."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let handler = object.key("handler").str();
        vec![name(object), json!(handler), age(object, now)]
    },
);
