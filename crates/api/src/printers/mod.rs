//! The columns and cells of every built-in kind, by group.
//!
//! A server shows all columns; which of them a person sees is kubectl's choice.

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
mod human;
mod network_policy;
mod networking;
mod node;
mod part;
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

use self::part::Part;
use crate::table::{Column, Printer};

/// The printer of a kind; `None` for kinds that are shown by the generic one.
pub fn of(group: &str, kind: &str) -> Option<Printer> {
    match group {
        "" => core::of(kind),
        "admissionregistration.k8s.io" => admissionregistration::of(kind),
        "apiregistration.k8s.io" => apiregistration::of(kind),
        "apps" => apps::of(kind),
        "autoscaling" => autoscaling::of(kind),
        "batch" => batch::of(kind),
        "certificates.k8s.io" => certificates::of(kind),
        "coordination.k8s.io" => coordination::of(kind),
        "discovery.k8s.io" => discovery::of(kind),
        "events.k8s.io" => events::of(kind),
        "flowcontrol.apiserver.k8s.io" => flowcontrol::of(kind),
        "networking.k8s.io" => networking::of(kind),
        "networking.rhumb.dev" => rhumb_networking::of(kind),
        "node.k8s.io" => node::of(kind),
        "policy" => policy::of(kind),
        "rbac.authorization.k8s.io" => rbac::of(kind),
        "resource.k8s.io" => resource::of(kind),
        "scheduling.k8s.io" => scheduling::of(kind),
        "storage.k8s.io" => storage::of(kind),
        _ => None,
    }
}

/// The printer of kinds that have none of their own.
pub const GENERIC: Printer = Printer::new(
    &[NAME, Column::new("Created At", "date", "When it was made.")],
    |object, _| {
        let metadata = Part::Root(object).key("metadata");
        let created = metadata.key("creationTimestamp").str_or(NEVER);
        vec![json!(metadata.key("name").str()), json!(created)]
    },
);

/// How the zero of time is written.
const NEVER: &str = "0001-01-01T00:00:00Z";

const NAME: Column =
    Column::text("Name", "The name, unique among its kind in a namespace.").names();
const AGE: Column = Column::text("Age", "How long ago it was made.");
const CONTAINERS: Column = Column::text("Containers", "The names of the template's containers.");
const IMAGES: Column = Column::text("Images", "The images of the template's containers.");
const SELECTOR: Column = Column::text("Selector", "Which pods belong to it.").wide();

/// What is shown for most kinds that have nothing else to tell.
const NAME_AND_AGE: Printer = Printer::new(&[NAME, AGE], |object, now| {
    let object = Part::Root(object);
    vec![name(object), age(object, now)]
});

fn name(object: Part<'_>) -> Value {
    json!(object.at("metadata.name").str())
}

fn age(object: Part<'_>, now: Timestamp) -> Value {
    since(object.at("metadata.creationTimestamp"), now).into()
}

fn since(time: Part<'_>, now: Timestamp) -> String {
    human::since(time.str(), now)
}

fn is_being_deleted(object: Part<'_>) -> bool {
    object.at("metadata.deletionTimestamp").exists()
}

/// The names and the images of a pod template's containers.
fn containers(pod_spec: Part<'_>) -> (Value, Value) {
    let containers = pod_spec.key("containers");
    (
        containers.join(Some("name"), ",").into(),
        containers.join(Some("image"), ",").into(),
    )
}

/// A map of labels, as `a=b,c=d`.
fn labels(map: Part<'_>) -> String {
    let text = map
        .object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(",");
    if text.is_empty() { none() } else { text }
}

/// A label selector in its one-line form; `None` if it makes no sense.
fn selector(selector: Part<'_>) -> Option<String> {
    let selector: Option<LabelSelector> = match selector.object() {
        None => None,
        Some(object) => Some(serde_json::from_value(Value::Object(object.clone())).ok()?),
    };
    let selector: Selector = LabelSelector::to_selector(selector.as_ref()).ok()?;
    Some(selector.to_string())
}

fn selector_or_none(part: Part<'_>) -> String {
    match selector(part) {
        None => "<error>".to_string(),
        Some(text) if text.is_empty() => none(),
        Some(text) => text,
    }
}

/// At most `max` of some texts, and how many more there are.
fn first_few<T: AsRef<str>>(max: usize, all: &[T]) -> String {
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
