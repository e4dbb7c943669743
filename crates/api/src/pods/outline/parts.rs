//! The parts of a pod's outline.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::partial::{ResourceList, Text, or_default};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub(super) deletion_timestamp: Text<'a>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) init_containers: Vec<Container<'a>>,
    /// That of the pod as a whole. Its mere presence says how the class of the pod is found.
    #[serde(borrow)]
    pub(super) resources: Option<Requirements<'a>>,
    #[serde(borrow)]
    pub(super) overhead: ResourceList<'a>,
    pub(super) active_deadline_seconds: Option<i64>,
    #[serde(borrow)]
    pub(super) priority_class_name: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) affinity: Affinity,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    restart_policy: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub resources: Requirements<'a>,
}

impl Container<'_> {
    /// Whether it is an init container that keeps running beside the others.
    pub fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// What is asked for, and what is the most.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Requirements<'a> {
    #[serde(borrow)]
    pub requests: ResourceList<'a>,
    #[serde(borrow)]
    pub limits: ResourceList<'a>,
}

impl Requirements<'_> {
    pub(super) fn has_compute(&self) -> bool {
        let mut amounts = self.requests.iter().chain(self.limits.iter());
        amounts.any(|(name, amount)| matches!(&**name, "cpu" | "memory") && amount.sign() > 0)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) phase: Text<'a>,
    #[serde(borrow)]
    pub(super) qos_class: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) conditions: Vec<Condition<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) init_container_statuses: Vec<ContainerStatus<'a>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    /// What it runs with, which a resize changes some time after the spec.
    #[serde(borrow)]
    pub resources: Option<Requirements<'a>>,
    /// What its node has set aside for it.
    #[serde(borrow)]
    pub allocated_resources: ResourceList<'a>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_affinity: Terms,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_anti_affinity: Terms,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Terms {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub(super) required: Vec<Term>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    pub(super) preferred: Vec<WeightedTerm>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct WeightedTerm {
    #[serde(rename = "podAffinityTerm", deserialize_with = "or_default")]
    pub(super) term: Term,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Term {
    #[serde(deserialize_with = "or_default")]
    namespaces: Vec<IgnoredAny>,
    namespace_selector: Option<IgnoredAny>,
}

impl Term {
    /// An empty selector selects all namespaces, so that it is enough for one to be there.
    pub(super) fn names_namespaces(&self) -> bool {
        !self.namespaces.is_empty() || self.namespace_selector.is_some()
    }
}
