//! Requeues unschedulable pods after cluster events, by the queueing hints of the plugins that rejected them.

use std::time::Instant;

use super::{ProfileSettings, SchedulerCore};
use crate::cluster::{ClusterState, PodId};
use crate::cycle::Nominator;
use crate::plugins::ClusterEvent;
use crate::queue::{QueueingEvent, UnschedulablePlugins};

impl SchedulerCore {
    /// Requeues the pods that an event may make schedulable. The event must be applied to the cluster state already.
    pub(super) fn on_cluster_event(&mut self, event: &ClusterEvent<'_>, now: Instant) {
        self.state_version += 1;
        if self.queue.pending_pods().unschedulable == 0 {
            return;
        }
        let (profiles, cluster) = (&self.profiles, &self.cluster);
        let nominations = &self.nominator;
        let relevant: Vec<UnschedulablePlugins> = profiles
            .iter()
            .map(|known| relevant_plugins(known, cluster, event))
            .collect();
        self.queue.move_matching_to_active_or_backoff(
            queueing_event(event),
            now,
            // Without unschedulable plugins, the cluster had no nodes.
            |profile, rejected_by| {
                rejected_by.is_empty()
                    || relevant
                        .get(profile)
                        .is_some_and(|all| all.intersects(rejected_by))
            },
            |pod, profile, rejected_by| {
                any_hint_queues(profiles, cluster, event, pod, profile, rejected_by)
                    && !frees_nominated_node(nominations, cluster, event, pod)
            },
        );
    }
}

/// The event label of the metric of incoming pods.
fn queueing_event(event: &ClusterEvent<'_>) -> QueueingEvent {
    match event {
        ClusterEvent::NodeAdded(_) => QueueingEvent::NodeAdded,
        ClusterEvent::NodeUpdated { .. } => QueueingEvent::NodeUpdated,
        ClusterEvent::NodeDeleted { .. } => QueueingEvent::NodeDeleted,
        ClusterEvent::AssignedPodAdded(_) => QueueingEvent::AssignedPodAdded,
        ClusterEvent::AssignedPodUpdated { .. } => QueueingEvent::AssignedPodUpdated,
        ClusterEvent::AssignedPodDeleted(_) => QueueingEvent::AssignedPodDeleted,
        ClusterEvent::PendingPodUpdated { .. } => QueueingEvent::PodUpdated,
        ClusterEvent::NamespaceRelabelled { .. } => QueueingEvent::NamespaceUpdated,
        ClusterEvent::SpreadOwnerChanged { .. } => QueueingEvent::SpreadOwnerUpdated,
    }
}

/// The plugins of a profile for which an event may make any pod schedulable.
fn relevant_plugins(
    known: &ProfileSettings,
    cluster: &ClusterState,
    event: &ClusterEvent<'_>,
) -> UnschedulablePlugins {
    let plugins = known.profile.plugins.iter().enumerate();
    let relevant = plugins.filter(|(_, enabled)| enabled.plugin.is_event_relevant(event, cluster));
    relevant.map(|(index, _)| index).collect()
}

/// Whether the queueing hint of a plugin that rejected the pod requests a new attempt.
pub(super) fn any_hint_queues(
    profiles: &[ProfileSettings],
    cluster: &ClusterState,
    event: &ClusterEvent<'_>,
    pod: PodId,
    profile: usize,
    rejected_by: UnschedulablePlugins,
) -> bool {
    let (Some(slot), Some(known)) = (cluster.pods().get(pod), profiles.get(profile)) else {
        return false;
    };
    if rejected_by.is_empty() {
        // The cluster had no nodes.
        return matches!(event, ClusterEvent::NodeAdded(_));
    }
    let plugins = known.profile.plugins.iter().enumerate();
    let mut refusing = plugins.filter(|(index, _)| rejected_by.contains(*index));
    refusing.any(|(_, enabled)| enabled.plugin.queueing_hint(event, slot, cluster))
}

/// Whether a deleted pod was on a node that others are nominated for, while `pod` is nominated for another node. Such
/// events do not requeue: if many pods preempt at once, each terminated victim would requeue all of them.
fn frees_nominated_node(
    nominations: &Nominator,
    cluster: &ClusterState,
    event: &ClusterEvent<'_>,
    pod: PodId,
) -> bool {
    let (ClusterEvent::AssignedPodDeleted(removed), Some(own)) = (event, nominations.get(pod))
    else {
        return false;
    };
    let Some(name) = removed.node_id.and_then(|node| cluster.nodes().name(node)) else {
        return false;
    };
    *own.node != *name && !nominations.pods_on(name).is_empty()
}
