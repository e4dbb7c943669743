//! Nominated nodes: which pending pods wait for preempted pods to terminate, and on which node (upstream: nominator).

use std::collections::HashMap;
use std::time::Instant;

use crate::cluster::{ClusterState, IdMap, NodeId, PodId};

/// A pending pod's reservation of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nomination {
    /// By name, since the node can be deleted and created again meanwhile.
    pub node: Box<str>,
    pub priority: i32,
    /// The uids of the pods that are preempted for it.
    pub victims: Vec<Box<str>>,
    pub since: Instant,
}

/// All nominations, by pod and by node.
#[derive(Debug, Default)]
pub struct Nominator {
    by_pod: IdMap<PodId, Nomination>,
    by_node: HashMap<Box<str>, Vec<PodId>>,
}

impl Nominator {
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }

    pub fn get(&self, pod: PodId) -> Option<&Nomination> {
        self.by_pod.get(&pod)
    }

    pub fn get_mut(&mut self, pod: PodId) -> Option<&mut Nomination> {
        self.by_pod.get_mut(&pod)
    }

    /// The pods nominated for a node.
    pub fn pods_on(&self, node: &str) -> &[PodId] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Sets the nomination of a pod. Returns the previous one.
    pub fn insert(&mut self, pod: PodId, nomination: Nomination) -> Option<Nomination> {
        let removed = self.remove(pod);
        let node = nomination.node.clone();
        self.by_node.entry(node).or_default().push(pod);
        self.by_pod.insert(pod, nomination);
        removed
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

    /// The nominated node of a pod, if that node exists.
    pub(super) fn nominated_node(&self, pod: PodId, cluster: &ClusterState) -> Option<NodeId> {
        let nomination = self.get(pod)?;
        let node = cluster.nodes().find(&nomination.node)?;
        cluster.nodes().node(node).map(|_| node)
    }

    /// Whether other pods of at least this priority are nominated for a node.
    pub(super) fn has_pods_ahead(
        &self,
        cluster: &ClusterState,
        node: NodeId,
        pod: PodId,
        priority: i32,
    ) -> bool {
        self.iter_pods_ahead(cluster, node, pod, priority)
            .next()
            .is_some()
    }

    pub(super) fn pods_ahead(
        &self,
        cluster: &ClusterState,
        node: NodeId,
        pod: PodId,
        priority: i32,
    ) -> Vec<PodId> {
        self.iter_pods_ahead(cluster, node, pod, priority).collect()
    }

    /// Other pods of equal or higher priority that are nominated for the node and not assigned to any node yet.
    fn iter_pods_ahead<'n>(
        &'n self,
        cluster: &'n ClusterState,
        node: NodeId,
        pod: PodId,
        priority: i32,
    ) -> impl Iterator<Item = PodId> + 'n {
        let pods = self
            .pods_on(&cluster.nodes().get(node).name)
            .iter()
            .copied();
        pods.filter(move |other| {
            let has_no_place = || {
                let slot = cluster.pods().get(*other);
                slot.is_some_and(|slot| slot.node_id().is_none())
            };
            *other != pod
                && self
                    .get(*other)
                    .is_some_and(|known| known.priority >= priority)
                && has_no_place()
        })
    }
}
