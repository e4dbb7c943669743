//! The counts of each distinct term, that is, of each pair of pod matcher and topology.

use std::collections::HashMap;

use rhumb_selection::SlotMap;

use super::domain_counts::DomainCounts;
use super::ids::{PodMatcherId, TermId, TopologyId};

/// The counts of a term per domain of its topology. Only pods that are assigned to a node count.
#[derive(Debug)]
pub struct TermCounts {
    pub matcher: PodMatcherId,
    pub topology: TopologyId,
    references: usize,
    /// Pods that the matcher matches.
    pub matching_pods: DomainCounts,
    /// Pods with this as a required anti-affinity term: a pod that matches cannot be placed in their domains.
    pub anti_affinity_owners: DomainCounts,
    /// Pods with this as a required affinity term.
    pub affinity_owners: DomainCounts,
    /// Sums of the weights of pods with this as a preferred term; negative for anti-affinity.
    pub preference_weights: DomainCounts,
}

/// All distinct terms, reference counted.
#[derive(Debug, Default)]
pub(super) struct TermTable {
    slots: SlotMap<TermId, TermCounts>,
    by_matcher: HashMap<(PodMatcherId, TopologyId), TermId>,
}

impl TermTable {
    pub(super) fn get(&self, id: TermId) -> &TermCounts {
        &self.slots[id]
    }

    pub(super) fn get_mut(&mut self, id: TermId) -> &mut TermCounts {
        &mut self.slots[id]
    }

    /// The id of the term, and whether it is new: then its counts are still empty and the caller must fill them.
    pub(super) fn acquire(
        &mut self,
        matcher: PodMatcherId,
        topology: TopologyId,
    ) -> (TermId, bool) {
        if let Some(known) = self.by_matcher.get(&(matcher, topology)) {
            self.slots[*known].references += 1;
            return (*known, false);
        }
        let id = self.slots.insert(TermCounts {
            matcher,
            topology,
            references: 1,
            matching_pods: DomainCounts::default(),
            anti_affinity_owners: DomainCounts::default(),
            affinity_owners: DomainCounts::default(),
            preference_weights: DomainCounts::default(),
        });
        self.by_matcher.insert((matcher, topology), id);
        (id, true)
    }

    /// Drops a reference. If it was the last one, the term is removed, and the caller must release the returned matcher
    /// and topology.
    pub(super) fn release(&mut self, id: TermId) -> Option<(PodMatcherId, TopologyId)> {
        let slot = &mut self.slots[id];
        slot.references -= 1;
        if slot.references > 0 {
            return None;
        }
        let slot = self.slots.remove(id)?;
        self.by_matcher.remove(&(slot.matcher, slot.topology));
        Some((slot.matcher, slot.topology))
    }
}

#[cfg(test)]
impl TermCounts {
    pub(super) fn references(&self) -> usize {
        self.references
    }
}

#[cfg(test)]
impl TermTable {
    pub(super) fn iter(&self) -> impl Iterator<Item = &TermCounts> {
        assert_eq!(self.by_matcher.len(), self.slots.len());
        self.slots.iter().map(|(_, slot)| slot)
    }
}
