//! Printers of the policy group.

use serde_json::json;

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "PodDisruptionBudget").then_some(POD_DISRUPTION_BUDGET)
}

const POD_DISRUPTION_BUDGET: Printer = Printer::new(
    &[
        NAME,
        Column::text("Min Available", "How many pods must stay."),
        Column::text("Max Unavailable", "How many pods may be missing."),
        Column::integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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
