//! Events, in both of the groups they are served in.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use super::part::Part;
use super::{NAME, name, since};
use crate::Object;
use crate::table::{Column, Printer};

pub(super) fn of(kind: &str) -> Option<Printer> {
    (kind == "Event").then_some(EVENT)
}

pub(super) const EVENT: Printer = Printer::new(
    &[
        Column::text("Last Seen", "When it was seen last."),
        Column::text("Type", "Whether it is normal or a warning."),
        Column::text("Reason", "Why it happened, in a word."),
        Column::text("Object", "What it happened to."),
        Column::text("Subobject", "The part of the object it happened to.").wide(),
        Column::text("Source", "Who reported it.").wide(),
        Column::text("Message", "What happened."),
        Column::text("First Seen", "When it was seen first.").wide(),
        Column::text("Count", "How often it was seen.").wide(),
        NAME.wide(),
    ],
    cells,
);

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let event = Part::Root(object);
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
    // Events that happened once have no count in the newer of the two groups.
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

fn first_present<'a>(first: Part<'a>, second: Part<'a>) -> Part<'a> {
    if first.exists() { first } else { second }
}

fn target(object: Part<'_>) -> String {
    let kind = object.key("kind").str().to_lowercase();
    match object.key("name").str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: Part<'_>) -> String {
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
