//! All pods that are not terminal, indexed by uid, label and namespace.

use std::collections::HashMap;
use std::sync::Arc;

use super::ids::{IdSet, NodeId, PodId, PodMatcherId, TermId};
use super::pod_matchers::RequiredLabel;
use super::slab::TypedSlab;
use crate::model::{Labels, Pod, PodMatcher};

/// A pod with its node and its resolved terms (upstream: `framework.PodInfo`).
#[derive(Debug)]
pub struct PodInfo {
    pub pod: Arc<Pod>,
    /// The node that the pod is bound to or assumed on.
    pub(super) node_id: Option<NodeId>,
    /// The binding is not confirmed by the API server yet.
    pub(super) is_assumed: bool,
    /// All matchers that match the pod, sorted by id.
    pub(super) matched_by: Vec<PodMatcherId>,
    pub(super) terms: PodTermIds,
}

impl PodInfo {
    pub fn node_id(&self) -> Option<NodeId> {
        self.node_id
    }

    pub fn is_assumed(&self) -> bool {
        self.is_assumed
    }

    pub fn matched_by(&self) -> &[PodMatcherId] {
        &self.matched_by
    }

    pub fn terms(&self) -> &PodTermIds {
        &self.terms
    }
}

/// The ids of the affinity terms and spread constraints of a pod.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PodTermIds {
    /// Required affinity: counts pods that match all terms, in the topology of each term.
    pub affinity: Box<[TermId]>,
    /// Required affinity: counts pods per single term.
    pub affinity_single: Box<[TermId]>,
    pub anti_affinity: Box<[TermId]>,
    /// Preferred terms with their weights; negative for anti-affinity.
    pub preferred: Box<[(TermId, i64)]>,
    /// The terms of its spread constraints, counted per node, in the order of the constraints.
    pub spread: Box<[TermId]>,
    /// The same, counted per domain of the constraint's topology.
    pub spread_by_domain: Box<[TermId]>,
    /// The term of the default constraints, counted per node, if the pod has no constraints and a service or controller
    /// selects it.
    pub default_spread: Option<TermId>,
}

impl PodTermIds {
    pub(super) fn all(&self) -> impl Iterator<Item = TermId> {
        let required = self.affinity.iter().chain(&self.affinity_single);
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

/// All pods, with indexes for finding the pods that a new matcher matches.
#[derive(Debug, Default)]
pub struct PodTable {
    pub(super) slots: TypedSlab<PodId, PodInfo>,
    by_uid: HashMap<Box<str>, PodId>,
    by_label: HashMap<Box<str>, IdSet<PodId>>,
    by_namespace: HashMap<Box<str>, IdSet<PodId>>,
}

impl PodTable {
    pub fn find(&self, uid: &str) -> Option<PodId> {
        self.by_uid.get(uid).copied()
    }

    pub fn get(&self, id: PodId) -> Option<&PodInfo> {
        self.slots.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (PodId, &PodInfo)> {
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

    /// A superset of the pods that a matcher matches, as small as the indexes allow.
    pub fn candidates(&self, matcher: &PodMatcher) -> Vec<PodId> {
        let by_label = RequiredLabel::of(matcher).map(|label| match label.values {
            Some(values) => {
                let values = values.iter();
                let found = values
                    .filter_map(|value| self.by_label.get(&*label_pair_key(label.key, value)));
                found.collect::<Vec<_>>()
            }
            None => self.by_label.get(label.key).into_iter().collect(),
        });
        let by_namespace = matcher.namespaces.fixed_names().map(|names| {
            let names = names.iter();
            let found = names.filter_map(|name| self.by_namespace.get(name));
            found.collect::<Vec<_>>()
        });
        let size = |sets: &Vec<&IdSet<PodId>>| sets.iter().map(|set| set.len()).sum::<usize>();
        let sets = [by_label, by_namespace].into_iter().flatten();
        match sets.min_by_key(size) {
            Some(sets) => sets.into_iter().flatten().copied().collect(),
            None if matcher.selector.is_nothing() => Vec::new(),
            None => self.iter().map(|(id, _)| id).collect(),
        }
    }

    pub(super) fn insert(&mut self, slot: PodInfo) -> PodId {
        let pod = slot.pod.clone();
        let id = self.slots.insert(slot);
        self.by_uid.insert(pod.uid.clone(), id);
        self.index(id, &pod);
        id
    }

    pub(super) fn remove(&mut self, id: PodId) -> Option<PodInfo> {
        let slot = self.slots.remove(id)?;
        self.by_uid.remove(&slot.pod.uid);
        self.unindex(id, &slot.pod);
        Some(slot)
    }

    /// Replaces the pod object and updates the label index.
    pub(super) fn replace(&mut self, id: PodId, pod: Arc<Pod>) {
        let before = std::mem::replace(&mut self.slots[id].pod, pod.clone());
        if before.labels != pod.labels {
            self.unindex(id, &before);
            self.index(id, &pod);
        }
    }

    fn index(&mut self, id: PodId, pod: &Pod) {
        for key in label_index_keys(&pod.labels) {
            self.by_label.entry(key).or_default().insert(id);
        }
        let namespace = pod.key.namespace.clone();
        self.by_namespace.entry(namespace).or_default().insert(id);
    }

    fn unindex(&mut self, id: PodId, pod: &Pod) {
        for key in label_index_keys(&pod.labels) {
            remove_from_set(&mut self.by_label, &key, id);
        }
        remove_from_set(&mut self.by_namespace, &pod.key.namespace, id);
    }
}

fn label_index_keys(labels: &Labels) -> impl Iterator<Item = Box<str>> {
    labels
        .iter()
        .flat_map(|(key, value)| [label_pair_key(key, value), key.into()])
}

/// The index key of a label with its value. The key alone is indexed too; NUL occurs in neither.
fn label_pair_key(key: &str, value: &str) -> Box<str> {
    format!("{key}\0{value}").into()
}

fn remove_from_set(sets: &mut HashMap<Box<str>, IdSet<PodId>>, name: &str, id: PodId) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(&id);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}

#[cfg(test)]
impl PodTable {
    /// The number of pods under each index key.
    pub(super) fn entries(&self) -> Vec<(&str, usize)> {
        assert_eq!(self.by_uid.len(), self.len());
        let indexes = self.by_label.iter().chain(&self.by_namespace);
        let mut entries: Vec<_> = indexes.map(|(name, pods)| (&**name, pods.len())).collect();
        entries.sort_unstable();
        entries
    }
}
