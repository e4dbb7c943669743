//! Table printers of the built-in kinds, one module per API group (upstream: `pkg/printers/internalversion`).
//!
//! The server returns all columns; kubectl chooses which to show. Entry point: [`for_kind`].

mod admissionregistration;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod human_duration;
mod json_view;
mod network_policy_state;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod rhumb_networking;
mod scheduling;
mod storage;

#[cfg(test)]
mod tests;

use rhumb_meta::Timestamp;
use rhumb_meta::labels::{LabelSelector, Selector};
use serde_json::{Value, json};

use self::json_view::JsonView;
use crate::table::{TableColumn, TablePrinter};

/// The printer of a built-in kind; `None` for kinds that use [`GENERIC`].
pub fn for_kind(group: &str, kind: &str) -> Option<TablePrinter> {
    match group {
        "" => core::for_kind(kind),
        "admissionregistration.k8s.io" => admissionregistration::for_kind(kind),
        "apiregistration.k8s.io" => apiregistration::for_kind(kind),
        "apps" => apps::for_kind(kind),
        "autoscaling" => autoscaling::for_kind(kind),
        "batch" => batch::for_kind(kind),
        "certificates.k8s.io" => certificates::for_kind(kind),
        "coordination.k8s.io" => coordination::for_kind(kind),
        "discovery.k8s.io" => discovery::for_kind(kind),
        "events.k8s.io" => events::for_kind(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::for_kind(kind),
        "networking.k8s.io" => networking::for_kind(kind),
        "networking.rhumb.dev" => rhumb_networking::for_kind(kind),
        "node.k8s.io" => node::for_kind(kind),
        "policy" => policy::for_kind(kind),
        "rbac.authorization.k8s.io" => rbac::for_kind(kind),
        "resource.k8s.io" => resource::for_kind(kind),
        "scheduling.k8s.io" => scheduling::for_kind(kind),
        "storage.k8s.io" => storage::for_kind(kind),
        _ => None,
    }
}

/// The printer of kinds without one of their own.
pub const GENERIC: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::new("Created At", "date", "Creation time."),
    ],
    |object, _| {
        let metadata = JsonView::Root(object).key("metadata");
        let created = metadata.key("creationTimestamp").str_or(ZERO_TIME);
        vec![json!(metadata.key("name").str()), json!(created)]
    },
);

/// Go's zero time.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

const NAME: TableColumn =
    TableColumn::text("Name", "The name, unique for the kind within a namespace.").name_format();
const AGE: TableColumn = TableColumn::text("Age", "Time since creation.");
const CONTAINERS: TableColumn =
    TableColumn::text("Containers", "The names of the template's containers.");
const IMAGES: TableColumn = TableColumn::text("Images", "The images of the template's containers.");
const SELECTOR: TableColumn =
    TableColumn::text("Selector", "The label selector of its pods.").wide();

/// The printer of kinds without further columns.
const NAME_AND_AGE: TablePrinter = TablePrinter::new(&[NAME, AGE], |object, now| {
    let object = JsonView::Root(object);
    vec![name(object), age(object, now)]
});

fn name(object: JsonView<'_>) -> Value {
    json!(object.at("metadata.name").str())
}

fn age(object: JsonView<'_>, now: Timestamp) -> Value {
    since(object.at("metadata.creationTimestamp"), now).into()
}

fn since(time: JsonView<'_>, now: Timestamp) -> String {
    human_duration::since(time.str(), now)
}

fn is_being_deleted(object: JsonView<'_>) -> bool {
    object.at("metadata.deletionTimestamp").exists()
}

/// The names and the images of a pod template's containers.
fn containers(pod_spec: JsonView<'_>) -> (Value, Value) {
    let containers = pod_spec.key("containers");
    (
        containers.join(Some("name"), ",").into(),
        containers.join(Some("image"), ",").into(),
    )
}

/// A map of labels, as `a=b,c=d`.
fn labels(map: JsonView<'_>) -> String {
    let text = map
        .object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(",");
    if text.is_empty() { none() } else { text }
}

/// A label selector as a string; `None` if invalid.
fn selector(selector: JsonView<'_>) -> Option<String> {
    let selector: Option<LabelSelector> = match selector.object() {
        None => None,
        Some(object) => Some(serde_json::from_value(Value::Object(object.clone())).ok()?),
    };
    let selector: Selector = LabelSelector::to_selector(selector.as_ref()).ok()?;
    Some(selector.to_string())
}

fn selector_or_none(part: JsonView<'_>) -> String {
    match selector(part) {
        None => "<error>".to_string(),
        Some(text) if text.is_empty() => none(),
        Some(text) => text,
    }
}

/// The first `max` strings, and the number of remaining ones.
fn first_and_count<T: AsRef<str>>(max: usize, all: &[T]) -> String {
    let shown = all[..all.len().min(max)]
        .iter()
        .map(AsRef::as_ref)
        .collect::<Vec<_>>()
        .join(",");
    match all.len().saturating_sub(max) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn none() -> String {
    "<none>".to_string()
}
