//! Which policies have another summary.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::hashing::IdSet;
use super::slots::{PolicyId, SelectionId};
use super::world::World;
use crate::Name;

/// Selections are noted, and not the policies that share them: many pods may come and go between two questions.
#[derive(Debug, Default)]
pub(super) struct Touched {
    policies: IdSet<PolicyId>,
    /// Selections with other members, and of these the ones that were or have become empty.
    members: IdSet<SelectionId>,
    edges: IdSet<SelectionId>,
    removed: Vec<Arc<Name>>,
}

impl Touched {
    pub(super) fn note(&mut self, policy: PolicyId) {
        self.policies.insert(policy);
    }

    pub(super) fn note_removed(&mut self, policy: PolicyId, name: Arc<Name>) {
        self.policies.remove(&policy);
        self.removed.push(name);
    }

    /// `is_edge` if the selection was or has become empty.
    pub(super) fn note_members(&mut self, selection: SelectionId, is_edge: bool) {
        self.members.insert(selection);
        if is_edge {
            self.edges.insert(selection);
        }
    }

    /// A selection is gone, and with it all policies that named it: those have been noted.
    pub(super) fn forget(&mut self, selection: SelectionId) {
        self.members.remove(&selection);
        self.edges.remove(&selection);
    }

    pub(super) fn take(&mut self, world: &World) -> BTreeSet<Name> {
        let touched = std::mem::take(self);
        let mut policies = touched.policies;
        for selection in touched.members {
            policies.extend(world.selections[selection].targeted_by.iter());
        }
        for selection in touched.edges {
            policies.extend(world.selections[selection].peer_of.iter());
        }
        let names = policies.iter().map(|id| &world.policies[*id].name);
        let names = names.chain(&touched.removed);
        names.map(|name| (**name).clone()).collect()
    }
}
