//! Events, told when there is time: bindings come first.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use rhumb_client::AbortOnDrop;
use rhumb_client::events::event;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::in_flight::InFlight;
use super::requests::{JSON, Server};
use crate::metrics::Metrics;
use crate::model::Pod;

/// Tales that wait to be told. One is a few words and a pod that others have as well.
const WAITING_MAX: usize = 10_000;
/// Between two events while pods are being bound.
const PAUSE_WHILE_BINDING: Duration = Duration::from_millis(10);

/// Something that people may want to know.
#[derive(Debug)]
pub(super) enum Tale {
    Scheduled { pod: Arc<Pod>, node: Box<str> },
    Failed { pod: Arc<Pod>, message: String },
    Preempted { victim: Arc<Pod>, by: Arc<Pod> },
}

/// Holds nobody up: what finds no room is not told, and counted.
#[derive(Debug)]
pub(super) struct Teller {
    waiting: mpsc::Sender<Tale>,
    metrics: Arc<Metrics>,
    _task: AbortOnDrop<()>,
}

impl Teller {
    pub(super) fn start(server: Server, in_flight: Arc<InFlight>, metrics: Arc<Metrics>) -> Teller {
        let (waiting, tales) = mpsc::channel(WAITING_MAX);
        Teller {
            waiting,
            metrics,
            _task: AbortOnDrop(tokio::spawn(tell(server, in_flight, tales))),
        }
    }

    pub(super) fn tell(&self, tale: Tale) {
        if self.waiting.try_send(tale).is_err() {
            self.metrics.note_event_dropped();
        }
    }
}

async fn tell(server: Server, in_flight: Arc<InFlight>, mut tales: mpsc::Receiver<Tale>) {
    while let Some(tale) = tales.recv().await {
        if in_flight.bindings() > 0 {
            sleep(PAUSE_WHILE_BINDING).await;
        }
        let event = tale.event();
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let Ok(body) = serde_json::to_value(&event) else {
            continue;
        };
        if let Err(failure) = server.send(http::Method::POST, &path, JSON, &body).await {
            tracing::debug!(%failure, reason = event.reason, "an event is not told");
        }
    }
}

impl Tale {
    fn event(&self) -> Event {
        match self {
            Tale::Scheduled { pod, node } => event(
                &pod.scheduler_name,
                about(pod),
                "Normal",
                "Scheduled",
                format!("Successfully assigned {} to {node}", pod.key),
            ),
            Tale::Failed { pod, message } => event(
                &pod.scheduler_name,
                about(pod),
                "Warning",
                "FailedScheduling",
                message.clone(),
            ),
            Tale::Preempted { victim, by } => event(
                &by.scheduler_name,
                about(victim),
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

fn about(pod: &Pod) -> ObjectReference {
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
