//! Places that are kept for pods which others make room for.

use std::collections::HashMap;
use std::time::Instant;

use crate::cluster::{Cluster, IdMap, NodeId, PodId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nomination {
    /// By name: a node can go and come back meanwhile.
    pub node: Box<str>,
    pub priority: i32,
    /// The uids of those that were told to make room, and when they were told.
    pub victims: Vec<Box<str>>,
    pub since: Instant,
}

/// Who waits for a place on which node.
#[derive(Debug, Default)]
pub struct Nominations {
    by_pod: IdMap<PodId, Nomination>,
    by_node: HashMap<Box<str>, Vec<PodId>>,
}

impl Nominations {
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    pub fn get(&self, pod: PodId) -> Option<&Nomination> {
        self.by_pod.get(&pod)
    }

    pub fn get_mut(&mut self, pod: PodId) -> Option<&mut Nomination> {
        self.by_pod.get_mut(&pod)
    }

    pub fn on(&self, node: &str) -> &[PodId] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Each pod has one at most: that before is returned.
    pub fn insert(&mut self, pod: PodId, nomination: Nomination) -> Option<Nomination> {
        let before = self.remove(pod);
        let node = nomination.node.clone();
        self.by_node.entry(node).or_default().push(pod);
        self.by_pod.insert(pod, nomination);
        before
    }

    pub fn remove(&mut self, pod: PodId) -> Option<Nomination> {
        let nomination = self.by_pod.remove(&pod)?;
        if let Some(pods) = self.by_node.get_mut(&nomination.node) {
            pods.retain(|known| *known != pod);
            if pods.is_empty() {
                self.by_node.remove(&nomination.node);
            }
        }
        Some(nomination)
    }

    /// The node that is kept for a pod, if it is there.
    pub(super) fn node_of(&self, pod: PodId, cluster: &Cluster) -> Option<NodeId> {
        let nomination = self.get(pod)?;
        let node = cluster.nodes().find(&nomination.node)?;
        cluster.nodes().facts(node).map(|_| node)
    }

    /// Whether a pod of this priority has to stand back behind others on a node.
    pub(super) fn keeps(&self, cluster: &Cluster, node: NodeId, pod: PodId, priority: i32) -> bool {
        self.standing_before(cluster, node, pod, priority)
            .next()
            .is_some()
    }

    pub(super) fn kept_for(
        &self,
        cluster: &Cluster,
        node: NodeId,
        pod: PodId,
        priority: i32,
    ) -> Vec<PodId> {
        self.standing_before(cluster, node, pod, priority).collect()
    }

    /// Those of equal or higher priority that have no place yet.
    fn standing_before<'n>(
        &'n self,
        cluster: &'n Cluster,
        node: NodeId,
        pod: PodId,
        priority: i32,
    ) -> impl Iterator<Item = PodId> + 'n {
        let pods = self.on(&cluster.nodes().get(node).name).iter().copied();
        pods.filter(move |other| {
            let has_no_place = || {
                let slot = cluster.pods().get(*other);
                slot.is_some_and(|slot| slot.place().is_none())
            };
            *other != pod
                && self
                    .get(*other)
                    .is_some_and(|known| known.priority >= priority)
                && has_no_place()
        })
    }
}
