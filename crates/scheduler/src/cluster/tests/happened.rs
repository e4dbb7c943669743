//! What happened, as plugins are told.

use std::sync::Arc;

use crate::cluster::{Cluster, Departed, NodeId, PickerId, PodChange, PodId};
use crate::model::{Node, Pod};
use crate::plugins::Event;

#[derive(Debug)]
pub(super) enum Happened {
    NodeAdded(NodeId),
    NodeChanged(NodeId, Arc<Node>),
    NodeLeft(Arc<Node>),
    PodPlaced(PodId),
    PodChanged(PodId, Arc<Pod>, Vec<PickerId>),
    PodLeft(Departed),
    Itself(PodId, Arc<Pod>),
    Relabelled(&'static str, Vec<PickerId>),
}

impl Happened {
    /// What the server told about a pod.
    pub(super) fn to_pod(change: PodChange, cluster: &Cluster) -> Vec<Happened> {
        let place = |id| cluster.pods.slots[id].place;
        match change {
            PodChange::Added(id) if place(id).is_some() => vec![Happened::PodPlaced(id)],
            PodChange::Added(_) | PodChange::Unchanged(_) => Vec::new(),
            PodChange::Gone(departed) => departed.map(Happened::PodLeft).into_iter().collect(),
            PodChange::Changed {
                id,
                before,
                place_before,
                picked_by_before,
            } => match (place_before, place(id)) {
                (None, None) => vec![Happened::Itself(id, before)],
                (None, Some(_)) => vec![Happened::PodPlaced(id)],
                (Some(was), Some(is)) if was == is => {
                    vec![Happened::PodChanged(id, before, picked_by_before)]
                }
                (was, _) => vec![
                    Happened::PodLeft(Departed {
                        id,
                        facts: before,
                        place: was,
                        picked_by: picked_by_before,
                    }),
                    Happened::PodPlaced(id),
                ],
            },
        }
    }

    /// What it means for others when a pod does not get to where it was assumed to be.
    pub(super) fn to_forgotten(id: PodId, cluster: &Cluster) -> Vec<Happened> {
        let slot = &cluster.pods.slots[id];
        if !slot.is_assumed {
            return Vec::new();
        }
        vec![Happened::PodLeft(Departed {
            id,
            facts: slot.facts.clone(),
            place: slot.place,
            picked_by: slot.picked_by.clone(),
        })]
    }

    pub(super) fn event(&self) -> Event<'_> {
        match self {
            Happened::NodeAdded(node) => Event::NodeAdded(*node),
            Happened::NodeChanged(node, before) => Event::NodeChanged {
                node: *node,
                before,
            },
            Happened::NodeLeft(before) => Event::NodeLeft { before },
            Happened::PodPlaced(pod) => Event::PodPlaced(*pod),
            Happened::PodChanged(pod, before, picked_by_before) => Event::PodChanged {
                pod: *pod,
                before,
                picked_by_before,
            },
            Happened::PodLeft(departed) => Event::PodLeft(departed),
            Happened::Itself(_, before) => Event::Itself { before },
            Happened::Relabelled(namespace, pickers) => {
                Event::NamespaceRelabelled { namespace, pickers }
            }
        }
    }

    /// Whether a pod that waits is told. Only it is told of what happened to itself.
    pub(super) fn concerns(&self, pod: PodId) -> bool {
        match self {
            Happened::Itself(changed, _) => *changed == pod,
            _ => true,
        }
    }
}
