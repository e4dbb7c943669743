//! Owned copies of the cluster events that plugins receive, so that a test can keep them.

use std::sync::Arc;

use crate::cluster::{ClusterState, DepartedPod, NodeId, PodId, PodMatcherId, PodUpsertResult};
use crate::model::{Node, Pod};
use crate::plugins::ClusterEvent;

#[derive(Debug)]
pub(super) enum OwnedClusterEvent {
    NodeAdded(NodeId),
    NodeUpdated(NodeId, Arc<Node>),
    NodeDeleted(Arc<Node>),
    AssignedPodAdded(PodId),
    AssignedPodUpdated(PodId, Arc<Pod>, Vec<PodMatcherId>),
    AssignedPodDeleted(DepartedPod),
    PendingPodUpdated(PodId, Arc<Pod>),
    NamespaceRelabelled(&'static str, Vec<PodMatcherId>),
}

impl OwnedClusterEvent {
    /// The events of a pod update.
    pub(super) fn from_upsert(
        change: PodUpsertResult,
        cluster: &ClusterState,
    ) -> Vec<OwnedClusterEvent> {
        let node_of = |id| cluster.pods.slots[id].node_id;
        match change {
            PodUpsertResult::Added(id) if node_of(id).is_some() => {
                vec![OwnedClusterEvent::AssignedPodAdded(id)]
            }
            PodUpsertResult::Added(_) | PodUpsertResult::Unchanged(_) => Vec::new(),
            PodUpsertResult::Removed(removed) => removed
                .map(OwnedClusterEvent::AssignedPodDeleted)
                .into_iter()
                .collect(),
            PodUpsertResult::Updated {
                id,
                old_pod,
                previous_node,
                old_matched_by,
            } => match (previous_node, node_of(id)) {
                (None, None) => vec![OwnedClusterEvent::PendingPodUpdated(id, old_pod)],
                (None, Some(_)) => vec![OwnedClusterEvent::AssignedPodAdded(id)],
                (Some(was), Some(is)) if was == is => {
                    vec![OwnedClusterEvent::AssignedPodUpdated(
                        id,
                        old_pod,
                        old_matched_by,
                    )]
                }
                (was, _) => vec![
                    OwnedClusterEvent::AssignedPodDeleted(DepartedPod {
                        id,
                        pod: old_pod,
                        node_id: was,
                        matched_by: old_matched_by,
                    }),
                    OwnedClusterEvent::AssignedPodAdded(id),
                ],
            },
        }
    }

    /// The event of an assumed pod that is forgotten; call before forgetting it.
    pub(super) fn from_forgotten(id: PodId, cluster: &ClusterState) -> Vec<OwnedClusterEvent> {
        let slot = &cluster.pods.slots[id];
        if !slot.is_assumed {
            return Vec::new();
        }
        vec![OwnedClusterEvent::AssignedPodDeleted(DepartedPod {
            id,
            pod: slot.pod.clone(),
            node_id: slot.node_id,
            matched_by: slot.matched_by.clone(),
        })]
    }

    pub(super) fn as_event(&self) -> ClusterEvent<'_> {
        match self {
            OwnedClusterEvent::NodeAdded(node) => ClusterEvent::NodeAdded(*node),
            OwnedClusterEvent::NodeUpdated(node, old) => {
                ClusterEvent::NodeUpdated { node: *node, old }
            }
            OwnedClusterEvent::NodeDeleted(old) => ClusterEvent::NodeDeleted { old },
            OwnedClusterEvent::AssignedPodAdded(pod) => ClusterEvent::AssignedPodAdded(*pod),
            OwnedClusterEvent::AssignedPodUpdated(pod, old, old_matched_by) => {
                ClusterEvent::AssignedPodUpdated {
                    pod: *pod,
                    old,
                    old_matched_by,
                }
            }
            OwnedClusterEvent::AssignedPodDeleted(removed) => {
                ClusterEvent::AssignedPodDeleted(removed)
            }
            OwnedClusterEvent::PendingPodUpdated(_, old) => ClusterEvent::PendingPodUpdated { old },
            OwnedClusterEvent::NamespaceRelabelled(namespace, matchers) => {
                ClusterEvent::NamespaceRelabelled {
                    namespace,
                    matchers,
                }
            }
        }
    }

    /// Whether the event is delivered to a pending pod. Updates of a pending pod are delivered to that pod only.
    pub(super) fn concerns(&self, pod: PodId) -> bool {
        match self {
            OwnedClusterEvent::PendingPodUpdated(changed, _) => *changed == pod,
            _ => true,
        }
    }
}
