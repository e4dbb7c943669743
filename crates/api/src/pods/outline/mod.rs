//! The few fields of a pod that say what it uses, and what follows from them.

mod demand;
mod parts;
#[cfg(test)]
mod tests;

use rhumb_meta::Timestamp;
use serde::Deserialize;

use crate::Object;

pub use demand::Basis;
pub use parts::{Container, ContainerStatus, Requirements};
use parts::{Metadata, Spec, Status, Term};

/// What is read of a pod. It borrows from the object, or from the JSON, that it was read from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Outline<'a> {
    #[serde(borrow, deserialize_with = "crate::partial::or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "crate::partial::or_default")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "crate::partial::or_default")]
    status: Status<'a>,
}

impl<'a> Outline<'a> {
    /// The outline of a pod. The schema has refused what is none; if something else comes here, it has nothing.
    pub fn of(pod: &'a Object) -> Self {
        Outline::deserialize(pod).unwrap_or_default()
    }

    /// The same from JSON, of which it skips what it does not need.
    pub fn from_json(pod: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(pod)
    }

    pub fn containers(&self) -> &[Container<'a>] {
        &self.spec.containers
    }

    pub fn init_containers(&self) -> &[Container<'a>] {
        &self.spec.init_containers
    }

    /// Whether the pod as a whole asks for something, or is limited.
    pub fn has_pod_level_resources(&self) -> bool {
        let resources = self.spec.resources.iter();
        resources
            .flat_map(|resources| resources.requests.iter().chain(resources.limits.iter()))
            .any(|(name, _)| super::resources::is_pod_level(name))
    }

    /// Whether it has come to its end.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.status.phase, "Failed" | "Succeeded")
    }

    /// Whether it has a deadline, which says nothing about whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.spec.active_deadline_seconds >= Some(0)
    }

    /// Empty if it has none.
    pub fn priority_class(&self) -> &str {
        &self.spec.priority_class_name
    }

    /// The moment after which a pod that is being deleted should be long gone: its grace, once more, after the time
    /// of its deletion.
    pub fn overdue_from(&self) -> Option<Timestamp> {
        let deleted: Timestamp = self.metadata.deletion_timestamp.parse().ok()?;
        let grace_seconds = self.metadata.deletion_grace_period_seconds?;
        let seconds = deleted.unix_seconds().saturating_add(grace_seconds);
        Some(Timestamp::from_unix(seconds, deleted.subsec_nanos()))
    }

    /// Whether it wants to be near, or not near, to pods that may be in other namespaces.
    pub fn has_cross_namespace_affinity(&self) -> bool {
        let affinity = &self.spec.affinity;
        [&affinity.pod_affinity, &affinity.pod_anti_affinity]
            .into_iter()
            .any(|terms| {
                terms.required.iter().any(Term::names_namespaces)
                    || terms.preferred.iter().any(|w| w.term.names_namespaces())
            })
    }

    /// Whether nothing is promised to it: as its status says, or else because it asks for no processor and no memory.
    pub fn is_best_effort(&self) -> bool {
        if !self.status.qos_class.is_empty() {
            return &*self.status.qos_class == super::qos::BEST_EFFORT;
        }
        match &self.spec.resources {
            Some(resources) => !resources.has_compute(),
            None => {
                let mut containers = self.containers().iter().chain(self.init_containers());
                !containers.any(|container| container.resources.has_compute())
            }
        }
    }
}
