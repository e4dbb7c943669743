//! What people are told, as events beside the objects they are about.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;

use crate::AbortOnDrop;

/// Where events about objects of the cluster are.
const CLUSTER_NAMESPACE: &str = "default";

/// How much of an object's name fits into that of an event.
const NAME_BYTES_MAX: usize = 253 - "..0123456789abcdef".len();

/// Events that wait to be told.
const WAITING_MAX: usize = 1000;

/// Tells events as one component, one after the other. Those that still wait when the last clone is dropped are not
/// told: whoever no longer leads says nothing.
#[derive(Debug, Clone)]
pub struct Recorder {
    component: &'static str,
    waiting: mpsc::Sender<Box<Event>>,
    _task: Arc<AbortOnDrop<()>>,
}

impl Recorder {
    pub fn new(client: Client, component: &'static str) -> Recorder {
        let (waiting, told) = mpsc::channel(WAITING_MAX);
        Recorder {
            component,
            waiting,
            _task: Arc::new(AbortOnDrop(tokio::spawn(post(client, told)))),
        }
    }

    pub fn normal<K>(&self, about: &K, reason: &str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.note(about.object_ref(&()), "Normal", reason, message);
    }

    pub fn warning<K>(&self, about: &K, reason: &str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.note(about.object_ref(&()), "Warning", reason, message);
    }

    /// Holds nobody up: when too many wait, it is not told.
    pub fn note(&self, about: ObjectReference, type_: &str, reason: &str, message: String) {
        let event = event(self.component, about, type_, reason, message);
        if let Err(error) = self.waiting.try_send(Box::new(event)) {
            tracing::debug!(%error, reason, "an event is not told");
        }
    }

    /// The same for those who would rather wait until fewer do.
    pub async fn tell(&self, about: ObjectReference, type_: &str, reason: &str, message: String) {
        let event = event(self.component, about, type_, reason, message);
        if let Err(error) = self.waiting.send(Box::new(event)).await {
            tracing::debug!(%error, reason, "an event is not told");
        }
    }
}

/// An event about an object, told by a component now.
pub fn event(
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

/// An event that cannot be told is no reason to stop the work that it is about.
async fn post(client: Client, mut waiting: mpsc::Receiver<Box<Event>>) {
    while let Some(event) = waiting.recv().await {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(client.clone(), namespace);
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason = event.reason, "an event is not told");
        }
    }
}

/// As upstream names them: the object, and a number that no other event about it has.
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
    use crate::testing::{ok, server};

    fn about(name: &str) -> ObjectReference {
        ObjectReference {
            namespace: Some("ns".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_events_some_are_not_told() {
        let (client, requests) =
            server(|_, _, _| ok(json!({"involvedObject": {}, "metadata": {}})));
        let recorder = Recorder::new(client, "c");
        for _ in 0..WAITING_MAX + 10 {
            recorder.note(about("a"), "Normal", "R", String::new());
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(requests.lock().unwrap().len(), WAITING_MAX);
        recorder.note(about("a"), "Normal", "R", String::new());
        sleep(Duration::from_secs(1)).await;
        assert_eq!(requests.lock().unwrap().len(), WAITING_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_told_when_nobody_leads_any_more() {
        let (client, requests) = server(|_, _, _| None);
        let recorder = Recorder::new(client, "c");
        for _ in 0..3 {
            recorder.note(about("a"), "Normal", "R", String::new());
        }
        sleep(Duration::from_secs(1)).await;
        let clone = recorder.clone();
        drop(recorder);
        assert!(!clone.waiting.is_closed());
        let waiting = clone.waiting.clone();
        drop(clone);
        sleep(Duration::from_secs(1)).await;
        assert!(waiting.is_closed());
        assert_eq!(
            *requests.lock().unwrap(),
            ["POST /api/v1/namespaces/ns/events"]
        );
    }

    #[test]
    fn names_of_events_are_never_too_long() {
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
