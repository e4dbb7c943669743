//! Partially decoded pod: only the fields that determine its resources and quota scopes. Used by quota, limit ranges
//! and the scheduler. Entry point: `PartialPod`.

mod fields;
mod pod_resources;
#[cfg(test)]
mod tests;

use rhumb_meta::Timestamp;
use serde::Deserialize;

use crate::JsonObject;

pub use fields::{PartialContainer, PartialContainerStatus, PartialResourceRequirements};
use fields::{PartialPodAffinityTerm, PartialPodMetadata, PartialPodSpec, PartialPodStatus};
pub use pod_resources::PodResourcesOptions;

/// The decoded fields of a pod. Borrows from the object or JSON that it was decoded from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PartialPod<'a> {
    #[serde(borrow, deserialize_with = "crate::partial_decode::or_default")]
    metadata: PartialPodMetadata<'a>,
    #[serde(borrow, deserialize_with = "crate::partial_decode::or_default")]
    spec: PartialPodSpec<'a>,
    #[serde(borrow, deserialize_with = "crate::partial_decode::or_default")]
    status: PartialPodStatus<'a>,
}

impl<'a> PartialPod<'a> {
    /// Decodes a pod. Schema validation has already rejected malformed pods; if decoding fails, all fields are empty.
    pub fn from_object(pod: &'a JsonObject) -> Self {
        PartialPod::deserialize(pod).unwrap_or_default()
    }

    /// Decodes a pod from JSON, skipping all other fields.
    pub fn from_json(pod: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(pod)
    }

    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Name of the claim that was generated for its extended resources; empty if none.
    pub fn extended_resource_claim(&self) -> &str {
        &self
            .status
            .extended_resource_claim_status
            .resource_claim_name
    }

    pub fn containers(&self) -> &[PartialContainer<'a>] {
        &self.spec.containers
    }

    pub fn init_containers(&self) -> &[PartialContainer<'a>] {
        &self.spec.init_containers
    }

    /// Returns whether the pod has pod-level requests or limits.
    pub fn has_pod_level_resources(&self) -> bool {
        let resources = self.spec.resources.iter();
        resources
            .flat_map(|resources| resources.requests.iter().chain(resources.limits.iter()))
            .any(|(name, _)| super::resources::is_pod_level(name))
    }

    /// Returns whether the phase is Failed or Succeeded.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.status.phase, "Failed" | "Succeeded")
    }

    /// Whether it is in the quota scope `Terminating`: it has an active deadline. Unrelated to deletion.
    pub fn has_active_deadline(&self) -> bool {
        self.spec.active_deadline_seconds >= Some(0)
    }

    /// Name of the priority class; empty if none.
    pub fn priority_class(&self) -> &str {
        &self.spec.priority_class_name
    }

    /// Time after which a deleted pod is overdue and no longer counted: deletion timestamp plus one more grace period.
    pub fn termination_overdue_at(&self) -> Option<Timestamp> {
        let deleted: Timestamp = self.metadata.deletion_timestamp.parse().ok()?;
        let grace_seconds = self.metadata.deletion_grace_period_seconds?;
        let seconds = deleted.unix_seconds().saturating_add(grace_seconds);
        Some(Timestamp::from_unix(seconds, deleted.subsec_nanos()))
    }

    /// Returns whether any pod affinity or anti-affinity term selects other namespaces.
    pub fn has_cross_namespace_affinity(&self) -> bool {
        let affinity = &self.spec.affinity;
        [&affinity.pod_affinity, &affinity.pod_anti_affinity]
            .into_iter()
            .any(|terms| {
                terms
                    .required
                    .iter()
                    .any(PartialPodAffinityTerm::selects_other_namespaces)
                    || terms
                        .preferred
                        .iter()
                        .any(|w| w.term.selects_other_namespaces())
            })
    }

    /// Returns whether the QoS class is BestEffort: from the status, or else computed from the spec.
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
