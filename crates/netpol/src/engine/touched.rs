//! Which policies have another summary.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use super::hashing::IdSet;
use super::slots::{PolicyId, SelectionId};
use super::world::World;
use crate::Name;

/// Selections are noted, and not the policies that share them: many pods may come and go between two questions.
#[derive(Debug, Default)]
pub(super) struct Touched {
    policies: IdSet<PolicyId>,
    /// Selections with other members; of these the ones that were or have become empty; and those on other nodes.
    members: IdSet<SelectionId>,
    edges: IdSet<SelectionId>,
    spreads: IdSet<SelectionId>,
    removed: Vec<Arc<Name>>,
}

/// What is different about the members of a selection beside their number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// There were none, or are none now.
    pub(super) of_members: bool,
    /// There were none on a node, or are none there now.
    pub(super) of_nodes: bool,
}

impl Touched {
    pub(super) fn note(&mut self, policy: PolicyId) {
        self.policies.insert(policy);
    }

    pub(super) fn note_removed(&mut self, policy: PolicyId, name: Arc<Name>) {
        self.policies.remove(&policy);
        self.removed.push(name);
    }

    pub(super) fn note_members(&mut self, selection: SelectionId, turn: Turn) {
        self.members.insert(selection);
        if turn.of_members {
            self.edges.insert(selection);
        }
        if turn.of_nodes {
            self.spreads.insert(selection);
        }
    }

    /// A selection is gone, and with it all policies that named it: those have been noted.
    pub(super) fn forget(&mut self, selection: SelectionId) {
        self.members.remove(&selection);
        self.edges.remove(&selection);
        self.spreads.remove(&selection);
    }

    pub(super) fn take(&mut self, world: &World) -> BTreeSet<Name> {
        self.spreads = mem::take(&mut self.members);
        self.take_beyond_counts(world)
    }

    pub(super) fn take_beyond_counts(&mut self, world: &World) -> BTreeSet<Name> {
        let touched = mem::take(self);
        let mut policies = touched.policies;
        for selection in touched.edges.iter().chain(&touched.spreads) {
            policies.extend(world.selections[*selection].targeted_by.iter());
        }
        for selection in &touched.edges {
            policies.extend(world.selections[*selection].peer_of.iter());
        }
        let names = policies.iter().map(|id| &world.policies[*id].name);
        let names = names.chain(&touched.removed);
        names.map(|name| (**name).clone()).collect()
    }
}
