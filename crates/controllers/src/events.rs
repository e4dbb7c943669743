//! What controllers tell people, as events beside the objects they are about.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};

/// Where events about objects of the cluster are.
const CLUSTER_NAMESPACE: &str = "default";

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
        let name = about.name.as_deref().unwrap_or_default();
        let namespace = about.namespace.as_deref().unwrap_or(CLUSTER_NAMESPACE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
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
