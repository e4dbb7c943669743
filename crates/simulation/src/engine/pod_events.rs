//! `InvalidSimulation` events for pods with invalid simulation annotations.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use rhumb_client::events::{event_name, new_event};

use crate::api_client::ApiClient;
use crate::pods::observed_pod::ObservedPod;

const COMPONENT: &str = "rhumb-simulation";
const REASON: &str = "InvalidSimulation";

#[derive(Debug)]
pub(super) struct InvalidAnnotationEvent {
    about: ObjectReference,
    message: String,
}

impl InvalidAnnotationEvent {
    pub(super) fn new(pod: &ObservedPod, problem: &str) -> InvalidAnnotationEvent {
        InvalidAnnotationEvent {
            about: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(pod.namespace.clone()),
                name: Some(pod.name.clone()),
                uid: Some(pod.uid.clone()),
                ..ObjectReference::default()
            },
            message: format!("{problem}; the default is used"),
        }
    }

    /// The event's name is derived from its content, so that a restarted process does not record it again.
    fn event(&self) -> Event {
        let mut hasher = DefaultHasher::new();
        (&self.about.uid, &self.message).hash(&mut hasher);
        let about = self.about.name.as_deref().unwrap_or_default();
        let name = event_name(about, hasher.finish().into());
        let (about, message) = (self.about.clone(), self.message.clone());
        let mut event = new_event(COMPONENT, about, "Warning", REASON, message);
        event.metadata.name = Some(name);
        event
    }

    /// Creates the event; failures are only logged.
    pub(super) async fn create(&self, server: &ApiClient) {
        match server.create_event(&self.event()).await {
            Err(error) if !error.is_conflict() => {
                tracing::debug!(%error, "failed to create event; dropping it");
            }
            _ => {}
        }
    }
}
