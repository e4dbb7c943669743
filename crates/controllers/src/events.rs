//! What controllers tell people, as events beside the objects they are about.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};

/// Where events about objects of the cluster are.
const CLUSTER_NAMESPACE: &str = "default";

/// How much of an object's name fits into that of an event.
const NAME_BYTES_MAX: usize = 253 - "..0123456789abcdef".len();

/// Tells events as one component.
#[derive(Clone)]
pub(crate) struct Recorder {
    client: Client,
    component: &'static str,
}

impl Recorder {
    pub(crate) fn new(client: Client, component: &'static str) -> Recorder {
        Recorder { client, component }
    }

    pub(crate) async fn normal<K>(&self, about: &K, reason: &str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.tell(about.object_ref(&()), "Normal", reason, message)
            .await;
    }

    pub(crate) async fn warning<K>(&self, about: &K, reason: &str, message: String)
    where
        K: Resource<DynamicType = ()>,
    {
        self.tell(about.object_ref(&()), "Warning", reason, message)
            .await;
    }

    /// An event that cannot be told is no reason to stop the work that it is about.
    pub(crate) async fn tell(
        &self,
        about: ObjectReference,
        type_: &str,
        reason: &str,
        message: String,
    ) {
        let now = Timestamp::now();
        let namespace = about.namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(event_name(about.name.as_deref().unwrap_or_default(), now)),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: about.clone(),
            type_: Some(type_.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: None,
            }),
            reporting_component: Some(self.component.to_owned()),
            ..Event::default()
        };
        if let Err(error) = events.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason, "an event is not told");
        }
    }
}

/// As upstream names them: the object, and a number that no other event about it has.
fn event_name(about: &str, now: Timestamp) -> String {
    let end = about.floor_char_boundary(NAME_BYTES_MAX);
    let start = about[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{start}.{:x}", now.as_nanosecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_events_are_never_too_long() {
        let now = Timestamp::MAX;
        let check = |about: &str, start: &str| {
            let name = event_name(about, now);
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
