//! Pods, by what they are found by.

use std::collections::HashMap;
use std::sync::Arc;

use super::ids::{IdSet, NodeId, PickerId, PodId, TermId};
use super::pickers::NeededLabel;
use super::slots::Slots;
use crate::model::{Labels, Picker, Pod};

/// A pod that has not come to its end.
#[derive(Debug)]
pub struct PodSlot {
    pub facts: Arc<Pod>,
    /// Where it is, or is about to be.
    pub(super) place: Option<NodeId>,
    /// It is on its way to its place, and the server has not said so yet.
    pub(super) is_assumed: bool,
    /// All that pick it, in order of their numbers.
    pub(super) picked_by: Vec<PickerId>,
    pub(super) terms: PodTerms,
}

impl PodSlot {
    pub fn place(&self) -> Option<NodeId> {
        self.place
    }

    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    pub fn picked_by(&self) -> &[PickerId] {
        &self.picked_by
    }

    pub fn terms(&self) -> &PodTerms {
        &self.terms
    }
}

/// The terms of a pod, as the cluster counts them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PodTerms {
    /// Required affinity: pods that all of its terms pick, within the topology of each.
    pub affinity: Box<[TermId]>,
    /// The same, each term by itself.
    pub affinity_each: Box<[TermId]>,
    pub anti_affinity: Box<[TermId]>,
    /// With weights; negative for anti-affinity.
    pub preferred: Box<[(TermId, i64)]>,
    /// What its spread constraints count, on each node, in their order.
    pub spread: Box<[TermId]>,
    /// The same, in the topologies of the constraints.
    pub spread_by_domain: Box<[TermId]>,
    /// What default constraints count for it, on each node, if it has none of its own and belongs to something.
    pub default_spread: Option<TermId>,
}

impl PodTerms {
    pub(super) fn all(&self) -> impl Iterator<Item = TermId> {
        let required = self.affinity.iter().chain(&self.affinity_each);
        let preferred = self.preferred.iter().map(|(term, _)| term);
        required
            .chain(&self.anti_affinity)
            .chain(preferred)
            .chain(&self.spread)
            .chain(&self.spread_by_domain)
            .chain(&self.default_spread)
            .copied()
    }
}

#[derive(Debug, Default)]
pub struct Pods {
    pub(super) slots: Slots<PodId, PodSlot>,
    by_uid: HashMap<Box<str>, PodId>,
    by_label: HashMap<Box<str>, IdSet<PodId>>,
    by_namespace: HashMap<Box<str>, IdSet<PodId>>,
}

impl Pods {
    pub fn find(&self, uid: &str) -> Option<PodId> {
        self.by_uid.get(uid).copied()
    }

    /// A pod that is known.
    pub fn get(&self, id: PodId) -> Option<&PodSlot> {
        self.slots.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (PodId, &PodSlot)> {
        self.slots.iter()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = PodId> {
        let pods = self.by_namespace.get(namespace);
        pods.into_iter().flatten().copied()
    }

    /// Those among which all are that a picker picks, and as few others as can be told by an index.
    pub fn candidates(&self, picker: &Picker) -> Vec<PodId> {
        let by_label = NeededLabel::of(picker).map(|label| match label.values {
            Some(values) => {
                let values = values.iter();
                let found = values.filter_map(|value| self.by_label.get(&*pair(label.key, value)));
                found.collect::<Vec<_>>()
            }
            None => self.by_label.get(label.key).into_iter().collect(),
        });
        let by_namespace = picker.namespaces.fixed_names().map(|names| {
            let names = names.iter();
            let found = names.filter_map(|name| self.by_namespace.get(name));
            found.collect::<Vec<_>>()
        });
        let size = |sets: &Vec<&IdSet<PodId>>| sets.iter().map(|set| set.len()).sum::<usize>();
        let sets = [by_label, by_namespace].into_iter().flatten();
        match sets.min_by_key(size) {
            Some(sets) => sets.into_iter().flatten().copied().collect(),
            None if picker.selector.is_nothing() => Vec::new(),
            None => self.iter().map(|(id, _)| id).collect(),
        }
    }

    pub(super) fn insert(&mut self, slot: PodSlot) -> PodId {
        let facts = slot.facts.clone();
        let id = self.slots.insert(slot);
        self.by_uid.insert(facts.uid.clone(), id);
        self.index(id, &facts);
        id
    }

    pub(super) fn remove(&mut self, id: PodId) -> Option<PodSlot> {
        let slot = self.slots.remove(id)?;
        self.by_uid.remove(&slot.facts.uid);
        self.unindex(id, &slot.facts);
        Some(slot)
    }

    /// Gives a pod other facts.
    pub(super) fn replace(&mut self, id: PodId, facts: Arc<Pod>) {
        let before = std::mem::replace(&mut self.slots[id].facts, facts.clone());
        if before.labels != facts.labels {
            self.unindex(id, &before);
            self.index(id, &facts);
        }
    }

    fn index(&mut self, id: PodId, facts: &Pod) {
        for place in places(&facts.labels) {
            self.by_label.entry(place).or_default().insert(id);
        }
        let namespace = facts.key.namespace.clone();
        self.by_namespace.entry(namespace).or_default().insert(id);
    }

    fn unindex(&mut self, id: PodId, facts: &Pod) {
        for place in places(&facts.labels) {
            leave(&mut self.by_label, &place, id);
        }
        leave(&mut self.by_namespace, &facts.key.namespace, id);
    }
}

fn places(labels: &Labels) -> impl Iterator<Item = Box<str>> {
    labels
        .iter()
        .flat_map(|(key, value)| [pair(key, value), key.into()])
}

/// A label with its value; without, it is the key alone. Neither keys nor values have a control character in them.
fn pair(key: &str, value: &str) -> Box<str> {
    format!("{key}\0{value}").into()
}

fn leave(sets: &mut HashMap<Box<str>, IdSet<PodId>>, name: &str, id: PodId) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}

#[cfg(test)]
impl Pods {
    /// How many pods are found under each label and namespace.
    pub(super) fn entries(&self) -> Vec<(&str, usize)> {
        assert_eq!(self.by_uid.len(), self.len());
        let indexes = self.by_label.iter().chain(&self.by_namespace);
        let mut entries: Vec<_> = indexes.map(|(name, pods)| (&**name, pods.len())).collect();
        entries.sort_unstable();
        entries
    }
}
