//! The constraints that hold for a pod: its own, or the default ones.

use super::PodTopologySpread;
use crate::cluster::{Cluster, PickerId, PodSlot, Tally, TermId, TopologyId};
use crate::model::{SpreadConstraint, WhenUnsatisfiable};

pub(super) struct Constraint<'c> {
    pub(super) rule: &'c SpreadConstraint,
    pub(super) topology: TopologyId,
    pub(super) picker: PickerId,
    /// The pods that count, on each node. `None` if nobody does: as upstream, an empty selector counts nobody.
    pub(super) on_nodes: Option<&'c Tally>,
    /// The same by domain, wherever they are; `None` where that is not kept.
    pub(super) by_domain: Option<&'c Tally>,
    /// Whether the pod itself counts once it is there.
    pub(super) picks_itself: bool,
}

impl PodTopologySpread {
    pub(super) fn constraints<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        when: WhenUnsatisfiable,
    ) -> Vec<Constraint<'c>> {
        if pod.facts.spread.is_empty() {
            self.default_constraints(pod, cluster, when)
        } else {
            own_constraints(pod, cluster, when)
        }
    }

    fn default_constraints<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        when: WhenUnsatisfiable,
    ) -> Vec<Constraint<'c>> {
        let Some(term) = pod.terms().default_spread else {
            return Vec::new();
        };
        let rules = self.defaults.iter();
        let rules = rules.filter(|rule| rule.when_unsatisfiable == when);
        rules
            .filter_map(|rule| {
                let topology = cluster.topology_of(&rule.topology_key)?;
                Some(Constraint::new(rule, topology, term, None, pod, cluster))
            })
            .collect()
    }
}

fn own_constraints<'c>(
    pod: &'c PodSlot,
    cluster: &'c Cluster,
    when: WhenUnsatisfiable,
) -> Vec<Constraint<'c>> {
    let terms = pod.terms();
    let terms = terms.spread.iter().zip(&terms.spread_by_domain);
    let all = pod.facts.spread.iter().zip(terms);
    all.filter(|(rule, _)| rule.when_unsatisfiable == when)
        .map(|(rule, (on_nodes, by_domain))| {
            let by_domain = cluster.term(*by_domain);
            let kept = Some(&by_domain.picked);
            let own = Constraint::new(rule, by_domain.topology, *on_nodes, kept, pod, cluster);
            let counts_nobody = rule.selector.is_everything();
            Constraint {
                on_nodes: own.on_nodes.filter(|_| !counts_nobody),
                ..own
            }
        })
        .collect()
}

impl<'c> Constraint<'c> {
    fn new(
        rule: &'c SpreadConstraint,
        topology: TopologyId,
        on_nodes: TermId,
        by_domain: Option<&'c Tally>,
        pod: &PodSlot,
        cluster: &'c Cluster,
    ) -> Constraint<'c> {
        let term = cluster.term(on_nodes);
        Constraint {
            rule,
            topology,
            picker: term.picker,
            on_nodes: Some(&term.picked),
            by_domain,
            picks_itself: pod.picked_by().binary_search(&term.picker).is_ok(),
        }
    }
}
