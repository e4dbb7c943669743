//! The printer of events, for the core and `events.k8s.io` groups.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use super::json_view::JsonView;
use super::{NAME, name, since};
use crate::JsonObject;
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    (kind == "Event").then_some(EVENT)
}

pub(super) const EVENT: TablePrinter = TablePrinter::new(
    &[
        TableColumn::text("Last Seen", "When it was seen last."),
        TableColumn::text("Type", "Whether it is normal or a warning."),
        TableColumn::text("Reason", "The reason, in one word."),
        TableColumn::text("Object", "The object the event is about."),
        TableColumn::text("Subobject", "The part of the object the event is about.").wide(),
        TableColumn::text("Source", "The reporting component.").wide(),
        TableColumn::text("Message", "What happened."),
        TableColumn::text("First Seen", "When it was seen first.").wide(),
        TableColumn::text("Count", "How often it was seen.").wide(),
        NAME.wide(),
    ],
    cells,
);

fn cells(object: &JsonObject, now: Timestamp) -> Vec<Value> {
    let event = JsonView::Root(object);
    let series = event.key("series");
    let first_seen = since(
        first_present(event.key("firstTimestamp"), event.key("eventTime")),
        now,
    );
    let last_seen = if series.exists() {
        since(series.key("lastObservedTime"), now)
    } else if event.key("lastTimestamp").exists() {
        since(event.key("lastTimestamp"), now)
    } else {
        first_seen.clone()
    };
    // Single events of `events.k8s.io` have no count.
    let count = if series.exists() {
        series.key("count").int()
    } else {
        event.key("count").int().max(1)
    };
    vec![
        last_seen.into(),
        json!(event.key("type").str()),
        json!(event.key("reason").str()),
        target(event.key("involvedObject")).into(),
        json!(event.at("involvedObject.fieldPath").str()),
        source(event).into(),
        json!(event.key("message").str().trim()),
        first_seen.into(),
        json!(count),
        name(event),
    ]
}

fn first_present<'a>(first: JsonView<'a>, second: JsonView<'a>) -> JsonView<'a> {
    if first.exists() { first } else { second }
}

fn target(object: JsonView<'_>) -> String {
    let kind = object.key("kind").str().to_lowercase();
    match object.key("name").str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: JsonView<'_>) -> String {
    let component = event
        .at("source.component")
        .str_or(event.key("reportingComponent").str());
    match event
        .at("source.host")
        .str_or(event.key("reportingInstance").str())
    {
        "" => component.to_string(),
        instance => format!("{component}, {instance}"),
    }
}
