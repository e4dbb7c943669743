//! Pods that scheduling cannot tell apart.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::model::Pod;

/// Whether at any moment the same becomes of both: where one has no place, the other has none either.
pub(super) fn is_alike(one: &Pod, other: &Pod) -> bool {
    // All fields are named, so that a new one is not forgotten.
    let Pod {
        key,
        uid: _,
        resource_version: _,
        labels,
        created: _,
        started: _,
        is_terminating,
        is_terminal,
        scheduler_name,
        node_name,
        nominated_node_name,
        scheduling_gates,
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
        is_preempted,
    } = one;
    key.namespace == other.key.namespace
        && *labels == other.labels
        && *is_terminating == other.is_terminating
        && *is_terminal == other.is_terminal
        && *is_preempted == other.is_preempted
        && *scheduler_name == other.scheduler_name
        && *node_name == other.node_name
        && *nominated_node_name == other.nominated_node_name
        && *scheduling_gates == other.scheduling_gates
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

/// The same for all that are alike, and mostly different for others.
pub(super) fn hash(hasher: &impl BuildHasher, pod: &Pod) -> u64 {
    let mut hasher = hasher.build_hasher();
    pod.key.namespace.hash(&mut hasher);
    pod.labels.hash(&mut hasher);
    pod.priority.hash(&mut hasher);
    pod.requests.milli_cpu.hash(&mut hasher);
    pod.requests.memory.hash(&mut hasher);
    pod.nodes.hash(&mut hasher);
    pod.nominated_node_name.hash(&mut hasher);
    pod.controller.hash(&mut hasher);
    hasher.finish()
}
