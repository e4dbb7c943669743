//! What people are told about a pod whose annotations cannot be meant.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::pods::facts::Facts;
use crate::pods::status::time;
use crate::requests::Server;

const COMPONENT: &str = "rhumb-simulation";
const REASON: &str = "InvalidSimulation";
/// How much of a pod's name fits into that of an event.
const NAME_BYTES_MAX: usize = 253 - ".0123456789abcdef".len();

#[derive(Debug)]
pub(super) struct Note {
    namespace: String,
    pod: String,
    uid: String,
    message: String,
}

impl Note {
    pub(super) fn new(pod: &Facts, problem: &str) -> Note {
        Note {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            message: format!("{problem}; the default is used"),
        }
    }

    /// Its name follows from what it says, so that a process that is started again does not say it again.
    fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.uid, &self.message).hash(&mut hasher);
        let end = self.pod.floor_char_boundary(NAME_BYTES_MAX);
        let start = self.pod[..end].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        format!("{start}.{:016x}", hasher.finish())
    }

    /// An event that cannot be told is no reason to do anything else.
    pub(super) async fn tell(&self, server: &Server) {
        let now = time(Timestamp::now());
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name(), "namespace": self.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": self.namespace,
                "name": self.pod,
                "uid": self.uid,
            },
            "type": "Warning",
            "reason": REASON,
            "message": self.message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        });
        match server.create_event(&self.namespace, &event).await {
            Err(error) if !error.is_conflict() => {
                tracing::debug!(%error, "an event is not told");
            }
            _ => {}
        }
    }
}
