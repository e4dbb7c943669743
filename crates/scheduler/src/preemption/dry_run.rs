//! Who would have to leave a node.

use super::Preemptor;
use super::choice::{Candidate, importance};
use crate::cluster::{Cluster, NodeId, PodId};

/// Why it would not help if others left.
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InVain {
    pub(super) reasons: Vec<String>,
    /// That objects even then.
    pub(super) plugin: Option<usize>,
}

impl InVain {
    /// Nobody on the node is less important.
    pub(super) fn without_victims() -> InVain {
        InVain::said(NO_VICTIMS.to_owned())
    }

    fn said(reason: String) -> InVain {
        InVain {
            reasons: vec![reason],
            plugin: None,
        }
    }
}

impl Preemptor<'_> {
    /// Takes off all who are less important, and puts back whom it can. In the end all are where they were.
    pub(super) fn dry_run(
        &self,
        cluster: &mut Cluster,
        pod: PodId,
        priority: i32,
        node: NodeId,
    ) -> Result<Candidate, InVain> {
        if !self.ranks.has_lower_on(node, priority) {
            return Err(InVain::without_victims());
        }
        let less_important = less_important(cluster, node, priority);
        for other in &less_important {
            cluster.suppose(*other, None);
        }
        let answer = self.spare(cluster, pod, node, less_important.clone());
        for other in less_important {
            cluster.suppose(other, Some(node));
        }
        answer
    }

    /// Puts back as many as can stay: first those that would overdraw a budget, and the more important before others.
    fn spare(
        &self,
        cluster: &mut Cluster,
        pod: PodId,
        node: NodeId,
        less_important: Vec<PodId>,
    ) -> Result<Candidate, InVain> {
        if let Err((objection, reasons)) = self.accepts(cluster, pod, node) {
            let plugin = Some(objection.plugin);
            return Err(InVain { reasons, plugin });
        }
        let (overdrawing, others) = self.budgets.part(cluster, less_important);
        let mut candidate = Candidate {
            node,
            victims: Vec::new(),
            overdrawing: 0,
        };
        for (group, is_overdrawing) in [(overdrawing, true), (others, false)] {
            for other in group {
                cluster.suppose(other, Some(node));
                if self.accepts(cluster, pod, node).is_err() {
                    cluster.suppose(other, None);
                    candidate.victims.push(other);
                    candidate.overdrawing += usize::from(is_overdrawing);
                }
            }
        }
        if candidate.victims.is_empty() {
            let name = &cluster.nodes().get(node).name;
            let said = format!("expected at least one victim pod on node {name:?}");
            return Err(InVain::said(said));
        }
        candidate
            .victims
            .sort_by_key(|victim| by_importance(cluster, *victim));
        Ok(candidate)
    }
}

/// The pods on a node that have a lower priority, the most important first.
fn less_important(cluster: &Cluster, node: NodeId, priority: i32) -> Vec<PodId> {
    let pods = cluster.nodes().get(node).pods().iter().copied();
    let mut found: Vec<PodId> = pods
        .filter(|pod| {
            let slot = cluster.pods().get(*pod);
            slot.is_some_and(|slot| slot.facts.priority < priority)
        })
        .collect();
    found.sort_by_key(|pod| by_importance(cluster, *pod));
    found
}

fn by_importance(
    cluster: &Cluster,
    pod: PodId,
) -> Option<((std::cmp::Reverse<i32>, super::choice::Start), PodId)> {
    let slot = cluster.pods().get(pod)?;
    Some((importance(&slot.facts), pod))
}
