//! Printers of the flowcontrol group.

use serde_json::{Value, json};

use super::json_view::JsonView;
use super::{AGE, NAME, age, name};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "FlowSchema" => FLOW_SCHEMA,
        "PriorityLevelConfiguration" => PRIORITY_LEVEL,
        _ => return None,
    })
}

const FLOW_SCHEMA: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("PriorityLevel", "The level its requests belong to."),
        TableColumn::text(
            "MatchingPrecedence",
            "Schemas with lower values match first.",
        ),
        TableColumn::text("DistinguisherMethod", "How requests are assigned to flows."),
        AGE,
        TableColumn::text("MissingPL", "Whether its priority level is missing."),
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        let method = spec.key("distinguisherMethod");
        let method = if method.exists() {
            method.key("type").str()
        } else {
            "<none>"
        };
        let dangling = object.at("status.conditions").condition("Dangling");
        let dangling = dangling.map_or("?", |condition| condition.key("status").str());
        vec![
            name(object),
            json!(spec.at("priorityLevelConfiguration.name").str()),
            json!(spec.key("matchingPrecedence").int()),
            json!(method),
            age(object, now),
            json!(dangling),
        ]
    },
);

const PRIORITY_LEVEL: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Type", "Whether its requests are limited."),
        TableColumn::text(
            "NominalConcurrencyShares",
            "Its share of the concurrency limit.",
        ),
        TableColumn::text("Queues", "How many queues it has."),
        TableColumn::text("HandSize", "How many queues a flow may use."),
        TableColumn::text("QueueLengthLimit", "How many requests may wait in a queue."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let limited = object.at("spec.limited");
        let queuing = limited.at("limitResponse.queuing");
        vec![
            name(object),
            json!(object.at("spec.type").str()),
            number_or_none(limited, "nominalConcurrencyShares"),
            number_or_none(queuing, "queues"),
            number_or_none(queuing, "handSize"),
            number_or_none(queuing, "queueLengthLimit"),
            age(object, now),
        ]
    },
);

fn number_or_none(part: JsonView<'_>, field: &str) -> Value {
    if part.exists() {
        json!(part.key(field).int())
    } else {
        json!("<none>")
    }
}
