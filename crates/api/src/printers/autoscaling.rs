//! Printers of the autoscaling group.

use serde_json::json;

use super::json_view::JsonView;
use super::{AGE, NAME, age, name, none};
use crate::table::{TableColumn, TablePrinter};

pub(super) fn for_kind(kind: &str) -> Option<TablePrinter> {
    Some(match kind {
        "HorizontalPodAutoscaler" => HORIZONTAL_POD_AUTOSCALER,
        "Scale" => SCALE,
        _ => return None,
    })
}

const HORIZONTAL_POD_AUTOSCALER: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Reference", "The scaled object."),
        TableColumn::text("Targets", "Current / target metric values."),
        TableColumn::text("MinPods", "Minimum number of pods."),
        TableColumn::text("MaxPods", "Maximum number of pods."),
        TableColumn::text("Replicas", "How many pods there are."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        let spec = object.key("spec");
        let target = spec.key("scaleTargetRef");
        let min = spec.key("minReplicas").opt_int();
        vec![
            name(object),
            format!("{}/{}", target.key("kind").str(), target.key("name").str()).into(),
            metrics(spec.key("metrics"), object.at("status.currentMetrics")).into(),
            min.map_or_else(|| "<unset>".to_string(), |min| min.to_string())
                .into(),
            json!(spec.key("maxReplicas").int()),
            json!(object.at("status.currentReplicas").int()),
            age(object, now),
        ]
    },
);

const SCALE: TablePrinter = TablePrinter::new(
    &[
        TableColumn::text("Name", "The name of the scaled object."),
        TableColumn::integer("Desired", "How many pods there should be."),
        TableColumn::integer("Available", "How many pods there are."),
        AGE,
    ],
    |object, now| {
        let object = JsonView::Root(object);
        vec![
            name(object),
            json!(object.at("spec.replicas").int()),
            json!(object.at("status.replicas").int()),
            age(object, now),
        ]
    },
);

/// The first two metrics, as current / target.
fn metrics(specs: JsonView<'_>, statuses: JsonView<'_>) -> String {
    const SHOWN_MAX: usize = 2;
    if specs.item_count() == 0 {
        return none();
    }
    let texts: Vec<String> = specs
        .items()
        .enumerate()
        .take(SHOWN_MAX)
        .map(|(index, spec)| {
            metric(
                spec,
                statuses.items().nth(index).unwrap_or(JsonView::Absent),
            )
        })
        .collect();
    let shown = texts.join(", ");
    match specs.item_count().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn metric(spec: JsonView<'_>, status: JsonView<'_>) -> String {
    match spec.key("type").str() {
        "External" => of_object(spec.key("external"), status.key("external")),
        "Object" => of_object(spec.key("object"), status.key("object")),
        "Pods" => {
            let target = quantity(spec.at("pods.target.averageValue"));
            format!("{}/{target}", current(status.key("pods"), "averageValue"))
        }
        "Resource" => of_resource(spec.key("resource"), status.key("resource")),
        "ContainerResource" => of_resource(
            spec.key("containerResource"),
            status.key("containerResource"),
        ),
        _ => "<unknown type>".to_string(),
    }
}

fn of_object(spec: JsonView<'_>, status: JsonView<'_>) -> String {
    let average = spec.at("target.averageValue");
    if average.exists() {
        let current = status.at("current.averageValue").opt_scalar();
        let current = current.unwrap_or_else(unknown);
        return format!("{current}/{} (avg)", quantity(average));
    }
    let target = quantity(spec.at("target.value"));
    format!("{}/{target}", current(status, "value"))
}

fn of_resource(spec: JsonView<'_>, status: JsonView<'_>) -> String {
    let resource = spec.key("name").str();
    let average = spec.at("target.averageValue");
    if average.exists() {
        let current = current(status, "averageValue");
        return format!("{resource}: {current}/{}", quantity(average));
    }
    let percent = |part: JsonView<'_>| part.opt_int().map(|percent| format!("{percent}%"));
    let current = percent(status.at("current.averageUtilization")).unwrap_or_else(unknown);
    let target =
        percent(spec.at("target.averageUtilization")).unwrap_or_else(|| "<auto>".to_string());
    format!("{resource}: {current}/{target}")
}

fn current(status: JsonView<'_>, field: &str) -> String {
    if status.exists() {
        quantity(status.key("current").key(field))
    } else {
        unknown()
    }
}

/// A quantity that is a pointer in Go; absent prints as nil.
fn quantity(part: JsonView<'_>) -> String {
    part.opt_scalar().unwrap_or_else(|| "<nil>".to_string())
}

fn unknown() -> String {
    "<unknown>".to_string()
}
