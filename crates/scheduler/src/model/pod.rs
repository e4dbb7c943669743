//! The fields of a pod that scheduling uses.

use std::fmt;
use std::sync::Arc;

use rhumb_meta::Timestamp;

use super::{
    Labels, NodeSelector, PodAffinity, PreferredNodeTerms, Resources, Toleration,
    TopologySpreadConstraint,
};

/// Namespace and name of a pod or PodDisruptionBudget.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    pub key: NamespacedName,
    pub uid: Box<str>,
    /// The precondition of the binding: it fails if the pod has changed since.
    pub resource_version: Box<str>,
    pub generation: i64,
    pub labels: Labels,
    pub created: Option<Timestamp>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    pub is_terminating: bool,
    /// Terminating because the scheduler preempted it.
    pub is_preempted: bool,
    /// Succeeded or failed: it no longer uses resources.
    pub is_terminal: bool,
    pub scheduler_name: Box<str>,
    pub node_name: Option<Box<str>>,
    /// The node it is nominated for until preempted pods have terminated.
    pub nominated_node_name: Option<Box<str>>,
    /// The condition `PodScheduled` if it is false.
    pub unscheduled_condition: Option<Box<UnscheduledCondition>>,
    pub scheduling_gates: Box<[Box<str>]>,
    pub priority: i32,
    pub preemption_policy: PreemptionPolicy,
    pub requests: Resources,
    /// CPU and memory for scoring, with defaults for containers without requests (upstream: `NonZeroRequested`).
    pub non_zero_milli_cpu: i64,
    pub non_zero_memory: i64,
    pub ports: Box<[HostPort]>,
    /// Normalised image names of all containers and image volumes, for `ImageLocality`.
    pub images: Box<[Box<str>]>,
    pub container_count: usize,
    pub node_selector: Arc<NodeSelector>,
    pub preferred_nodes: PreferredNodeTerms,
    pub tolerations: Arc<[Toleration]>,
    pub affinity: PodAffinity,
    pub anti_affinity: PodAffinity,
    pub spread_constraints: Box<[TopologySpreadConstraint]>,
    pub controller: Option<ControllerRef>,
    /// Names of the PersistentVolumeClaims it mounts.
    pub volume_claims: Box<[Box<str>]>,
    /// `spec.resourceClaims[].name`.
    pub device_claims: Box<[Box<str>]>,
}

impl Pod {
    /// Whether another version of this pod is the same for scheduling, so that the update requires no recount. The
    /// start time may differ; of an assigned pod also the nomination and the gates.
    pub fn is_equivalent_update(&self, other: &Pod, is_assigned: bool) -> bool {
        self.key == other.key
            && self.uid == other.uid
            && (is_assigned || self.has_equal_pending_fields(other))
            && self.has_equal_scheduling_fields(other)
    }

    /// Whether two pods are interchangeable for scheduling: if one is unschedulable, so is the other.
    pub fn is_equivalent(&self, other: &Pod) -> bool {
        self.key.namespace == other.key.namespace
            && self.node_name == other.node_name
            && self.has_equal_pending_fields(other)
            && self.has_equal_scheduling_fields(other)
    }

    /// Compares the fields that matter only while the pod is pending.
    fn has_equal_pending_fields(&self, other: &Pod) -> bool {
        self.is_preempted == other.is_preempted
            && self.nominated_node_name == other.nominated_node_name
            && self.scheduling_gates == other.scheduling_gates
    }

    /// Compares the fields that matter for every pod. Destructures exhaustively, so that a new field is not forgotten.
    fn has_equal_scheduling_fields(&self, other: &Pod) -> bool {
        let Pod {
            key: _,
            uid: _,
            resource_version: _,
            generation: _,
            labels,
            created: _,
            started: _,
            is_terminating,
            is_preempted: _,
            is_terminal,
            scheduler_name,
            node_name: _,
            nominated_node_name: _,
            unscheduled_condition: _,
            scheduling_gates: _,
            priority,
            preemption_policy,
            requests,
            non_zero_milli_cpu: assumed_milli_cpu,
            non_zero_memory: assumed_memory,
            ports,
            images,
            container_count: containers,
            node_selector: nodes,
            preferred_nodes,
            tolerations,
            affinity,
            anti_affinity,
            spread_constraints: spread,
            controller,
            volume_claims: claims,
            device_claims,
        } = self;
        *labels == other.labels
            && *is_terminating == other.is_terminating
            && *is_terminal == other.is_terminal
            && *scheduler_name == other.scheduler_name
            && *priority == other.priority
            && *preemption_policy == other.preemption_policy
            && *requests == other.requests
            && *assumed_milli_cpu == other.non_zero_milli_cpu
            && *assumed_memory == other.non_zero_memory
            && *ports == other.ports
            && *images == other.images
            && *containers == other.container_count
            && *nodes == other.node_selector
            && *preferred_nodes == other.preferred_nodes
            && *tolerations == other.tolerations
            && *affinity == other.affinity
            && *anti_affinity == other.anti_affinity
            && *spread == other.spread_constraints
            && *controller == other.controller
            && *claims == other.volume_claims
            && *device_claims == other.device_claims
    }

    /// Removes namespace selectors, as if the feature gate `PodAffinityNamespaceSelector` were off.
    pub fn drop_namespace_selectors(&mut self) {
        for affinity in [&mut self.affinity, &mut self.anti_affinity] {
            affinity.drop_namespace_selectors(&self.key.namespace);
        }
    }
}

/// Reason and message of the condition `PodScheduled` with status `False`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnscheduledCondition {
    pub reason: Box<str>,
    pub message: Box<str>,
}

/// The owner reference with `controller: true`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControllerRef {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PreemptionPolicy {
    #[default]
    LowerPriority,
    Never,
}

/// A host port that a container uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` means all addresses.
    pub address: Box<str>,
    pub protocol: Box<str>,
    pub port: i32,
}

impl HostPort {
    /// Whether the two cannot be used on the same node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || &*self.address == ALL || &*other.address == ALL)
    }
}
