//! Updates of the counts per term and topology domain when pods, nodes, matchers or terms change.

use std::sync::Arc;

use super::ids::{NodeId, PodId, PodMatcherId, TermId, TopologyId};
use super::pod_matchers::MatcherRule;
use super::pods::{PodInfo, PodTermIds};
use super::topologies::TopologyTable;
use super::{ClusterState, TermTable};
use crate::model::{Pod, PodAffinityTerm, PodMatcher, TermNamespaces};

impl ClusterState {
    /// Adds a pod on a node to all counts that it contributes to (`times` 1), or removes it from them (−1).
    pub(super) fn adjust_counts(&mut self, id: PodId, node: NodeId, times: i64) {
        let slot = &self.pods.slots[id];
        for matcher in &slot.matched_by {
            for term in &self.matchers.get(*matcher).terms {
                adjust_matching_pods(&mut self.terms, &self.topologies, *term, node, times);
            }
        }
        let (terms, topologies) = (&mut self.terms, &self.topologies);
        let mut own =
            |term: TermId,
             amount: i64,
             select_counts: fn(&mut super::TermCounts) -> &mut super::DomainCounts| {
                let slot = terms.get_mut(term);
                if let Some(domain) = topologies.get(slot.topology).domain(node) {
                    select_counts(slot).add(domain, amount * times);
                }
            };
        for term in &slot.terms.anti_affinity {
            own(*term, 1, |slot| &mut slot.anti_affinity_owners);
        }
        for term in &slot.terms.affinity_single {
            own(*term, 1, |slot| &mut slot.affinity_owners);
        }
        for (term, weight) in &slot.terms.preferred {
            own(*term, *weight, |slot| &mut slot.preference_weights);
        }
    }

    /// Recomputes which matchers match a pod and updates the counts by the difference.
    pub(super) fn rematch_pod(&mut self, id: PodId) {
        let slot = &self.pods.slots[id];
        let labels = self.interner.intern_labels(slot.pod.labels.iter());
        let namespace_labels = self.namespaces.labels(&slot.pod.key.namespace);
        let matchers = &self.matchers;
        let after = matchers.matching(&slot.pod, &labels, namespace_labels, &self.interner);
        let old = std::mem::replace(&mut self.pods.slots[id].matched_by, after.clone());
        for matcher in &old {
            if after.binary_search(matcher).is_err() {
                self.adjust_matcher_counts(*matcher, id, -1);
            }
        }
        for matcher in &after {
            if old.binary_search(matcher).is_err() {
                self.adjust_matcher_counts(*matcher, id, 1);
            }
        }
    }

    /// As `rematch_pod`, for some matchers only, when the result of all others is known to be unchanged.
    pub(super) fn rematch_pod_with(&mut self, matchers: &[PodMatcherId], id: PodId) {
        for matcher in matchers {
            let slot = &self.pods.slots[id];
            let picks = self.matches(*matcher, &slot.pod);
            let slot = &mut self.pods.slots[id];
            match (slot.matched_by.binary_search(matcher), picks) {
                (Ok(index), false) => {
                    slot.matched_by.remove(index);
                    self.adjust_matcher_counts(*matcher, id, -1);
                }
                (Err(index), true) => {
                    slot.matched_by.insert(index, *matcher);
                    self.adjust_matcher_counts(*matcher, id, 1);
                }
                _ => {}
            }
        }
    }

    /// Updates the counts of all terms of a matcher by one pod, if the pod is on a node.
    fn adjust_matcher_counts(&mut self, matcher: PodMatcherId, id: PodId, times: i64) {
        let Some(node) = self.pods.slots[id].node_id else {
            return;
        };
        for term in &self.matchers.get(matcher).terms {
            adjust_matching_pods(&mut self.terms, &self.topologies, *term, node, times);
        }
    }

    /// Acquires references to all terms of a pod. Must be paired with [`ClusterState::release_terms`].
    pub(super) fn acquire_terms(&mut self, pod: &Pod) -> PodTermIds {
        let affinity_each = self.acquire_single_terms(&pod.affinity.required);
        let anti_affinity = self.acquire_single_terms(&pod.anti_affinity.required);
        let affinity = self.acquire_conjunction(&pod.affinity.required, &affinity_each);
        let mut preferred = Vec::new();
        for (terms, sign) in [(&pod.affinity, 1), (&pod.anti_affinity, -1)] {
            for weighted in &terms.preferred {
                let term = self.acquire_term(&weighted.term);
                preferred.push((term, i64::from(weighted.weight) * sign));
            }
        }
        let (mut spread, mut spread_by_domain) = (Vec::new(), Vec::new());
        for constraint in &pod.spread_constraints {
            let key: Arc<str> = (*constraint.topology_key).into();
            let topology = self
                .topologies
                .acquire(&key, self.nodes.known_nodes_with_label(&key));
            let rule = MatcherRule::One(Arc::new(PodMatcher {
                selector: constraint.selector.clone(),
                namespaces: TermNamespaces::only(&pod.key.namespace),
                skips_terminating: true,
            }));
            let matcher = self.acquire_matcher(rule.clone());
            spread.push(self.acquire_term_counts(matcher, TopologyTable::EACH_NODE));
            let matcher = self.acquire_matcher(rule);
            spread_by_domain.push(self.acquire_term_counts(matcher, topology));
        }
        PodTermIds {
            affinity,
            affinity_single: affinity_each,
            anti_affinity,
            preferred: preferred.into(),
            spread: spread.into(),
            spread_by_domain: spread_by_domain.into(),
            default_spread: self.acquire_default_spread(pod),
        }
    }

