//! What happened becomes an event, and wakes those whom it may help.

use std::time::Instant;

use super::{Engine, ProfileSettings};
use crate::cluster::{Cluster, PodId};
use crate::cycle::Nominations;
use crate::plugins::Event;
use crate::queue::{Cause, Refusers};

impl Engine {
    /// The cluster knows it already.
    pub(super) fn happened(&mut self, event: &Event<'_>, now: Instant) {
        self.version += 1;
        if self.queue.pending().unschedulable == 0 {
            return;
        }
        let (profiles, cluster) = (&self.profiles, &self.cluster);
        let nominations = &self.nominations;
        let concerned: Vec<Refusers> = profiles
            .iter()
            .map(|known| concerned(known, cluster, event))
            .collect();
        self.queue.wake(
            cause(event),
            now,
            // Those without refusers had no node at all.
            |profile, refusers| {
                refusers.is_empty()
                    || concerned
                        .get(profile)
                        .is_some_and(|all| all.intersects(refusers))
            },
            |pod, profile, refusers| {
                may_help(profiles, cluster, event, pod, profile, refusers)
                    && !is_for_others(nominations, cluster, event, pod)
            },
        );
    }
}

/// What wakes somebody, for those who count it.
fn cause(event: &Event<'_>) -> Cause {
    match event {
        Event::NodeAdded(_) => Cause::NodeAdded,
        Event::NodeChanged { .. } => Cause::NodeUpdated,
        Event::NodeLeft { .. } => Cause::NodeLeft,
        Event::PodPlaced(_) => Cause::PodPlaced,
        Event::PodChanged { .. } => Cause::PlacedPodUpdated,
        Event::PodLeft(_) => Cause::PodLeft,
        Event::Itself { .. } => Cause::PodUpdated,
        Event::NamespaceRelabelled { .. } => Cause::NamespaceUpdated,
        Event::GroupChanged { .. } => Cause::GroupUpdated,
    }
}

/// The plugins of a profile that an event says something to.
fn concerned(known: &ProfileSettings, cluster: &Cluster, event: &Event<'_>) -> Refusers {
    let plugins = known.profile.plugins.iter().enumerate();
    let concerned = plugins.filter(|(_, enabled)| enabled.plugin.may_help_some(event, cluster));
    concerned.map(|(index, _)| index).collect()
}

/// Whether one of the plugins that refused a pod says that it may do now.
pub(super) fn may_help(
    profiles: &[ProfileSettings],
    cluster: &Cluster,
    event: &Event<'_>,
    pod: PodId,
    profile: usize,
    refusers: Refusers,
) -> bool {
    let (Some(slot), Some(known)) = (cluster.pods().get(pod), profiles.get(profile)) else {
        return false;
    };
    if refusers.is_empty() {
        // There was no node at all.
        return matches!(event, Event::NodeAdded(_));
    }
    let plugins = known.profile.plugins.iter().enumerate();
    let mut refusing = plugins.filter(|(index, _)| refusers.contains(*index));
    refusing.any(|(_, enabled)| enabled.plugin.may_help(event, slot, cluster))
}

/// Room that a pod left on a node which is kept for others is theirs. Whoever has a place of its own to wait for
/// does not try for that: if many preempt at once, each victim that leaves would have all of them try.
fn is_for_others(
    nominations: &Nominations,
    cluster: &Cluster,
    event: &Event<'_>,
    pod: PodId,
) -> bool {
    let (Event::PodLeft(departed), Some(own)) = (event, nominations.get(pod)) else {
        return false;
    };
    let Some(name) = departed.place.and_then(|node| cluster.nodes().name(node)) else {
        return false;
    };
    *own.node != *name && !nominations.on(name).is_empty()
}
