//! Printers of the coordination group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "Lease").then_some(LEASE)
}

const LEASE: TablePrinter = TablePrinter::new(
    &[NAME, TableColumn::text("Holder", "Who holds it."), AGE],
    |object, now| {
        let object = JsonView::Root(object);
        let holder = object.at("spec.holderIdentity").str();
        vec![name(object), json!(holder), age(object, now)]
    },
);