    pub(super) fn release_terms(&mut self, terms: &PodTermIds) {
        self.release_term_ids(terms.all());
    }

    pub(super) fn release_term_ids(&mut self, terms: impl IntoIterator<Item = TermId>) {
        for term in terms {
            if let Some((matcher, topology)) = self.terms.release(term) {
                self.matchers
                    .get_mut(matcher)
                    .terms
                    .retain(|known| *known != term);
                self.release_matcher(matcher);
                self.topologies.release(topology);
            }
        }
    }

    fn acquire_single_terms(&mut self, terms: &[PodAffinityTerm]) -> Box<[TermId]> {
        terms.iter().map(|term| self.acquire_term(term)).collect()
    }

    /// For required affinity: a pod counts only if all terms match it, and then in the topology of each term.
    fn acquire_conjunction(&mut self, terms: &[PodAffinityTerm], each: &[TermId]) -> Box<[TermId]> {
        let mut matchers: Vec<PodMatcherId> = each
            .iter()
            .map(|term| self.terms.get(*term).matcher)
            .collect();
        matchers.sort_unstable();
        matchers.dedup();
        let rule = match matchers.as_slice() {
            [] => return Box::default(),
            [one] => self.matchers.get(*one).rule.clone(),
            _ => MatcherRule::All(matchers.into()),
        };
        let matcher = self.acquire_matcher(rule);
        let conjunction = terms.iter().map(|term| {
            self.matchers.add_reference(matcher);
            let topology = self.topologies.acquire(
                &term.topology_key,
                self.nodes.known_nodes_with_label(&term.topology_key),
            );
            self.acquire_term_counts(matcher, topology)
        });
        let conjunction = conjunction.collect();
        self.release_matcher(matcher);
        conjunction
    }

    fn acquire_term(&mut self, term: &PodAffinityTerm) -> TermId {
        let matcher = self.acquire_matcher(MatcherRule::One(term.matcher.clone()));
        let topology = self.topologies.acquire(
            &term.topology_key,
            self.nodes.known_nodes_with_label(&term.topology_key),
        );
        self.acquire_term_counts(matcher, topology)
    }

    /// Acquires a matcher. A new one is added to `matched_by` of every pod that it matches.
    pub(super) fn acquire_matcher(&mut self, rule: MatcherRule) -> PodMatcherId {
        let (id, is_new) = self.matchers.acquire(rule, &mut self.interner);
        if is_new {
            for pod in self.matching_pods(id) {
                let matched_by = &mut self.pods.slots[pod].matched_by;
                if let Err(index) = matched_by.binary_search(&id) {
                    matched_by.insert(index, id);
                }
            }
        }
        id
    }

    fn matching_pods(&self, id: PodMatcherId) -> Vec<PodId> {
        let rule = &self.matchers.get(id).rule;
        let mut pods = match self.matchers.indexed_member(rule) {
            Some(matcher) => self.pods.candidates(matcher, &self.interner),
            None => Vec::new(),
        };
        pods.retain(|pod| self.matches(id, &self.pods.slots[*pod].pod));
        pods
    }

    /// Acquires the counts of a term. Takes over the caller's references to the matcher and the topology; if the term
    /// exists already it has its own, and these are released.
    pub(super) fn acquire_term_counts(
        &mut self,
        matcher: PodMatcherId,
        topology: TopologyId,
    ) -> TermId {
        let (id, is_new) = self.terms.acquire(matcher, topology);
        if !is_new {
            self.release_matcher(matcher);
            self.topologies.release(topology);
            return id;
        }
        self.matchers.get_mut(matcher).terms.push(id);
        for pod in self.matching_pods(matcher) {
            if let Some(node) = self.pods.get(pod).and_then(PodInfo::node_id) {
                adjust_matching_pods(&mut self.terms, &self.topologies, id, node, 1);
            }
        }
        id
    }

    fn release_matcher(&mut self, id: PodMatcherId) {
        if !self.matchers.release(id) {
            return;
        }
        for pod in self.matching_pods(id) {
            self.pods.slots[pod].matched_by.retain(|known| *known != id);
        }
        if let Some(MatcherRule::All(members)) = self.matchers.remove(id, &mut self.interner) {
            for member in members {
                self.release_matcher(member);
            }
        }
    }
}

fn adjust_matching_pods(
    terms: &mut TermTable,
    topologies: &TopologyTable,
    term: TermId,
    node: NodeId,
    times: i64,
) {
    let slot = terms.get_mut(term);
    if let Some(domain) = topologies.get(slot.topology).domain(node) {
        slot.matching_pods.add(domain, times);
    }
}
