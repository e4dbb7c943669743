//! Records events about objects, as client-go's `EventRecorder` does; entry point [`EventRecorder`].

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;

use crate::AbortOnDrop;

/// The namespace of events about cluster-scoped objects.
const CLUSTER_NAMESPACE: &str = "default";

/// How much of the object's name fits into the name of the event.
const NAME_BYTES_MAX: usize = 253 - "..0123456789abcdef".len();

/// Capacity of the queue of events to be posted.
const QUEUE_MAX: usize = 1000;

/// Posts the events of one component in order, in the background. Events that are still queued when the last clone is
/// dropped are discarded: a process that is no longer the leader must not write.
#[derive(Debug, Clone)]
pub struct EventRecorder {
    component: &'static str,
    queue: mpsc::Sender<Box<Event>>,
    _task: Arc<AbortOnDrop<()>>,
}

impl EventRecorder {
    pub fn new(client: Client, component: &'static str) -> EventRecorder {
        let (queue, queued) = mpsc::channel(QUEUE_MAX);
        EventRecorder {
            component,
            queue,
            _task: Arc::new(AbortOnDrop(tokio::spawn(post_events(client, queued)))),
        }
    }

    pub fn normal<K>(&self, about: &K, reason: &str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.try_record(about.object_ref(&()), "Normal", reason, message);
    }

    pub fn warning<K>(&self, about: &K, reason: &str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.try_record(about.object_ref(&()), "Warning", reason, message);
    }

    /// Never blocks: the event is dropped if the queue is full.
    pub fn try_record(&self, about: ObjectReference, type_: &str, reason: &str, message: String) {
        let event = new_event(self.component, about, type_, reason, message);
        if let Err(error) = self.queue.try_send(Box::new(event)) {
            tracing::debug!(%error, reason, "failed to queue an event; dropping it");
        }
    }

    /// Waits while the queue is full.
    pub async fn record(&self, about: ObjectReference, type_: &str, reason: &str, message: String) {
        let event = new_event(self.component, about, type_, reason, message);
        if let Err(error) = self.queue.send(Box::new(event)).await {
            tracing::debug!(%error, reason, "failed to queue an event; dropping it");
        }
    }
}

/// Builds an event about an object, reported by a component at the current time.
pub fn new_event(
    component: &str,
    about: ObjectReference,
    type_: &str,
    reason: &str,
    message: String,
) -> Event {
    let now = Timestamp::now();
    let namespace = about.namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(
                about.name.as_deref().unwrap_or_default(),
                now.as_nanosecond(),
            )),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: about,
        type_: Some(type_.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: None,
        }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    }
}

/// Posts queued events. Failures are logged only: events are best effort.
async fn post_events(client: Client, mut waiting: mpsc::Receiver<Box<Event>>) {
    while let Some(event) = waiting.recv().await {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(client.clone(), namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason = event.reason, "failed to post an event; dropping it");
        }
    }
}

/// The name of an event, as upstream builds it: the object's name and a unique number in hexadecimal.
pub fn event_name(about: &str, number: i128) -> String {
    let end = about.floor_char_boundary(NAME_BYTES_MAX);
    let start = about[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{start}.{number:x}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::testing::{ok_response, recording_fake_client};

    fn about(name: &str) -> ObjectReference {
        ObjectReference {
            namespace: Some("ns".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_beyond_the_queue_capacity_are_dropped() {
        let (client, requests) = recording_fake_client(|_, _, _| {
            ok_response(json!({"involvedObject": {}, "metadata": {}}))
        });
        let recorder = EventRecorder::new(client, "c");
        for _ in 0..QUEUE_MAX + 10 {
            recorder.try_record(about("a"), "Normal", "R", String::new());
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(requests.lock().unwrap().len(), QUEUE_MAX);
        recorder.try_record(about("a"), "Normal", "R", String::new());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(requests.lock().unwrap().len(), QUEUE_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn queued_events_are_discarded_when_the_recorder_is_dropped() {
        let (client, requests) = recording_fake_client(|_, _, _| None);
        let recorder = EventRecorder::new(client, "c");
        for _ in 0..3 {
            recorder.try_record(about("a"), "Normal", "R", String::new());
        }
        sleep(Duration::from_secs(1)).await;
        let clone = recorder.clone();
        drop(recorder);
        assert!(!clone.queue.is_closed());
        let waiting = clone.queue.clone();
        drop(clone);
        sleep(Duration::from_secs(1)).await;
        assert!(waiting.is_closed());
        assert_eq!(
            *requests.lock().unwrap(),
            ["POST /api/v1/namespaces/ns/events"]
        );
    }

    #[test]
    fn event_names_are_never_too_long() {
        let number = Timestamp::MAX.as_nanosecond();
        let check = |about: &str, start: &str| {
            let name = event_name(about, number);
            assert!(name.starts_with(&format!("{start}.")), "{name}");
            assert!(name.len() <= 253, "{name}");
        };
        check("a.b", "a.b");
        check(&"a".repeat(253), &"a".repeat(NAME_BYTES_MAX));
        check(
            &format!("{}-{}", "a".repeat(NAME_BYTES_MAX - 1), "b".repeat(17)),
            &"a".repeat(NAME_BYTES_MAX - 1),
        );
    }
}
