//! Namespaces, and the namespaces that each namespace selector matches.

use rhumb_meta::labels::Selector;
use rhumb_selection::{
    IdSet, InternedLabel, Interner, PostingIndex, SelectorIndex, SlotMap, SmallIdSet,
    UntrustedKeyMap,
};

use super::ids::{NamespaceId, NamespaceSelectorId, PodId};
use crate::objects::Labels;

/// Every namespace has this label with its name, whatever its object contains.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

#[derive(Debug, Default)]
pub(crate) struct NamespaceRecord {
    name: Box<str>,
    pub(crate) labels: Box<[InternedLabel]>,
    /// Whether the object exists. Other namespaces are only known by name, from their pods and policies.
    exists: bool,
    /// The number of pods and selections that refer to it.
    references: usize,
    /// Its pods, without those in the host network.
    pub(crate) pods: SmallIdSet<PodId>,
    /// The tracked selectors that match it, sorted.
    pub(crate) selectors: Vec<NamespaceSelectorId>,
}

#[derive(Debug, Default)]
pub(crate) struct TrackedNamespaceSelector {
    pub(crate) selector: Selector,
    /// The number of selections that refer to it, and of those that need its namespaces.
    references: usize,
    active_users: usize,
    pub(crate) namespaces: IdSet<NamespaceId>,
}

#[derive(Debug, Default)]
pub(crate) struct NamespaceTable {
    by_name: UntrustedKeyMap<Box<str>, NamespaceId>,
    all: SlotMap<NamespaceId, NamespaceRecord>,
    postings: PostingIndex<NamespaceId>,
    by_selector: UntrustedKeyMap<Selector, NamespaceSelectorId>,
    selectors: SlotMap<NamespaceSelectorId, TrackedNamespaceSelector>,
    /// The tracked selectors.
    index: SelectorIndex<(), NamespaceSelectorId>,
}

