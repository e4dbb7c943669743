//! Queueing hints of `NodeResourcesFit`: whether an event frees or adds resources that the pod requests.

use super::NodeResourcesFit;
use super::filter::PodRequests;
use crate::cluster::{ClusterState, RemovedPod};
use crate::model::{Pod, Resources};
use crate::plugins::ClusterEvent;

pub(super) fn queueing_hint(
    plugin: &NodeResourcesFit,
    event: &ClusterEvent<'_>,
    pod: &Pod,
    cluster: &ClusterState,
) -> bool {
    let requests = PodRequests::new(pod, plugin);
    match event {
        ClusterEvent::NodeAdded(node) => {
            let node = cluster.nodes().node(*node);
            node.is_some_and(|node| requests.fits_alone(node))
        }
        ClusterEvent::NodeUpdated { node, before } => {
            let node = cluster.nodes().node(*node);
            node.is_some_and(|now| {
                let has_more = requests.is_increase(&now.allocatable, &before.allocatable);
                (has_more || now.max_pods > before.max_pods) && requests.fits_alone(now)
            })
        }
        ClusterEvent::AssignedPodDeleted(removed) => frees_resources(removed, &requests, cluster),
        ClusterEvent::AssignedPodUpdated {
            pod: other, before, ..
        } => {
            let now = cluster.pods().get(*other);
            now.is_some_and(|now| {
                let node_id = now
                    .node_id()
                    .and_then(|node_id| cluster.nodes().node(node_id));
                requests.is_increase(&before.requests, &now.pod.requests)
                    && node_id.is_some_and(|node| requests.fits_alone(node))
            })
        }
        ClusterEvent::PendingPodUpdated { before } => {
            requests_less(&pod.requests, &before.requests)
        }
        _ => false,
    }
}

pub(super) fn is_event_relevant(event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
    match event {
        ClusterEvent::AssignedPodDeleted(_) | ClusterEvent::PendingPodUpdated { .. } => true,
        ClusterEvent::AssignedPodUpdated { pod, before, .. } => {
            let now = cluster.pods().get(*pod);
            now.is_some_and(|now| now.pod.requests != before.requests)
        }
        _ => event.adds_or_changes_node(cluster, |before, now| {
            before.allocatable != now.allocatable || before.max_pods != now.max_pods
        }),
    }
}

/// Whether the deleted pod used a requested resource or a scarce pod slot, on a node large enough for the pending pod.
fn frees_resources(
    removed: &RemovedPod,
    requests: &PodRequests<'_>,
    cluster: &ClusterState,
) -> bool {
    let Some((node_id, node)) = removed
        .node_id
        .and_then(|node_id| Some((node_id, cluster.nodes().node(node_id)?)))
    else {
        return false;
    };
    let was_full = cluster.nodes().get(node_id).pods().len() as i64 + 1 >= node.max_pods;
    let gains = was_full || requests.is_increase(&removed.pod.requests, &Resources::default());
    gains && requests.fits_alone(node)
}

fn requests_less(now: &Resources, before: &Resources) -> bool {
    now.milli_cpu < before.milli_cpu
        || now.memory < before.memory
        || now.ephemeral_storage < before.ephemeral_storage
        || before
            .scalars
            .iter()
            .any(|(name, amount)| now.scalar(name) < *amount)
}
