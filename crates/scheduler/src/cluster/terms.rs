//! Terms, and what they count.

use std::collections::HashMap;

use super::ids::{PickerId, TermId, TopologyId};
use super::slots::Slots;
use super::tally::Tally;

/// What a term counts, by the domains of its topology. Only pods with a place count.
#[derive(Debug)]
pub struct TermSlot {
    pub picker: PickerId,
    pub topology: TopologyId,
    users: usize,
    /// The pods that are picked.
    pub picked: Tally,
    /// The pods that have this as a required term of anti-affinity: whoever is picked cannot go there.
    pub repelling: Tally,
    /// The pods that have this as a required term of affinity.
    pub attached: Tally,
    /// The weights of those who prefer this; negative where they prefer it not.
    pub preferring: Tally,
}

#[derive(Debug, Default)]
pub(super) struct Terms {
    slots: Slots<TermId, TermSlot>,
    known: HashMap<(PickerId, TopologyId), TermId>,
}

impl Terms {
    pub(super) fn get(&self, id: TermId) -> &TermSlot {
        &self.slots[id]
    }

    pub(super) fn get_mut(&mut self, id: TermId) -> &mut TermSlot {
        &mut self.slots[id]
    }

    /// The term, and whether it is new: then it has counted nothing yet.
    pub(super) fn acquire(&mut self, picker: PickerId, topology: TopologyId) -> (TermId, bool) {
        if let Some(known) = self.known.get(&(picker, topology)) {
            self.slots[*known].users += 1;
            return (*known, false);
        }
        let id = self.slots.insert(TermSlot {
            picker,
            topology,
            users: 1,
            picked: Tally::default(),
            repelling: Tally::default(),
            attached: Tally::default(),
            preferring: Tally::default(),
        });
        self.known.insert((picker, topology), id);
        (id, true)
    }

    /// The picker and the topology of a term that is gone with this.
    pub(super) fn release(&mut self, id: TermId) -> Option<(PickerId, TopologyId)> {
        let slot = &mut self.slots[id];
        slot.users -= 1;
        if slot.users > 0 {
            return None;
        }
        let slot = self.slots.remove(id)?;
        self.known.remove(&(slot.picker, slot.topology));
        Some((slot.picker, slot.topology))
    }
}

#[cfg(test)]
impl TermSlot {
    pub(super) fn users(&self) -> usize {
        self.users
    }
}

#[cfg(test)]
impl Terms {
    pub(super) fn iter(&self) -> impl Iterator<Item = &TermSlot> {
        assert_eq!(self.known.len(), self.slots.len());
        self.slots.iter().map(|(_, slot)| slot)
    }
}
