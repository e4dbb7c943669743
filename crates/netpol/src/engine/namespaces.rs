//! Namespaces, and which of them selectors pick.

use rhumb_meta::labels::Selector;

use super::few::Few;
use super::hashing::{IdSet, WordMap};
use super::index::{Index, Postings};
use super::slots::{NamespaceId, NamespaceSelectorId, PodId, Slots};
use super::text::{Label, Texts};
use crate::objects::Labels;

/// Every namespace has its name under it, whatever its object says.
pub(crate) const NAME_LABEL: &str = "kubernetes.io/metadata.name";

#[derive(Debug, Default)]
pub(crate) struct Namespace {
    name: Box<str>,
    pub(crate) labels: Box<[Label]>,
    /// Whether its object is there. Of others only the name is known, from their pods and policies.
    is_known: bool,
    /// How many pods and selections name it.
    holders: usize,
    /// Those that selectors can pick.
    pub(crate) pods: Few<PodId>,
    /// The selectors in use that pick it, in order.
    pub(crate) selectors: Vec<NamespaceSelectorId>,
}

#[derive(Debug, Default)]
pub(crate) struct NamespaceSelector {
    pub(crate) selector: Selector,
    /// How many selections name it, and how many of them need to know its namespaces.
    holders: usize,
    users: usize,
    pub(crate) namespaces: IdSet<NamespaceId>,
}

#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    by_name: WordMap<Box<str>, NamespaceId>,
    all: Slots<NamespaceId, Namespace>,
    postings: Postings<NamespaceId>,
    by_selector: WordMap<Selector, NamespaceSelectorId>,
    selectors: Slots<NamespaceSelectorId, NamespaceSelector>,
    /// The selectors in use.
    index: Index<(), NamespaceSelectorId>,
}

impl Namespaces {
    pub(crate) fn known(&self) -> impl Iterator<Item = &str> {
        let known = self.by_name.iter().filter(|(_, id)| self[**id].is_known);
        known.map(|(name, _)| &**name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<NamespaceId> {
        self.by_name.get(name).copied()
    }

    /// The namespace, known or not, for one more who names it.
    pub(crate) fn hold(&mut self, name: &str, texts: &mut Texts) -> NamespaceId {
        let id = self.find_or_insert(name, texts);
        self.all[id].holders += 1;
        id
    }

    pub(crate) fn release(&mut self, id: NamespaceId) {
        self.all[id].holders -= 1;
        self.forget_unused(id);
    }

    fn find_or_insert(&mut self, name: &str, texts: &mut Texts) -> NamespaceId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.all.insert(Namespace {
            name: name.into(),
            ..Namespace::default()
        });
        self.by_name.insert(name.into(), id);
        self.label(id, &Labels::new(), texts);
        id
    }

    fn forget_unused(&mut self, id: NamespaceId) {
        let namespace = &self.all[id];
        if namespace.is_known || namespace.holders > 0 {
            return;
        }
        let namespace = self.all.remove(id);
        self.by_name.remove(&namespace.name);
        self.postings.remove(&namespace.labels, id);
        for selector in namespace.selectors {
            self.selectors[selector].namespaces.remove(&id);
        }
    }

    /// Whether other selectors pick it now.
    pub(crate) fn set(&mut self, name: &str, labels: &Labels, texts: &mut Texts) -> bool {
        let id = self.find_or_insert(name, texts);
        self.all[id].is_known = true;
        self.label(id, labels, texts)
    }

    /// The namespace, if it is still named, and other selectors pick it now.
    pub(crate) fn remove(&mut self, name: &str, texts: &mut Texts) -> bool {
        let Some(id) = self.find(name) else {
            return false;
        };
        let is_changed = self.label(id, &Labels::new(), texts);
        self.all[id].is_known = false;
        self.forget_unused(id);
        is_changed
    }

    fn label(&mut self, id: NamespaceId, labels: &Labels, texts: &mut Texts) -> bool {
        let others = labels.iter().filter(|(key, _)| *key != NAME_LABEL);
        let mut labels = texts.intern_all(others).into_vec();
        labels.push((texts.intern(NAME_LABEL), texts.intern(&self.all[id].name)));
        let namespace = &mut self.all[id];
        if *namespace.labels == labels {
            return false;
        }
        self.postings.remove(&namespace.labels, id);
        self.postings.insert(&labels, id);
        namespace.labels = labels.into();
        self.select_again(id)
    }

    fn select_again(&mut self, id: NamespaceId) -> bool {
        let labels = &self.all[id].labels;
        let candidates = self.index.candidates((), labels);
        let picking = candidates.filter(|candidate| {
            let selector = || &self.selectors[candidate.id].selector;
            candidate.is_certain || selector().matches(&**labels)
        });
        let mut now: Vec<NamespaceSelectorId> = picking.map(|candidate| candidate.id).collect();
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

    /// The selector, for one more who names it.
    pub(crate) fn hold_selector(&mut self, selector: &Selector) -> NamespaceSelectorId {
        let known = self.by_selector.get(selector).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.selectors.insert(NamespaceSelector {
                selector: selector.clone(),
                ..NamespaceSelector::default()
            });
            self.by_selector.insert(selector.clone(), id);
            id
        });
        self.selectors[id].holders += 1;
        id
    }

