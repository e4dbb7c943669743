//! Keeps the rules of one node: notes what may have changed, and works out how, once it is asked.

mod groups;
mod rules;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use self::groups::Groups;
use self::sets::Sets;
use super::slots::{PodId, PolicyId, SelectionId};
use super::text::Text;
use super::world::World;
use crate::program::{Chain, ChainId, Changes, GroupId, Program, Redirection};
use crate::{Direction, Name};

#[derive(Debug, Default)]
pub(super) struct Node {
    /// `None` if no node is to be looked after.
    pub(super) name: Option<Text>,
    /// Its pods that selectors can pick.
    pub(super) pods: BTreeSet<PodId>,
    /// Ranges of addresses of which all that are pods' are to be known, first and last included.
    pub(super) ranges: Vec<(IpAddr, IpAddr)>,
    /// Selections that nobody needed at some time since the kernel was told.
    pub(super) idle: Vec<SelectionId>,
    pub(super) stale: Stale,
    /// What the kernel has been told.
    pub(super) program: Program,
    pub(super) applied: BTreeMap<Arc<Name>, Applied>,
    groups: Groups,
    sets: Sets,
}

/// What may no longer be as the kernel has it.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// Addresses that are, or were, of pods of this node, or in one of its ranges.
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Addresses in the sets of a selection.
    elements: BTreeSet<(SelectionId, IpAddr)>,
    pub(super) policies: BTreeSet<Arc<Name>>,
    /// Policies that have pods here now and had none, or the other way. Empty between changes.
    pub(super) activity: BTreeSet<PolicyId>,
}

/// A policy that selects pods of the node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) uid: Box<str>,
    pub(super) generation: i64,
}

impl Node {
    pub(super) fn new(name: Option<Text>) -> Node {
        Node {
            name,
            ..Node::default()
        }
    }

    pub(super) fn is_in_range(&self, address: IpAddr) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(first, last)| *first <= address && address <= *last)
    }

    pub(super) fn note_elements(&mut self, selection: SelectionId, addresses: &[IpAddr]) {
        if self.sets.has_any_of(selection) {
            let elements = addresses.iter().map(|address| (selection, *address));
            self.stale.elements.extend(elements);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let stale = &self.stale;
        let is_fresh = stale.addresses.is_empty() && stale.elements.is_empty();
        let is_settled = stale.policies.is_empty() && stale.activity.is_empty();
        let is_told = self.program == Program::default() && self.applied.is_empty();
        let has_rules = !self.groups.is_empty() || !self.sets.is_empty();
        is_fresh
            && is_settled
            && is_told
            && !has_rules
            && self.pods.is_empty()
            && self.idle.is_empty()
    }

    /// Brings the program up to date.
    pub(super) fn catch_up(&mut self, world: &World) -> Changes {
        let mut changes = Changes::default();
        self.redirect(world, &mut changes);
        changes.removed_groups = self.groups.remove_unused();
        for (chain, sets) in self.groups.remove_unused_chains() {
            self.sets.release(sets);
            changes.removed_chains.push(chain);
        }
        self.write_chains(world, &mut changes);
        self.sets.change(
            world,
            mem::take(&mut self.stale.elements),
            &self.program,
            &mut changes,
        );
        self.program.apply(&changes);
        self.list_applied(world);
        changes
    }

    /// Sends each address that may have changed to the group of its pod.
    fn redirect(&mut self, world: &World, changes: &mut Changes) {
        for address in mem::take(&mut self.stale.addresses) {
            let anyone = world.owners.of(address);
            let owner = anyone.filter(|pod| world.pods[*pod].facts.node == self.name);
            let is_known = owner
                .or(anyone.filter(|_| self.is_in_range(address)))
                .is_some();
            match (self.program.known.contains(&address), is_known) {
                (false, true) => _ = changes.known_added.insert(address),
                (true, false) => _ = changes.known_removed.insert(address),
                _ => {}
            }
            for direction in Direction::BOTH {
                let before = self.program.dispatch.get(&(direction, address)).copied();
                let after = owner.and_then(|pod| self.group_of(world, pod, direction, changes));
                if before != after {
                    let redirection = Redirection { before, after };
                    changes.dispatch.insert((direction, address), redirection);
                    self.groups.redirect(redirection);
                }
            }
        }
    }

    /// The group of all policies that isolate the pod; `None` if there are none.
    fn group_of(
        &mut self,
        world: &World,
        pod: PodId,
        direction: Direction,
        changes: &mut Changes,
    ) -> Option<GroupId> {
        let policies = world.isolating(pod, direction);
        if policies.is_empty() {
            return None;
        }
        let names = policies.iter().map(|id| &world.policies[*id].name);
        let (group, new) = self.groups.find_or_insert(names, direction);
        if let Some(chains) = new {
            changes.groups.insert(group, chains);
        }
        Some(group)
    }

    /// Writes the chains that are new, and those of policies that may have changed.
    fn write_chains(&mut self, world: &World, changes: &mut Changes) {
        let mut names = mem::take(&mut self.groups.unwritten);
        names.extend(self.stale.policies.iter().cloned());
        for name in names {
            for chain in self.groups.chains_of(&name) {
                self.write_chain(world, chain, &name, changes);
            }
        }
    }

    fn write_chain(&mut self, world: &World, id: ChainId, name: &Name, changes: &mut Changes) {
        let Some(policy) = world.policies.find(name) else {
            return;
        };
        let meaning = &world.policies[policy].meaning;
        let (rules, sets) = rules::write(meaning, id.direction, &mut self.sets);
        let sets_before = self.groups.set_sets(id, sets);
        self.sets.release(sets_before);
        let written = self.program.chains.get(&id);
        if written.is_none_or(|chain| chain.rules != rules) {
            let policy = name.clone();
            changes.chains.insert(id, Chain { policy, rules });
        }
    }

    fn list_applied(&mut self, world: &World) {
        for name in mem::take(&mut self.stale.policies) {
            let meaning = world
                .policies
                .find(&name)
                .map(|id| &world.policies[id].meaning);
            let has_targets = |target| !world.selections[target].members.is_empty();
            match meaning.filter(|meaning| meaning.is_understood && has_targets(meaning.target)) {
                Some(meaning) => {
                    let applied = Applied {
                        uid: meaning.uid.clone(),
                        generation: meaning.generation,
                    };
                    self.applied.insert(name, applied);
                }
                None => _ = self.applied.remove(&name),
            }
        }
    }
}
