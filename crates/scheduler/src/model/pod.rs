//! A pod.

use std::fmt;
use std::sync::Arc;

use rhumb_meta::Timestamp;

use super::{
    Labels, NodeSelector, PodAffinity, PreferredNodes, Resources, SpreadConstraint, Toleration,
};

/// What a pod is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pod {
    pub key: PodKey,
    pub uid: Box<str>,
    /// What the server had when it was read: a decision about it is void once it has changed.
    pub resource_version: Box<str>,
    /// How often its spec was changed.
    pub generation: i64,
    pub labels: Labels,
    pub created: Option<Timestamp>,
    /// When its node began with it.
    pub started: Option<Timestamp>,
    pub is_terminating: bool,
    /// It is being deleted because the scheduler told it to make room.
    pub is_preempted: bool,
    /// It has come to its end, and uses nothing any more.
    pub is_terminal: bool,
    pub scheduler_name: Box<str>,
    /// Where it is.
    pub node_name: Option<Box<str>>,
    /// Where it is to go once others have made room.
    pub nominated_node_name: Option<Box<str>>,
    /// What it says of why it has no node.
    pub not_scheduled: Option<Box<NotScheduled>>,
    pub scheduling_gates: Box<[Box<str>]>,
    pub priority: i32,
    pub preemption_policy: PreemptionPolicy,
    pub requests: Resources,
    /// Processor and memory as scores see them: a container that asks for nothing still takes a little.
    pub assumed_milli_cpu: i64,
    pub assumed_memory: i64,
    pub ports: Box<[HostPort]>,
    /// Names as `ImageLocality` compares them, of all containers and of volumes that are images.
    pub images: Box<[Box<str>]>,
    pub containers: usize,
    pub nodes: Arc<NodeSelector>,
    pub preferred_nodes: PreferredNodes,
    pub tolerations: Arc<[Toleration]>,
    pub affinity: PodAffinity,
    pub anti_affinity: PodAffinity,
    pub spread: Box<[SpreadConstraint]>,
    /// The controller that it belongs to: group version, kind and name.
    pub controller: Option<Controller>,
    /// The claims whose volumes it mounts.
    pub claims: Box<[Box<str>]>,
    /// What it calls its claims to devices.
    pub device_claims: Box<[Box<str>]>,
}

impl Pod {
    /// Whether another state of the pod asks for, takes and counts the same. What is only remembered may differ: when it
    /// began, and, of a pod that has a place, where it was to go.
    pub fn is_same_for(&self, other: &Pod, has_place: bool) -> bool {
        self.key == other.key
            && self.uid == other.uid
            && (has_place || self.waits_alike(other))
            && self.asks_alike(other)
    }

    /// Whether at any moment the same becomes of both: where one has no place, the other has none either.
    pub fn is_alike(&self, other: &Pod) -> bool {
        self.key.namespace == other.key.namespace
            && self.node_name == other.node_name
            && self.waits_alike(other)
            && self.asks_alike(other)
    }

    /// What matters of a pod that has no place.
    fn waits_alike(&self, other: &Pod) -> bool {
        self.is_preempted == other.is_preempted
            && self.nominated_node_name == other.nominated_node_name
            && self.scheduling_gates == other.scheduling_gates
    }

    /// What matters of every pod. All fields are named, so that a new one is not forgotten.
    fn asks_alike(&self, other: &Pod) -> bool {
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
            not_scheduled: _,
            scheduling_gates: _,
            priority,
            preemption_policy,
            requests,
            assumed_milli_cpu,
            assumed_memory,
            ports,
            images,
            containers,
            nodes,
            preferred_nodes,
            tolerations,
            affinity,
            anti_affinity,
            spread,
            controller,
            claims,
            device_claims,
        } = self;
        *labels == other.labels
            && *is_terminating == other.is_terminating
            && *is_terminal == other.is_terminal
            && *scheduler_name == other.scheduler_name
            && *priority == other.priority
            && *preemption_policy == other.preemption_policy
            && *requests == other.requests
            && *assumed_milli_cpu == other.assumed_milli_cpu
            && *assumed_memory == other.assumed_memory
            && *ports == other.ports
            && *images == other.images
            && *containers == other.containers
            && *nodes == other.nodes
            && *preferred_nodes == other.preferred_nodes
            && *tolerations == other.tolerations
            && *affinity == other.affinity
            && *anti_affinity == other.anti_affinity
            && *spread == other.spread
            && *controller == other.controller
            && *claims == other.claims
            && *device_claims == other.device_claims
    }

    /// As it is read with the gate `PodAffinityNamespaceSelector` off.
    pub fn forget_namespace_selectors(&mut self) {
        for affinity in [&mut self.affinity, &mut self.anti_affinity] {
            affinity.forget_namespace_selectors(&self.key.namespace);
        }
    }
}

/// Of the condition `PodScheduled`, where that is false.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotScheduled {
    pub reason: Box<str>,
    pub message: Box<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller {
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

/// A port of the node that a container takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` is all addresses.
    pub address: Box<str>,
    pub protocol: Box<str>,
    pub port: i32,
}

impl HostPort {
    /// Whether both cannot be had on one node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || &*self.address == ALL || &*other.address == ALL)
    }
}