impl NamespaceTable {
    pub(crate) fn existing_names(&self) -> impl Iterator<Item = &str> {
        let known = self.by_name.iter().filter(|(_, id)| self[**id].exists);
        known.map(|(name, _)| &**name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<NamespaceId> {
        self.by_name.get(name).copied()
    }

    /// Adds a reference to a namespace, which need not exist.
    pub(crate) fn acquire(&mut self, name: &str, texts: &mut Interner) -> NamespaceId {
        let id = self.find_or_insert(name, texts);
        self.all[id].references += 1;
        id
    }

    pub(crate) fn release(&mut self, id: NamespaceId) {
        self.all[id].references -= 1;
        self.drop_if_unused(id);
    }

    fn find_or_insert(&mut self, name: &str, texts: &mut Interner) -> NamespaceId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.all.insert(NamespaceRecord {
            name: name.into(),
            ..NamespaceRecord::default()
        });
        self.by_name.insert(name.into(), id);
        self.set_labels(id, &Labels::new(), texts);
        id
    }

    fn drop_if_unused(&mut self, id: NamespaceId) {
        let namespace = &self.all[id];
        if namespace.exists || namespace.references > 0 {
            return;
        }
        let Some(namespace) = self.all.remove(id) else {
            return;
        };
        self.by_name.remove(&namespace.name);
        self.postings.remove(&namespace.labels, id);
        for selector in namespace.selectors {
            self.selectors[selector].namespaces.remove(&id);
        }
    }

    /// Adds or updates a namespace. Returns whether the matching selectors changed.
    pub(crate) fn set(&mut self, name: &str, labels: &Labels, texts: &mut Interner) -> bool {
        let id = self.find_or_insert(name, texts);
        self.all[id].exists = true;
        self.set_labels(id, labels, texts)
    }

    /// Deletes a namespace. Returns whether the matching selectors changed.
    pub(crate) fn remove(&mut self, name: &str, texts: &mut Interner) -> bool {
        let Some(id) = self.find(name) else {
            return false;
        };
        let is_changed = self.set_labels(id, &Labels::new(), texts);
        self.all[id].exists = false;
        self.drop_if_unused(id);
        is_changed
    }

    fn set_labels(&mut self, id: NamespaceId, labels: &Labels, texts: &mut Interner) -> bool {
        let others = labels.iter().filter(|(key, _)| *key != NAME_LABEL);
        let mut labels = texts.intern_labels(others).into_vec();
        labels.push((texts.intern(NAME_LABEL), texts.intern(&self.all[id].name)));
        let namespace = &mut self.all[id];
        if *namespace.labels == labels {
            return false;
        }
        self.postings.remove(&namespace.labels, id);
        self.postings.insert(&labels, id);
        namespace.labels = labels.into();
        self.update_matching_selectors(id)
    }

    fn update_matching_selectors(&mut self, id: NamespaceId) -> bool {
        let labels = &self.all[id].labels;
        let candidates = self.index.candidates_for_labels((), labels);
        let matching = candidates.filter(|candidate| {
            let selector = || &self.selectors[candidate.id].selector;
            candidate.is_exact || selector().matches(&**labels)
        });
        let mut now: Vec<NamespaceSelectorId> = matching.map(|candidate| candidate.id).collect();
        now.sort_unstable();
        if self.all[id].selectors == now {
            return false;
        }
        for selector in &self.all[id].selectors {
            self.selectors[*selector].namespaces.remove(&id);
        }
        for selector in &now {
            self.selectors[*selector].namespaces.insert(id);
        }
        self.all[id].selectors = now;
        true
    }

    /// Adds a reference to a selector.
    pub(crate) fn acquire_selector(&mut self, selector: &Selector) -> NamespaceSelectorId {
        let known = self.by_selector.get(selector).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.selectors.insert(TrackedNamespaceSelector {
                selector: selector.clone(),
                ..TrackedNamespaceSelector::default()
            });
            self.by_selector.insert(selector.clone(), id);
            id
        });
        self.selectors[id].references += 1;
        id
    }

    /// Drops a reference; the caller has stopped using the selector.
    pub(crate) fn release_selector(&mut self, id: NamespaceSelectorId) {
        let selector = &mut self.selectors[id];
        selector.references -= 1;
        if selector.references == 0 {
            let held = self.selectors.remove(id);
            held.map(|held| self.by_selector.remove(&held.selector));
        }
    }

    /// Adds a user of the selector's namespaces; the first one starts tracking them.
    pub(crate) fn use_selector(&mut self, id: NamespaceSelectorId, texts: &mut Interner) {
        self.selectors[id].active_users += 1;
        if self.selectors[id].active_users > 1 {
            return;
        }
        let selector = self.selectors[id].selector.clone();
        self.index.insert_selector(&(), &selector, id, texts);
        for namespace in self.matching_namespaces(&selector, texts) {
            let selectors = &mut self.all[namespace].selectors;
            if let Err(at) = selectors.binary_search(&id) {
                selectors.insert(at, id);
            }
            self.selectors[id].namespaces.insert(namespace);
        }
    }

    pub(crate) fn stop_using_selector(&mut self, id: NamespaceSelectorId, texts: &mut Interner) {
        self.selectors[id].active_users -= 1;
        if self.selectors[id].active_users > 0 {
            return;
        }
        let selector = self.selectors[id].selector.clone();
        self.index.remove_selector(&(), &selector, id, texts);
        for namespace in std::mem::take(&mut self.selectors[id].namespaces) {
            self.all[namespace].selectors.retain(|other| *other != id);
        }
    }

    fn matching_namespaces(&self, selector: &Selector, texts: &Interner) -> Vec<NamespaceId> {
        let by_labels = self
            .postings
            .candidates(selector, texts, self.by_name.len());
        let candidates = by_labels.unwrap_or_else(|| self.by_name.values().copied().collect());
        let is_matched = |id: &NamespaceId| selector.matches(&*self[*id].labels);
        candidates.into_iter().filter(is_matched).collect()
    }

    pub(crate) fn selector(&self, id: NamespaceSelectorId) -> &TrackedNamespaceSelector {
        &self.selectors[id]
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let has_no_namespaces = self.by_name.is_empty() && self.postings.is_empty();
        has_no_namespaces && self.by_selector.is_empty() && self.index.is_empty()
    }

    pub(crate) fn insert_pod(&mut self, id: NamespaceId, pod: PodId) {
        self.all[id].pods.insert(pod);
    }

    pub(crate) fn remove_pod(&mut self, id: NamespaceId, pod: PodId) {
        self.all[id].pods.remove(pod);
    }
}

impl std::ops::Index<NamespaceId> for NamespaceTable {
    type Output = NamespaceRecord;

    fn index(&self, id: NamespaceId) -> &NamespaceRecord {
        &self.all[id]
    }
}

/// The namespace name, if the selector is nothing but an exact match of the name label.
pub(crate) fn single_namespace_name(selector: &Selector) -> Option<&str> {
    match selector.requirements()? {
        [only] if only.key() == NAME_LABEL => match only.exact_values()? {
            [name] => Some(name),
            _ => None,
        },
        _ => None,
    }
}
