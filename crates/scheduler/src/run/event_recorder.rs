//! Records Kubernetes events (`Scheduled`, `FailedScheduling`, `Preempted`) in the background, with lower priority than
//! bindings.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use rhumb_client::AbortOnDrop;
use rhumb_client::events::new_event;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::in_flight::InFlightWrites;
use super::leader_client::{JSON, LeaderClient};
use crate::metrics::Metrics;
use crate::model::Pod;

/// Limit on queued events. An entry is small: it shares its pods.
const QUEUED_EVENTS_MAX: usize = 10_000;
/// Delay between events while bindings are in flight.
const DELAY_WHILE_BINDING: Duration = Duration::from_millis(10);

/// An event about a pod.
#[derive(Debug)]
pub(super) enum RecordedEvent {
    Scheduled { pod: Arc<Pod>, node: Box<str> },
    Failed { pod: Arc<Pod>, message: String },
    Preempted { victim: Arc<Pod>, by: Arc<Pod> },
}

/// Queues events without blocking. When the queue is full, events are dropped and counted.
#[derive(Debug)]
pub(super) struct SchedulingEventRecorder {
    queue: mpsc::Sender<RecordedEvent>,
    metrics: Arc<Metrics>,
    _task: AbortOnDrop<()>,
}

impl SchedulingEventRecorder {
    pub(super) fn start(
        server: LeaderClient,
        in_flight: Arc<InFlightWrites>,
        metrics: Arc<Metrics>,
    ) -> SchedulingEventRecorder {
        let (queue, queued) = mpsc::channel(QUEUED_EVENTS_MAX);
        SchedulingEventRecorder {
            queue,
            metrics,
            _task: AbortOnDrop(tokio::spawn(post_events(server, in_flight, queued))),
        }
    }

    pub(super) fn record(&self, event: RecordedEvent) {
        if self.queue.try_send(event).is_err() {
            self.metrics.note_event_dropped();
        }
    }
}

async fn post_events(
    server: LeaderClient,
    in_flight: Arc<InFlightWrites>,
    mut queued: mpsc::Receiver<RecordedEvent>,
) {
    while let Some(recorded) = queued.recv().await {
        if in_flight.bindings() > 0 {
            sleep(DELAY_WHILE_BINDING).await;
        }
        let event = recorded.event();
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let Ok(body) = serde_json::to_value(&event) else {
            continue;
        };
        if let Err(failure) = server.send(http::Method::POST, &path, JSON, &body).await {
            tracing::debug!(error = %failure, reason = event.reason, "failed to post event; dropping it");
        }
    }
}

impl RecordedEvent {
    fn event(&self) -> Event {
        match self {
            RecordedEvent::Scheduled { pod, node } => new_event(
                &pod.scheduler_name,
                object_reference(pod),
                "Normal",
                "Scheduled",
                format!("Successfully assigned {} to {node}", pod.key),
            ),
            RecordedEvent::Failed { pod, message } => new_event(
                &pod.scheduler_name,
                object_reference(pod),
                "Warning",
                "FailedScheduling",
                message.clone(),
            ),
            RecordedEvent::Preempted { victim, by } => new_event(
                &by.scheduler_name,
                object_reference(victim),
                "Normal",
                "Preempted",
                format!(
                    "Preempted by pod {} on node {}",
                    by.uid,
                    victim.node_name.as_deref().unwrap_or_default()
                ),
            ),
        }
    }
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