    /// For one who does not use it.
    pub(crate) fn release_selector(&mut self, id: NamespaceSelectorId) {
        let selector = &mut self.selectors[id];
        selector.holders -= 1;
        if selector.holders == 0 {
            let selector = self.selectors.remove(id);
            self.by_selector.remove(&selector.selector);
        }
    }

    /// From now on its namespaces are known.
    pub(crate) fn use_selector(&mut self, id: NamespaceSelectorId, texts: &mut Texts) {
        self.selectors[id].users += 1;
        if self.selectors[id].users > 1 {
            return;
        }
        let selector = self.selectors[id].selector.clone();
        self.index.insert((), &selector, id, texts);
        for namespace in self.picked_by(&selector, texts) {
            let selectors = &mut self.all[namespace].selectors;
            if let Err(at) = selectors.binary_search(&id) {
                selectors.insert(at, id);
            }
            self.selectors[id].namespaces.insert(namespace);
        }
    }

    pub(crate) fn disuse_selector(&mut self, id: NamespaceSelectorId, texts: &mut Texts) {
        self.selectors[id].users -= 1;
        if self.selectors[id].users > 0 {
            return;
        }
        let selector = self.selectors[id].selector.clone();
        self.index.remove((), &selector, id, texts);
        for namespace in std::mem::take(&mut self.selectors[id].namespaces) {
            self.all[namespace].selectors.retain(|other| *other != id);
        }
    }

    fn picked_by(&self, selector: &Selector, texts: &Texts) -> Vec<NamespaceId> {
        let few = self
            .postings
            .candidates(selector, texts, self.by_name.len());
        let candidates = few.unwrap_or_else(|| self.by_name.values().copied().collect());
        let is_picked = |id: &NamespaceId| selector.matches(&*self[*id].labels);
        candidates.into_iter().filter(is_picked).collect()
    }

    pub(crate) fn selector(&self, id: NamespaceSelectorId) -> &NamespaceSelector {
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

impl std::ops::Index<NamespaceId> for Namespaces {
    type Output = Namespace;

    fn index(&self, id: NamespaceId) -> &Namespace {
        &self.all[id]
    }
}

/// The only namespace that a selector can pick, if it names one and asks for nothing else.
pub(crate) fn only_name(selector: &Selector) -> Option<&str> {
    match selector.requirements()? {
        [only] if only.key() == NAME_LABEL => match only.exact_values()? {
            [name] => Some(name),
            _ => None,
        },
        _ => None,
    }
}
