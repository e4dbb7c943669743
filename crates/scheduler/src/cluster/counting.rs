//! Who picks whom, and how many there are where.

use std::sync::Arc;

use super::ids::{NodeId, PickerId, PodId, TermId, TopologyId};
use super::pickers::Rule;
use super::pods::{PodSlot, PodTerms};
use super::topologies::Topologies;
use super::{Cluster, Terms};
use crate::model::{NamespaceRule, Picker, Pod, Term};

impl Cluster {
    /// Counts a pod on a node once more, or (by −1) once less, wherever it counts.
    pub(super) fn count(&mut self, id: PodId, node: NodeId, times: i64) {
        let slot = &self.pods.slots[id];
        for picker in &slot.picked_by {
            for term in &self.pickers.get(*picker).terms {
                count_picked(&mut self.terms, &self.topologies, *term, node, times);
            }
        }
        let (terms, topologies) = (&mut self.terms, &self.topologies);
        let mut own =
            |term: TermId, amount: i64, tally: fn(&mut super::TermSlot) -> &mut super::Tally| {
                let slot = terms.get_mut(term);
                if let Some(domain) = topologies.get(slot.topology).domain(node) {
                    tally(slot).add(domain, amount * times);
                }
            };
        for term in &slot.terms.anti_affinity {
            own(*term, 1, |slot| &mut slot.repelling);
        }
        for term in &slot.terms.affinity_each {
            own(*term, 1, |slot| &mut slot.attached);
        }
        for (term, weight) in &slot.terms.preferred {
            own(*term, *weight, |slot| &mut slot.preferring);
        }
    }

    /// Finds out anew who picks a pod, and counts the difference.
    pub(super) fn pick_again(&mut self, id: PodId) {
        let slot = &self.pods.slots[id];
        let labels = self.namespaces.labels(&slot.facts.key.namespace);
        let after = self.pickers.picking(&slot.facts, labels);
        let before = std::mem::replace(&mut self.pods.slots[id].picked_by, after.clone());
        for picker in &before {
            if after.binary_search(picker).is_err() {
                self.count_by(*picker, id, -1);
            }
        }
        for picker in &after {
            if before.binary_search(picker).is_err() {
                self.count_by(*picker, id, 1);
            }
        }
    }

    /// The same for some pickers only, where no other can have changed its mind.
    pub(super) fn pick_again_by(&mut self, pickers: &[PickerId], id: PodId) {
        for picker in pickers {
            let slot = &self.pods.slots[id];
            let picks = self.picks(*picker, &slot.facts);
            let slot = &mut self.pods.slots[id];
            match (slot.picked_by.binary_search(picker), picks) {
                (Ok(place), false) => {
                    slot.picked_by.remove(place);
                    self.count_by(*picker, id, -1);
                }
                (Err(place), true) => {
                    slot.picked_by.insert(place, *picker);
                    self.count_by(*picker, id, 1);
                }
                _ => {}
            }
        }
    }

    /// Counts a pod, if it is somewhere, in all terms of a picker.
    fn count_by(&mut self, picker: PickerId, id: PodId, times: i64) {
        let Some(node) = self.pods.slots[id].place else {
            return;
        };
        for term in &self.pickers.get(picker).terms {
            count_picked(&mut self.terms, &self.topologies, *term, node, times);
        }
    }

    /// The terms of a pod. Whoever lets go of the pod gives them back with [`Cluster::release_terms`].
    pub(super) fn acquire_terms(&mut self, pod: &Pod) -> PodTerms {
        let affinity_each = self.acquire_each(&pod.affinity.required);
        let anti_affinity = self.acquire_each(&pod.anti_affinity.required);
        let affinity = self.acquire_together(&pod.affinity.required, &affinity_each);
        let mut preferred = Vec::new();
        for (terms, sign) in [(&pod.affinity, 1), (&pod.anti_affinity, -1)] {
            for wanted in &terms.preferred {
                let term = self.acquire_term(&wanted.term);
                preferred.push((term, i64::from(wanted.weight) * sign));
            }
        }
        let (mut spread, mut spread_by_domain) = (Vec::new(), Vec::new());
        for constraint in &pod.spread {
            let key: Arc<str> = (*constraint.topology_key).into();
            let topology = self
                .topologies
                .acquire(&key, self.nodes.described_with(&key));
            let rule = Rule::One(Arc::new(Picker {
                selector: constraint.selector.clone(),
                namespaces: NamespaceRule::only(&pod.key.namespace),
                skips_terminating: true,
            }));
            let picker = self.acquire_picker(rule.clone());
            spread.push(self.acquire_counted(picker, Topologies::EACH_NODE));
            let picker = self.acquire_picker(rule);
            spread_by_domain.push(self.acquire_counted(picker, topology));
        }
        PodTerms {
            affinity,
            affinity_each,
            anti_affinity,
            preferred: preferred.into(),
            spread: spread.into(),
            spread_by_domain: spread_by_domain.into(),
            default_spread: self.acquire_default_spread(pod),
        }
    }

