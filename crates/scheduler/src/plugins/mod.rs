//! What decides which nodes are possible, and which are better: one folder each.
//!
//! To add one: a folder with a type that implements [`Plugin`], and a line in the list of all.

mod all;
mod answers;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod pod_topology_spread;
pub mod taint_toleration;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod volumes;

pub use all::{Args, Known, known};

use std::fmt;

use crate::cluster::{Cluster, Departed, NodeId, PickerId, PodId, PodSlot};
use crate::model::{Node, Pod};

/// The most that a node can score.
pub const SCORE_MAX: i64 = 100;

/// One way to look at pods and nodes. It keeps nothing of a decision: what it found out about the pod is in what it
/// returns, and lives as long as the decision.
pub trait Plugin: Send {
    /// As a configuration names it.
    fn name(&self) -> &'static str;

    /// What it has to say about the nodes that a pod can go to. `Err` if no node will do, whatever it is.
    fn filter<'c>(
        &'c self,
        _pod: &'c PodSlot,
        _cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        Ok(Filtering::default())
    }

    /// What it has to say about which of some nodes is better. `None` if nothing: then all of them score 0.
    fn score<'c>(
        &'c self,
        _pod: &'c PodSlot,
        _cluster: &'c Cluster,
        _nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        None
    }

    /// Labels of nodes whose domains it asks for beside those of pods' own terms.
    fn topology_keys(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether a pod that this plugin refused may do after something happened. It is asked for every such pod, so it
    /// looks at what happened and not at the whole cluster. To say yes in vain costs an attempt; to say no wrongly
    /// leaves a pod waiting for nothing.
    fn may_help(&self, _event: &Event<'_>, _pod: &PodSlot, _cluster: &Cluster) -> bool {
        true
    }

    /// Whether something that happened may help anybody at all whom this plugin refused. It is asked once, so that most
    /// events cost nothing however many wait; who says no here does not say yes to any pod. What happened is never
    /// [`Event::Itself`].
    fn may_help_some(&self, _event: &Event<'_>, _cluster: &Cluster) -> bool {
        true
    }
}

/// Something that happened. The cluster knows it already.
#[derive(Debug, Clone, Copy)]
pub enum Event<'e> {
    NodeAdded(NodeId),
    NodeChanged {
        node: NodeId,
        before: &'e Node,
    },
    /// A node is gone. Pods that were on it count no more.
    NodeLeft {
        before: &'e Node,
    },
    /// A pod is now on a node, or is about to be.
    PodPlaced(PodId),
    /// A pod that is on a node is different now.
    PodChanged {
        pod: PodId,
        before: &'e Pod,
        picked_by_before: &'e [PickerId],
    },
    /// A pod that was on a node is gone.
    PodLeft(&'e Departed),
    /// The pod that waits is different now.
    Itself {
        before: &'e Pod,
    },
    /// These pickers see the namespace differently now.
    NamespaceRelabelled {
        namespace: &'e str,
        pickers: &'e [PickerId],
    },
    /// A service or a controller of the namespace selects differently now.
    GroupChanged {
        namespace: &'e str,
    },
}

impl Event<'_> {
    /// Whether there is a node more, or one that is no longer what it was.
    fn brings_node(&self, cluster: &Cluster, is_other: impl Fn(&Node, &Node) -> bool) -> bool {
        match self {
            Event::NodeAdded(_) => true,
            Event::NodeChanged { node, before } => {
                let now = cluster.nodes().facts(*node);
                now.is_some_and(|now| is_other(before, now))
            }
            _ => false,
        }
    }
}

/// What a plugin says about the nodes for one pod.
#[derive(Default)]
pub struct Filtering<'c> {
    /// `None` if any will do.
    pub filter: Option<Box<dyn NodeFilter + 'c>>,
    /// The only ones that can do, where that is known without looking at all.
    pub only: Option<Vec<NodeId>>,
}

impl fmt::Debug for Filtering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "filters: {}, only: {:?}",
            self.filter.is_some(),
            self.only
        )
    }
}

/// Looks at one node after the other.
pub trait NodeFilter {
    fn check(&self, node: NodeId) -> Result<(), Refusal>;

    /// Why, in upstream's words. They follow from the refusal alone, so that equal ones are counted together.
    fn reasons(&self, refusal: Refusal) -> Vec<String>;

    /// More about one node, for people who ask: who or what stands in the way.
    fn detail(&self, _node: NodeId, _refusal: Refusal) -> Option<String> {
        None
    }
}

/// Why a node will not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Whether it could help if other pods went.
    pub is_resolvable: bool,
    /// What it is, as the filter knows it.
    pub what: u32,
}

/// No node will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unschedulable {
    pub reason: String,
}

/// Rates one node after the other.
pub trait NodeScore {
    fn score(&self, node: NodeId) -> i64;

    /// Brings the scores of all nodes that were rated to 0 ..= [`SCORE_MAX`].
    fn normalise(&self, _nodes: &[NodeId], _scores: &mut [i64]) {}
}

/// Brings scores from 0 ..= the best of them to 0 ..= [`SCORE_MAX`]. Where all are 0 they stay so.
fn normalise_by_best(scores: &mut [i64]) {
    let best = scores.iter().copied().max().unwrap_or_default();
    if best > 0 {
        for score in scores {
            *score = SCORE_MAX * *score / best;
        }
    }
}
