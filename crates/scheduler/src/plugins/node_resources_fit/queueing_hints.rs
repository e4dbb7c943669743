//! Queueing hints of `NodeResourcesFit`: whether an event frees or adds resources that the pod requests.

use super::NodeResourcesFit;
use super::filter::PodRequests;
use crate::cluster::{ClusterState, DepartedPod};
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
        ClusterEvent::NodeUpdated { node, old } => {
            let node = cluster.nodes().node(*node);
            node.is_some_and(|new| {
                let has_more = requests.is_increase(&new.allocatable, &old.allocatable);
                (has_more || new.max_pods > old.max_pods) && requests.fits_alone(new)
            })
        }
        ClusterEvent::AssignedPodDeleted(removed) => frees_resources(removed, &requests, cluster),
        ClusterEvent::AssignedPodUpdated {
            pod: other, old, ..
        } => {
            let new = cluster.pods().get(*other);
            new.is_some_and(|new| {
                let node_id = new
                    .node_id()
                    .and_then(|node_id| cluster.nodes().node(node_id));
                requests.is_increase(&old.requests, &new.pod.requests)
                    && node_id.is_some_and(|node| requests.fits_alone(node))
            })
        }
        ClusterEvent::PendingPodUpdated { old } => requests_less(&pod.requests, &old.requests),
        _ => false,
    }
}

pub(super) fn is_event_relevant(event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
    match event {
        ClusterEvent::AssignedPodDeleted(_) | ClusterEvent::PendingPodUpdated { .. } => true,
        ClusterEvent::AssignedPodUpdated { pod, old, .. } => {
            let new = cluster.pods().get(*pod);
            new.is_some_and(|new| new.pod.requests != old.requests)
        }
        _ => event.adds_or_changes_node(cluster, |old, new| {
            old.allocatable != new.allocatable || old.max_pods != new.max_pods
        }),
    }
}

/// Whether the deleted pod used a requested resource or a scarce pod slot, on a node large enough for the pending pod.
fn frees_resources(
    removed: &DepartedPod,
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

fn requests_less(new: &Resources, old: &Resources) -> bool {
    new.milli_cpu < old.milli_cpu
        || new.memory < old.memory
        || new.ephemeral_storage < old.ephemeral_storage
        || old
            .scalars
            .iter()
            .any(|(name, amount)| new.scalar(name) < *amount)
}
