//! The Kubernetes events of the scheduler, with upstream's reasons, actions and notes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use rhumb_client::events::event_name;

use crate::model::Pod;

/// Limits of events.k8s.io/v1.
const NOTE_BYTES_MAX: usize = 1024;
const REPORTING_INSTANCE_BYTES_MAX: usize = 128;
/// Ends a note that was truncated.
const TRUNCATED: &str = " ...";

/// An event about a pod.
#[derive(Debug)]
pub(super) enum RecordedEvent {
    Scheduled { pod: Arc<Pod>, node: Box<str> },
    Failed { pod: Arc<Pod>, message: String },
    Preempted { victim: Arc<Pod>, by: Arc<Pod> },
}

/// What differs between the events of the scheduler.
struct EventContent<'a> {
    reporting_controller: &'a str,
    regarding: &'a Pod,
    related: Option<&'a Pod>,
    event_type: &'static str,
    reason: &'static str,
    action: &'static str,
    note: String,
}

impl RecordedEvent {
    /// The event of the API, first observed at this time by the scheduler on this host.
    pub(super) fn to_event(&self, host_name: &str, observed: Timestamp) -> Event {
        match self {
            RecordedEvent::Scheduled { pod, node } => EventContent {
                reporting_controller: &pod.scheduler_name,
                regarding: pod,
                related: None,
                event_type: "Normal",
                reason: "Scheduled",
                action: "Binding",
                note: format!("Successfully assigned {} to {node}", pod.key),
            },
            RecordedEvent::Failed { pod, message } => EventContent {
                reporting_controller: &pod.scheduler_name,
                regarding: pod,
                related: None,
                event_type: "Warning",
                reason: "FailedScheduling",
                action: "Scheduling",
                note: truncated_note(message),
            },
            RecordedEvent::Preempted { victim, by } => EventContent {
                reporting_controller: &by.scheduler_name,
                regarding: victim,
                related: Some(by),
                event_type: "Normal",
                reason: "Preempted",
                action: "Preempting",
                note: format!(
                    "Preempted by pod {} on node {}",
                    by.uid,
                    victim.node_name.as_deref().unwrap_or_default()
                ),
            },
        }
        .to_event(host_name, observed)
    }
}

impl EventContent<'_> {
    fn to_event(&self, host_name: &str, observed: Timestamp) -> Event {
        let name = event_name(&self.regarding.key.name, observed.as_nanosecond());
        let mut instance = format!("{}-{host_name}", self.reporting_controller);
        instance.truncate(instance.floor_char_boundary(REPORTING_INSTANCE_BYTES_MAX));
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(self.regarding.key.namespace.to_string()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(observed)),
            reporting_controller: Some(self.reporting_controller.to_owned()),
            reporting_instance: Some(instance),
            action: Some(self.action.to_owned()),
            reason: Some(self.reason.to_owned()),
            regarding: Some(object_reference(self.regarding)),
            related: self.related.map(object_reference),
            note: Some(self.note.clone()),
            type_: Some(self.event_type.to_owned()),
            ..Event::default()
        }
    }
}

fn truncated_note(message: &str) -> String {
    if message.len() <= NOTE_BYTES_MAX {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(NOTE_BYTES_MAX - TRUNCATED.len());
    format!("{}{TRUNCATED}", &message[..end])
}

fn object_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.key.namespace.to_string()),
        name: Some(pod.key.name.to_string()),
        uid: Some(pod.uid.to_string()),
        resource_version: Some(pod.resource_version.to_string()),
        ..ObjectReference::default()
    }
}
