//! Printers of the policy group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "PodDisruptionBudget").then_some(POD_DISRUPTION_BUDGET)
}

const POD_DISRUPTION_BUDGET: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text(
            "Min Available",
            "The number of pods that must stay available.",
        ),
        TableColumn::text(
            "Max Unavailable",
            "The number of pods that may be unavailable.",
        ),
        TableColumn::integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let limit = |field| {
            let limit = object.key("spec").key(field).opt_scalar();
            limit.unwrap_or_else(|| "N/A".to_string())
        };
        vec![
            name(object),
            limit("minAvailable").into(),
            limit("maxUnavailable").into(),
            json!(object.at("status.disruptionsAllowed").int()),
            age(object, now),
        ]
    },
);
