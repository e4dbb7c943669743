//! Sets of pods that policies speak of: whom they are about, and who their peers are.

use rhumb_meta::labels::Selector;

use super::few::Few;
use super::hashing::{IdMap, WordMap};
use super::index::Index;
use super::slots::{
    NamespaceId, NamespaceSelectorId, PodId, PolicyId, SelectionId, SelectorId, Slots,
};
use super::spread::Spread;

/// Where the pods of a selection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Exactly(NamespaceId),
    Selected(NamespaceSelectorId),
}

impl Default for Place {
    fn default() -> Self {
        Place::Exactly(NamespaceId::default())
    }
}

/// What a selection is; policies that mean the same share one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) place: Place,
    pods: SelectorId,
    /// Whether only pods of the node count that the engine is for.
    pub(crate) is_local: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) key: Key,
    pub(crate) pods: Selector,
    /// How many times policies name it, and how many of these need to know its members.
    pub(crate) holders: u32,
    pub(crate) users: u32,
    /// Whether its members are known.
    pub(crate) is_followed: bool,
    pub(crate) members: Few<PodId>,
    /// Counted once a policy is about it, as long as its members are known.
    pub(crate) spread: Option<Spread>,
    /// The policies that are about it, and those that name it as a peer.
    pub(crate) targeted_by: Few<PolicyId>,
    pub(crate) peer_of: Few<PolicyId>,
}

#[derive(Debug, Default)]
pub(crate) struct Selections {
    by_key: IdMap<Key, SelectionId>,
    all: Slots<SelectionId, Selection>,
    selectors: Selectors,
    /// Those that are followed.
    pub(crate) index: Index<Place, SelectionId>,
}

impl Selections {
    /// The selection, for one more who names it, and whether it is new.
    pub(crate) fn hold(
        &mut self,
        place: Place,
        pods: Selector,
        is_local: bool,
    ) -> (SelectionId, bool) {
        let key = Key {
            place,
            pods: self.selectors.hold(&pods),
            is_local,
        };
        if let Some(id) = self.by_key.get(&key).copied() {
            self.selectors.release(key.pods);
            self.all[id].holders += 1;
            return (id, false);
        }
        let id = self.all.insert(Selection {
            key,
            pods: self.selectors.all[key.pods].selector.clone(),
            holders: 1,
            ..Selection::default()
        });
        self.by_key.insert(key, id);
        (id, true)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let has_none = self.by_key.is_empty() && self.selectors.by_selector.is_empty();
        has_none && self.index.is_empty()
    }

    pub(crate) fn remove(&mut self, id: SelectionId) -> Selection {
        let selection = self.all.remove(id);
        self.by_key.remove(&selection.key);
        self.selectors.release(selection.key.pods);
        selection
    }
}

/// Selectors of pods, each once. There are few, however many namespaces use them: so selections are told apart by numbers.
#[derive(Debug, Default)]
struct Selectors {
    by_selector: WordMap<Selector, SelectorId>,
    all: Slots<SelectorId, Held>,
}

#[derive(Debug, Default)]
struct Held {
    selector: Selector,
    holders: usize,
}

impl Selectors {
    fn hold(&mut self, selector: &Selector) -> SelectorId {
        let known = self.by_selector.get(selector).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.all.insert(Held {
                selector: selector.clone(),
                holders: 0,
            });
            self.by_selector.insert(selector.clone(), id);
            id
        });
        self.all[id].holders += 1;
        id
    }

    fn release(&mut self, id: SelectorId) {
        self.all[id].holders -= 1;
        if self.all[id].holders == 0 {
            let held = self.all.remove(id);
            self.by_selector.remove(&held.selector);
        }
    }
}

impl std::ops::Index<SelectionId> for Selections {
    type Output = Selection;

    fn index(&self, id: SelectionId) -> &Selection {
        &self.all[id]
    }
}

impl std::ops::IndexMut<SelectionId> for Selections {
    fn index_mut(&mut self, id: SelectionId) -> &mut Selection {
        &mut self.all[id]
    }
}
