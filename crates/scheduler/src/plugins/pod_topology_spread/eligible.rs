//! Nodes that count: those that have all the labels, and that the pod could go to as far as that matters.

use std::cell::RefCell;
use std::sync::Arc;

use super::constraints::Constraint;
use crate::cluster::{Cluster, Id, NodeSet, TopologyId};
use crate::model::{NodePolicy, NodeSelector, Pod, Toleration};
use crate::plugins::answers::{NodeAnswers, Remembered};
use crate::plugins::taint_toleration::repelling_taint;

/// What is found out about nodes is kept until one of them changes; pods that ask the same share it.
#[derive(Debug, Default)]
pub(super) struct EligibleNodes {
    matched: NodeAnswers<Arc<NodeSelector>>,
    tolerated: NodeAnswers<Arc<[Toleration]>>,
    known: RefCell<Remembered<Question, Arc<Eligible>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    topology: TopologyId,
    /// Those that nodes must have a label of, too.
    others: Vec<TopologyId>,
    /// `None` if it does not matter, or picks all.
    selector: Option<Arc<NodeSelector>>,
    tolerations: Option<Arc<[Toleration]>>,
}

#[derive(Debug, Default)]
pub(super) struct Eligible {
    version: u64,
    pub(super) nodes: NodeSet,
    /// Whether all nodes count that have the label of the constraint.
    pub(super) is_all: bool,
    /// By number: whether a domain has a node that counts.
    pub(super) has: Vec<bool>,
    /// How many have.
    pub(super) domains: usize,
}

impl EligibleNodes {
    /// For one constraint, where nodes need the labels of all these.
    pub(super) fn ask(
        &self,
        constraint: &Constraint<'_>,
        required: &[TopologyId],
        pod: &Pod,
        cluster: &Cluster,
    ) -> Arc<Eligible> {
        let rule = constraint.rule;
        let honors_selector =
            rule.node_affinity_policy == NodePolicy::Honor && !pod.nodes.is_everything();
        let honors_taints = rule.node_taints_policy == NodePolicy::Honor;
        let others = required.iter().copied();
        let question = Question {
            topology: constraint.topology,
            others: others
                .filter(|topology| *topology != constraint.topology)
                .collect(),
            selector: honors_selector.then(|| pod.nodes.clone()),
            tolerations: honors_taints.then(|| pod.tolerations.clone()),
        };
        let mut known = self.known.borrow_mut();
        let eligible = known.ask(&question, || self.find(&question, cluster));
        if eligible.version != cluster.nodes().version() {
            *eligible = self.find(&question, cluster);
        }
        eligible.clone()
    }

    fn find(&self, question: &Question, cluster: &Cluster) -> Arc<Eligible> {
        let nodes = cluster.nodes();
        let matched = question.selector.as_ref().map(|selector| {
            self.matched
                .ask(selector, nodes, |node| selector.matches(node))
        });
        let tolerated = question.tolerations.as_ref().map(|tolerations| {
            self.tolerated.ask(tolerations, nodes, |node| {
                repelling_taint(node, tolerations).is_none()
            })
        });
        let answers: Vec<_> = matched.into_iter().chain(tolerated).collect();
        let topology = cluster.topology(question.topology);
        let others = question.others.iter();
        let others: Vec<_> = others.map(|other| cluster.topology(*other)).collect();
        let mut eligible = Eligible {
            version: nodes.version(),
            is_all: true,
            has: vec![false; topology.domains_bound()],
            ..Eligible::default()
        };
        for (id, _) in nodes.iter() {
            let Some(domain) = topology.domain(id) else {
                continue;
            };
            let has_all = others.iter().all(|other| other.domain(id).is_some());
            if has_all && answers.iter().all(|answer| answer.nodes.contains(id)) {
                eligible.nodes.set(id, true);
                let has = &mut eligible.has[domain.index()];
                eligible.domains += usize::from(!std::mem::replace(has, true));
            } else {
                eligible.is_all = false;
            }
        }
        Arc::new(eligible)
    }
}
