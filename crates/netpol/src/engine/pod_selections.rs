//! Pod selections: the sets of pods that policies have as targets or as peers. Equal selections are shared.

use rhumb_meta::labels::Selector;
use rhumb_selection::{IdMap, SelectorIndex, SlotMap, SmallIdSet, UntrustedKeyMap};

use super::ids::{NamespaceId, NamespaceSelectorId, PodId, PolicyId, SelectionId, SelectorId};
use super::pod_counts_by_node::PodCountsByNode;

/// The namespaces of a selection: one by name, or those that a namespace selector matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NamespaceScope {
    Named(NamespaceId),
    Matching(NamespaceSelectorId),
}

impl Default for NamespaceScope {
    fn default() -> Self {
        NamespaceScope::Named(NamespaceId::default())
    }
}

/// Identity of a selection; policies with the same key share it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct PodSelectionKey {
    pub(crate) namespaces: NamespaceScope,
    pods: SelectorId,
    /// Whether it is limited to pods of the engine's node.
    pub(crate) is_local: bool,
}

#[derive(Debug, Default)]
pub(crate) struct PodSelection {
    pub(crate) key: PodSelectionKey,
    pub(crate) pods: Selector,
    /// The number of references by policies, and of those that need its members.
    pub(crate) references: u32,
    pub(crate) active_users: u32,
    /// Whether `members` is kept up to date.
    pub(crate) is_tracked: bool,
    pub(crate) members: SmallIdSet<PodId>,
    /// Pods per node; `Some` once a policy has it as target, while its members are tracked.
    pub(crate) pod_counts: Option<PodCountsByNode>,
    /// The policies that have it as target, and as peer.
    pub(crate) targeted_by: SmallIdSet<PolicyId>,
    pub(crate) peer_of: SmallIdSet<PolicyId>,
}

#[derive(Debug, Default)]
pub(crate) struct PodSelectionTable {
    by_key: IdMap<PodSelectionKey, SelectionId>,
    all: SlotMap<SelectionId, PodSelection>,
    selectors: PodSelectorInterner,
    /// The selections whose members are tracked.
    pub(crate) index: SelectorIndex<NamespaceScope, SelectionId>,
}

impl PodSelectionTable {
    /// Adds a reference to a selection. Returns whether it is new.
    pub(crate) fn acquire(
        &mut self,
        scope: NamespaceScope,
        pods: Selector,
        is_local: bool,
    ) -> (SelectionId, bool) {
        let key = PodSelectionKey {
            namespaces: scope,
            pods: self.selectors.acquire(&pods),
            is_local,
        };
        if let Some(id) = self.by_key.get(&key).copied() {
            self.selectors.release(key.pods);
            self.all[id].references += 1;
            return (id, false);
        }
        let id = self.all.insert(PodSelection {
            key,
            pods: self.selectors.all[key.pods].selector.clone(),
            references: 1,
            ..PodSelection::default()
        });
        self.by_key.insert(key, id);
        (id, true)
    }

    /// `None` if the selection has been dropped.
    pub(crate) fn get(&self, id: SelectionId) -> Option<&PodSelection> {
        self.all.get(id)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let has_none = self.by_key.is_empty() && self.selectors.by_selector.is_empty();
        has_none && self.index.is_empty()
    }

    pub(crate) fn remove(&mut self, id: SelectionId) -> Option<PodSelection> {
        let selection = self.all.remove(id)?;
        self.by_key.remove(&selection.key);
        self.selectors.release(selection.key.pods);
        Some(selection)
    }
}

/// Stores each distinct pod selector once, so that selection keys compare by id. There are few distinct selectors,
/// however many namespaces use them.
#[derive(Debug, Default)]
struct PodSelectorInterner {
    by_selector: UntrustedKeyMap<Selector, SelectorId>,
    all: SlotMap<SelectorId, RefCountedSelector>,
}

#[derive(Debug, Default)]
struct RefCountedSelector {
    selector: Selector,
    references: usize,
}

impl PodSelectorInterner {
    fn acquire(&mut self, selector: &Selector) -> SelectorId {
        let known = self.by_selector.get(selector).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.all.insert(RefCountedSelector {
                selector: selector.clone(),
                references: 0,
            });
            self.by_selector.insert(selector.clone(), id);
            id
        });
        self.all[id].references += 1;
        id
    }

    fn release(&mut self, id: SelectorId) {
        self.all[id].references -= 1;
        if self.all[id].references == 0 {
            let held = self.all.remove(id);
            held.map(|held| self.by_selector.remove(&held.selector));
        }
    }
}

impl std::ops::Index<SelectionId> for PodSelectionTable {
    type Output = PodSelection;

    fn index(&self, id: SelectionId) -> &PodSelection {
        &self.all[id]
    }
}

impl std::ops::IndexMut<SelectionId> for PodSelectionTable {
    fn index_mut(&mut self, id: SelectionId) -> &mut PodSelection {
        &mut self.all[id]
    }
}
