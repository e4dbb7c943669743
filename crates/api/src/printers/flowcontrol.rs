//! Printers of the flowcontrol group.

use serde_json::{Value, json};

use super::part::Part;
use super::{AGE, NAME, age, name};
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    Some(match kind {
        "FlowSchema" => FLOW_SCHEMA,
        "PriorityLevelConfiguration" => PRIORITY_LEVEL,
        _ => return None,
    })
}

const FLOW_SCHEMA: Printer = Printer::new(
    &[
        NAME,
        Column::text("PriorityLevel", "The level its requests belong to."),
        Column::text("MatchingPrecedence", "Lower ones are asked first."),
        Column::text("DistinguisherMethod", "What tells its flows apart."),
        AGE,
        Column::text("MissingPL", "Whether its level is not there."),
    ],
    |object, now| {
        let object = Part::Root(object);
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

const PRIORITY_LEVEL: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", "Whether its requests are limited."),
        Column::text(
            "NominalConcurrencyShares",
            "Its share of what runs at once.",
        ),
        Column::text("Queues", "How many queues it has."),
        Column::text("HandSize", "How many queues a flow may use."),
        Column::text("QueueLengthLimit", "How many requests may wait in a queue."),
        AGE,
    ],
    |object, now| {
        let object = Part::Root(object);
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

fn number_or_none(part: Part<'_>, field: &str) -> Value {
    if part.exists() {
        json!(part.key(field).int())
    } else {
        json!("<none>")
    }
}
