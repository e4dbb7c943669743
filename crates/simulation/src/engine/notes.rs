//! What people are told about a pod whose annotations cannot be meant.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use rhumb_client::events::{event, event_name};

use crate::pods::facts::Facts;
use crate::requests::Server;

const COMPONENT: &str = "rhumb-simulation";
const REASON: &str = "InvalidSimulation";

#[derive(Debug)]
pub(super) struct Note {
    about: ObjectReference,
    message: String,
}

impl Note {
    pub(super) fn new(pod: &Facts, problem: &str) -> Note {
        Note {
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

    /// Its name follows from what it says, so that a process that is started again does not say it again.
    fn event(&self) -> Event {
        let mut hasher = DefaultHasher::new();
        (&self.about.uid, &self.message).hash(&mut hasher);
        let about = self.about.name.as_deref().unwrap_or_default();
        let name = event_name(about, hasher.finish().into());
        let (about, message) = (self.about.clone(), self.message.clone());
        let mut event = event(COMPONENT, about, "Warning", REASON, message);
        event.metadata.name = Some(name);
        event
    }

    /// An event that cannot be told is no reason to do anything else.
    pub(super) async fn tell(&self, server: &Server) {
        match server.create_event(&self.event()).await {
            Err(error) if !error.is_conflict() => {
                tracing::debug!(%error, "an event is not told");
            }
            _ => {}
        }
    }
}
