//! All pods that are not terminal, indexed by uid, label and namespace.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_selection::{IdSet, InternedLabel, Interner, PostingIndex, SlotMap};

use super::ids::{NodeId, PodId, PodMatcherId, TermId};
use crate::model::{Pod, PodMatcher};

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
    pub(super) slots: SlotMap<PodId, PodInfo>,
    by_uid: HashMap<Box<str>, PodId>,
    by_label: PostingIndex<PodId>,
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
    pub(super) fn candidates(&self, matcher: &PodMatcher, interner: &Interner) -> Vec<PodId> {
        let by_namespace = matcher.namespaces.fixed_names().map(|names| {
            let names = names.iter();
            let found = names.filter_map(|name| self.by_namespace.get(name));
            found.collect::<Vec<&IdSet<PodId>>>()
        });
        let limit = by_namespace.as_ref().map_or(usize::MAX, |sets| {
            sets.iter().map(|set| set.len()).sum::<usize>()
        });
        let by_label = self.by_label.candidates(&matcher.selector, interner, limit);
        by_label.unwrap_or_else(|| match by_namespace {
            Some(sets) => sets.into_iter().flatten().copied().collect(),
            None => self.iter().map(|(id, _)| id).collect(),
        })
    }

    /// Adds a pod. `labels` are those of the pod.
    pub(super) fn insert(&mut self, slot: PodInfo, labels: &[InternedLabel]) -> PodId {
        let pod = slot.pod.clone();
        let id = self.slots.insert(slot);
        self.by_uid.insert(pod.uid.clone(), id);
        self.by_label.insert(labels, id);
        let namespace = pod.key.namespace.clone();
        self.by_namespace.entry(namespace).or_default().insert(id);
        id
    }

    pub(super) fn remove(&mut self, id: PodId, interner: &mut Interner) -> Option<PodInfo> {
        let slot = self.slots.remove(id)?;
        self.by_uid.remove(&slot.pod.uid);
        let labels = interner.intern_labels(slot.pod.labels.iter());
        self.by_label.remove(&labels, id);
        let namespace = &slot.pod.key.namespace;
        if let Some(pods) = self.by_namespace.get_mut(namespace) {
            pods.remove(&id);
            if pods.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
        Some(slot)
    }

    /// Replaces the pod object and updates the label index. The namespace of a pod never changes.
    pub(super) fn replace(&mut self, id: PodId, pod: Arc<Pod>, interner: &mut Interner) {
        let old_pod = std::mem::replace(&mut self.slots[id].pod, pod.clone());
        if old_pod.labels != pod.labels {
            let labels = interner.intern_labels(old_pod.labels.iter());
            self.by_label.remove(&labels, id);
            let labels = interner.intern_labels(pod.labels.iter());
            self.by_label.insert(&labels, id);
        }
    }
}

#[cfg(test)]
impl PodTable {
    /// The number of pods with each label, and in each namespace.
    pub(super) fn entries(&self) -> Vec<(String, usize)> {
        assert_eq!(self.by_uid.len(), self.len());
        let by_label = self.by_label.label_counts();
        let by_label = by_label.map(|(key, value, count)| (format!("{key}={value}"), count));
        let by_namespace = self.by_namespace.iter();
        let by_namespace = by_namespace.map(|(name, pods)| (name.to_string(), pods.len()));
        let mut entries: Vec<_> = by_label.chain(by_namespace).collect();
        entries.sort_unstable();
        entries
    }
}