    pub(super) fn release_terms(&mut self, terms: &PodTerms) {
        self.release(terms.all());
    }

    pub(super) fn release(&mut self, terms: impl IntoIterator<Item = TermId>) {
        for term in terms {
            if let Some((picker, topology)) = self.terms.release(term) {
                self.pickers
                    .get_mut(picker)
                    .terms
                    .retain(|known| *known != term);
                self.release_picker(picker);
                self.topologies.release(topology);
            }
        }
    }

    fn acquire_each(&mut self, terms: &[Term]) -> Box<[TermId]> {
        terms.iter().map(|term| self.acquire_term(term)).collect()
    }

    /// For affinity: a pod counts only if all terms pick it, and then in the topology of each.
    fn acquire_together(&mut self, terms: &[Term], each: &[TermId]) -> Box<[TermId]> {
        let mut pickers: Vec<PickerId> = each
            .iter()
            .map(|term| self.terms.get(*term).picker)
            .collect();
        pickers.sort_unstable();
        pickers.dedup();
        let rule = match pickers.as_slice() {
            [] => return Box::default(),
            [one] => self.pickers.get(*one).rule.clone(),
            _ => Rule::All(pickers.into()),
        };
        let picker = self.acquire_picker(rule);
        let together = terms.iter().map(|term| {
            self.pickers.share(picker);
            let topology = self.topologies.acquire(
                &term.topology_key,
                self.nodes.described_with(&term.topology_key),
            );
            self.acquire_counted(picker, topology)
        });
        let together = together.collect();
        self.release_picker(picker);
        together
    }

    fn acquire_term(&mut self, term: &Term) -> TermId {
        let picker = self.acquire_picker(Rule::One(term.picker.clone()));
        let topology = self.topologies.acquire(
            &term.topology_key,
            self.nodes.described_with(&term.topology_key),
        );
        self.acquire_counted(picker, topology)
    }

    /// The picker, known to all pods that it picks.
    pub(super) fn acquire_picker(&mut self, rule: Rule) -> PickerId {
        let (id, is_new) = self.pickers.acquire(rule);
        if is_new {
            for pod in self.picked_among_candidates(id) {
                let picked_by = &mut self.pods.slots[pod].picked_by;
                if let Err(place) = picked_by.binary_search(&id) {
                    picked_by.insert(place, id);
                }
            }
        }
        id
    }

    fn picked_among_candidates(&self, id: PickerId) -> Vec<PodId> {
        let rule = &self.pickers.get(id).rule;
        let mut pods = match self.pickers.leading(rule) {
            Some(picker) => self.pods.candidates(picker),
            None => Vec::new(),
        };
        pods.retain(|pod| self.picks(id, &self.pods.slots[*pod].facts));
        pods
    }

    /// The term with its counts. It has the use of the picker and the topology that came with it, or gives them back if
    /// it had them.
    pub(super) fn acquire_counted(&mut self, picker: PickerId, topology: TopologyId) -> TermId {
        let (id, is_new) = self.terms.acquire(picker, topology);
        if !is_new {
            self.release_picker(picker);
            self.topologies.release(topology);
            return id;
        }
        self.pickers.get_mut(picker).terms.push(id);
        for pod in self.picked_among_candidates(picker) {
            if let Some(node) = self.pods.get(pod).and_then(PodSlot::place) {
                count_picked(&mut self.terms, &self.topologies, id, node, 1);
            }
        }
        id
    }

    fn release_picker(&mut self, id: PickerId) {
        if !self.pickers.release(id) {
            return;
        }
        for pod in self.picked_among_candidates(id) {
            self.pods.slots[pod].picked_by.retain(|known| *known != id);
        }
        if let Some(Rule::All(members)) = self.pickers.remove(id) {
            for member in members {
                self.release_picker(member);
            }
        }
    }
}

fn count_picked(
    terms: &mut Terms,
    topologies: &Topologies,
    term: TermId,
    node: NodeId,
    times: i64,
) {
    let slot = terms.get_mut(term);
    if let Some(domain) = topologies.get(slot.topology).domain(node) {
        slot.picked.add(domain, times);
    }
}
