//! The partially decoded structs of a pod.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::partial_decode::{BorrowedStr, ResourceList, or_default};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialPodMetadata<'a> {
    #[serde(borrow)]
    pub(super) uid: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: BorrowedStr<'a>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialPodSpec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) containers: Vec<PartialContainer<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) init_containers: Vec<PartialContainer<'a>>,
    /// Pod-level resources. If present, even empty, the QoS class is computed from them.
    #[serde(borrow)]
    pub(super) resources: Option<PartialResourceRequirements<'a>>,
    #[serde(borrow)]
    pub(super) overhead: ResourceList<'a>,
    pub(super) active_deadline_seconds: Option<i64>,
    #[serde(borrow)]
    pub(super) priority_class_name: BorrowedStr<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) affinity: PartialAffinity,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialContainer<'a> {
    #[serde(borrow)]
    pub name: BorrowedStr<'a>,
    #[serde(borrow)]
    restart_policy: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub resources: PartialResourceRequirements<'a>,
}

impl PartialContainer<'_> {
    /// Returns whether this init container is restartable (a sidecar).
    pub fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// Requests and limits.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PartialResourceRequirements<'a> {
    #[serde(borrow)]
    pub requests: ResourceList<'a>,
    #[serde(borrow)]
    pub limits: ResourceList<'a>,
}

impl PartialResourceRequirements<'_> {
    pub(super) fn has_compute(&self) -> bool {
        let mut amounts = self.requests.iter().chain(self.limits.iter());
        amounts.any(|(name, amount)| matches!(&**name, "cpu" | "memory") && amount.sign() > 0)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialPodStatus<'a> {
    #[serde(borrow)]
    pub(super) phase: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) qos_class: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) conditions: Vec<PartialPodCondition<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) container_statuses: Vec<PartialContainerStatus<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) init_container_statuses: Vec<PartialContainerStatus<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) extended_resource_claim_status: PartialExtendedResourceClaimStatus<'a>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialExtendedResourceClaimStatus<'a> {
    #[serde(borrow)]
    pub(super) resource_claim_name: BorrowedStr<'a>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartialPodCondition<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) reason: BorrowedStr<'a>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialContainerStatus<'a> {
    #[serde(borrow)]
    pub name: BorrowedStr<'a>,
    /// Actual resources, which follow the spec after a resize.
    #[serde(borrow)]
    pub resources: Option<PartialResourceRequirements<'a>>,
    /// Resources that the kubelet has allocated.
    #[serde(borrow)]
    pub allocated_resources: ResourceList<'a>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialAffinity {
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_affinity: PartialPodAffinity,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_anti_affinity: PartialPodAffinity,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartialPodAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub(super) required: Vec<PartialPodAffinityTerm>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub(super) preferred: Vec<PartialWeightedPodAffinityTerm>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartialWeightedPodAffinityTerm {
    #[serde(rename = "podAffinityTerm", deserialize_with = "or_default")]
    pub(super) term: PartialPodAffinityTerm,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PartialPodAffinityTerm {
    #[serde(deserialize_with = "or_default")]
    namespaces: Vec<IgnoredAny>,
    namespace_selector: Option<IgnoredAny>,
}

impl PartialPodAffinityTerm {
    /// An empty selector matches all namespaces, so its presence is enough.
    pub(super) fn selects_other_namespaces(&self) -> bool {
        !self.namespaces.is_empty() || self.namespace_selector.is_some()
    }
}
