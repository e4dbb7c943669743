//! What can make room for a pod.

use super::NodeResourcesFit;
use super::filter::Wanted;
use crate::cluster::{Cluster, Departed};
use crate::model::{Pod, Resources};
use crate::plugins::Event;

pub(super) fn may_help(
    plugin: &NodeResourcesFit,
    event: &Event<'_>,
    pod: &Pod,
    cluster: &Cluster,
) -> bool {
    let wanted = Wanted::by(pod, plugin);
    match event {
        Event::NodeAdded(node) => {
            let facts = cluster.nodes().facts(*node);
            facts.is_some_and(|facts| wanted.fits_alone(facts))
        }
        Event::NodeChanged { node, before } => {
            let facts = cluster.nodes().facts(*node);
            facts.is_some_and(|now| {
                let has_more = wanted.gains(&now.allocatable, &before.allocatable);
                (has_more || now.pods_max > before.pods_max) && wanted.fits_alone(now)
            })
        }
        Event::PodLeft(departed) => makes_room(departed, &wanted, cluster),
        Event::PodChanged {
            pod: other, before, ..
        } => {
            let now = cluster.pods().get(*other);
            now.is_some_and(|now| {
                let place = now.place().and_then(|place| cluster.nodes().facts(place));
                wanted.gains(&before.requests, &now.facts.requests)
                    && place.is_some_and(|node| wanted.fits_alone(node))
            })
        }
        Event::Itself { before } => asks_for_less(&pod.requests, &before.requests),
        _ => false,
    }
}

pub(super) fn may_help_some(event: &Event<'_>, cluster: &Cluster) -> bool {
    match event {
        Event::PodLeft(_) | Event::Itself { .. } => true,
        Event::PodChanged { pod, before, .. } => {
            let now = cluster.pods().get(*pod);
            now.is_some_and(|now| now.facts.requests != before.requests)
        }
        _ => event.brings_node(cluster, |before, now| {
            before.allocatable != now.allocatable || before.pods_max != now.pods_max
        }),
    }
}

/// It used some of what is wanted, or was one too many, on a node that is large enough.
fn makes_room(departed: &Departed, wanted: &Wanted<'_>, cluster: &Cluster) -> bool {
    let Some((place, facts)) = departed
        .place
        .and_then(|place| Some((place, cluster.nodes().facts(place)?)))
    else {
        return false;
    };
    let was_full = cluster.nodes().get(place).pods().len() as i64 + 1 >= facts.pods_max;
    let gains = was_full || wanted.gains(&departed.facts.requests, &Resources::default());
    gains && wanted.fits_alone(facts)
}

fn asks_for_less(now: &Resources, before: &Resources) -> bool {
    now.milli_cpu < before.milli_cpu
        || now.memory < before.memory
        || now.ephemeral_storage < before.ephemeral_storage
        || before
            .others
            .iter()
            .any(|(name, amount)| now.other(name) < *amount)
}
