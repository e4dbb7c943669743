//! Filter and score plugins of the scheduling framework, one folder each, named as upstream.
//!
//! To add one: a folder with a type that implements [`Plugin`], and a line in `registry.rs`.

pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
mod node_predicate_cache;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod pod_topology_spread;
mod registry;
pub mod taint_toleration;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod volume_binding;

pub use registry::{NodePluginArgs, PluginFactory, plugin_factories};

use std::fmt;

use crate::cluster::{ClusterState, DepartedPod, NodeId, PodId, PodInfo, PodMatcherId};
use crate::model::{Node, Pod};

/// The highest score of a node (upstream: `MaxNodeScore`).
pub const SCORE_MAX: i64 = 100;

/// A scheduling plugin. It keeps no state of a scheduling cycle itself: per-pod state is in the values it returns,
/// which live as long as the cycle. Caches over nodes are allowed.
pub trait Plugin: Send {
    /// The name in the configuration file.
    fn name(&self) -> &'static str;

    /// Prepares filtering for a pod (upstream: PreFilter). `Err` if no node at all is feasible.
    fn pre_filter<'c>(
        &'c self,
        _pod: &'c PodInfo,
        _cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        Ok(PreFilterResult::default())
    }

    /// Prepares scoring of the given nodes for a pod (upstream: PreScore). `None` means that all of them score 0.
    fn pre_score<'c>(
        &'c self,
        _pod: &'c PodInfo,
        _cluster: &'c ClusterState,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        None
    }

    /// Topology keys that the plugin needs in addition to those in pods' own terms.
    fn topology_keys(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether an event may make a pod schedulable that this plugin rejected (upstream: `QueueingHintFn`). Called for
    /// every such pod, so it must inspect the event and not the whole cluster. A false positive costs one attempt; a
    /// false negative leaves a schedulable pod in the unschedulable queue.
    fn queueing_hint(
        &self,
        _event: &ClusterEvent<'_>,
        _pod: &PodInfo,
        _cluster: &ClusterState,
    ) -> bool {
        true
    }

    /// Whether an event may make any pod schedulable that this plugin rejected. Called once per event, so that
    /// irrelevant events cost nothing however many pods are pending. If false, `queueing_hint` must be false for every
    /// pod. Never called with `PendingPodUpdated`.
    fn is_event_relevant(&self, _event: &ClusterEvent<'_>, _cluster: &ClusterState) -> bool {
        true
    }
}

/// A change that may make pending pods schedulable (upstream: `ClusterEvent`). Already applied to the cluster state.
#[derive(Debug, Clone, Copy)]
pub enum ClusterEvent<'e> {
    NodeAdded(NodeId),
    NodeUpdated {
        node: NodeId,
        old: &'e Node,
    },
    /// A node was deleted. Its pods no longer count.
    NodeDeleted {
        old: &'e Node,
    },
    /// A pod was assigned or assumed.
    AssignedPodAdded(PodId),
    /// An assigned pod was updated.
    AssignedPodUpdated {
        pod: PodId,
        old: &'e Pod,
        old_matched_by: &'e [PodMatcherId],
    },
    /// An assigned pod was deleted.
    AssignedPodDeleted(&'e DepartedPod),
    /// The pending pod itself was updated.
    PendingPodUpdated {
        old: &'e Pod,
    },
    /// The labels of a namespace changed, and with them whether these matchers select it.
    NamespaceRelabelled {
        namespace: &'e str,
        matchers: &'e [PodMatcherId],
    },
    /// The selector of a service or controller in the namespace changed.
    SpreadOwnerChanged {
        namespace: &'e str,
    },
}

impl ClusterEvent<'_> {
    /// Whether a node was added, or updated in a way that the predicate on (old, new) considers relevant.
    fn adds_or_changes_node(
        &self,
        cluster: &ClusterState,
        differs: impl Fn(&Node, &Node) -> bool,
    ) -> bool {
        match self {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { node, old } => {
                let new = cluster.nodes().node(*node);
                new.is_some_and(|new| differs(old, new))
            }
            _ => false,
        }
    }
}

/// What a plugin prepared for filtering nodes for one pod.
#[derive(Default)]
pub struct PreFilterResult<'c> {
    /// `None` if every node passes.
    pub filter: Option<Box<dyn NodeFilter + 'c>>,
    /// The only nodes worth checking, if known in advance (upstream: `PreFilterResult.NodeNames`).
    pub candidate_nodes: Option<Vec<NodeId>>,
}

impl fmt::Debug for PreFilterResult<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "filters: {}, only: {:?}",
            self.filter.is_some(),
            self.candidate_nodes
        )
    }
}

/// Checks single nodes for one pod (upstream: Filter).
pub trait NodeFilter {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection>;

    /// Upstream's reasons. They depend on the rejection alone, so that equal ones can be aggregated over nodes.
    fn reasons(&self, rejection: FilterRejection) -> Vec<String>;

    /// An explanation specific to the node, for `rhumb scheduler explain`.
    fn detail(&self, _node: NodeId, _refusal: FilterRejection) -> Option<String> {
        None
    }
}

/// Why a filter rejects a node (upstream: `Status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterRejection {
    /// Whether preemption may help; if not, upstream's code is `UnschedulableAndUnresolvable`.
    pub is_resolvable: bool,
    /// Identifies the reason; its meaning is private to the filter.
    pub reason_code: u32,
}

/// A plugin rejects the pod on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreFilterRejection {
    pub reason: String,
}

/// Scores single nodes for one pod (upstream: Score).
pub trait NodeScorer {
    fn score(&self, node: NodeId) -> i64;

    /// Scales the scores of all nodes to 0 ..= [`SCORE_MAX`] (upstream: NormalizeScore).
    fn normalise(&self, _nodes: &[NodeId], _scores: &mut [i64]) {}
}

/// Scales scores so that the maximum becomes [`SCORE_MAX`]. If all are 0, they stay 0.
fn normalise_by_max(scores: &mut [i64]) {
    let max = scores.iter().copied().max().unwrap_or_default();
    if max > 0 {
        for score in scores {
            *score = SCORE_MAX * *score / max;
        }
    }
}
