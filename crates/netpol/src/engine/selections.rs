//! Sets of pods that policies speak of: whom they are about, and who their peers are.

use std::collections::{BTreeSet, HashMap};

use rhumb_meta::labels::Selector;

use super::index::Index;
use super::slots::{NamespaceId, NamespaceSelectorId, PodId, PolicyId, SelectionId, Slots};

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) place: Place,
    pub(crate) pods: Selector,
    /// Whether only pods of the node count that the engine is for.
    pub(crate) is_local: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) key: Key,
    /// How many times policies name it, and how many of these need to know its members.
    pub(crate) holders: u32,
    pub(crate) users: u32,
    /// Whether its members are known.
    pub(crate) is_followed: bool,
    pub(crate) members: BTreeSet<PodId>,
    /// The policies that are about it, and those that name it as a peer.
    pub(crate) targeted_by: BTreeSet<PolicyId>,
    pub(crate) peer_of: BTreeSet<PolicyId>,
}

#[derive(Debug, Default)]
pub(crate) struct Selections {
    by_key: HashMap<Key, SelectionId>,
    all: Slots<SelectionId, Selection>,
    /// Those that are followed.
    pub(crate) index: Index<Place, SelectionId>,
}

impl Selections {
    /// The selection, for one more who names it, and whether it is new.
    pub(crate) fn hold(&mut self, key: Key) -> (SelectionId, bool) {
        let known = self.by_key.get(&key).copied();
        let id = known.unwrap_or_else(|| {
            let id = self.all.insert(Selection {
                key: key.clone(),
                ..Selection::default()
            });
            self.by_key.insert(key, id);
            id
        });
        self.all[id].holders += 1;
        (id, known.is_none())
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.index.is_empty()
    }

    pub(crate) fn remove(&mut self, id: SelectionId) -> Selection {
        let selection = self.all.remove(id);
        self.by_key.remove(&selection.key);
        selection
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
