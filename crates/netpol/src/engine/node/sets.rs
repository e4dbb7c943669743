//! Sets of addresses and of ports, shared by all rules of the node that name the same pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::engine::hashing::IdMap;
use crate::engine::slots::{PodId, SelectionId};
use crate::engine::text::Text;
use crate::engine::world::World;
use crate::program::{Changes, Element, Program, SetId, SetKind};
use crate::{Family, Protocol};

pub(super) type PortName = (Protocol, Text);

/// What is in a set, in each family.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub(super) selection: SelectionId,
    /// The ports of these names, in order, and not the addresses alone. Empty for addresses.
    pub(super) ports: Box<[PortName]>,
}

#[derive(Debug, Default)]
pub(super) struct Sets {
    numbers: IdMap<Content, u64>,
    all: BTreeMap<SetId, Set>,
    by_selection: BTreeMap<SelectionId, BTreeSet<SetId>>,
    /// Sets that no rule named at some time since the last round, and those that the kernel does not know.
    unused: BTreeSet<SetId>,
    new: BTreeSet<SetId>,
    last: u64,
}

#[derive(Debug)]
struct Set {
    content: Content,
    /// How often rules name it.
    users: usize,
}

impl Sets {
    pub(super) fn has_any_of(&self, selection: SelectionId) -> bool {
        self.by_selection.contains_key(&selection)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.all.is_empty() && self.by_selection.is_empty()
    }

    /// The set, for one more rule that names it.
    pub(super) fn hold(&mut self, content: &Content, family: Family) -> SetId {
        let number = match self.numbers.get(content) {
            Some(number) => *number,
            None => {
                self.last += 1;
                self.numbers.insert(content.clone(), self.last);
                self.last
            }
        };
        let id = SetId { number, family };
        let set = self.all.entry(id).or_insert_with(|| {
            self.new.insert(id);
            let sets = self.by_selection.entry(content.selection).or_default();
            sets.insert(id);
            Set {
                content: content.clone(),
                users: 0,
            }
        });
        set.users += 1;
        id
    }

    pub(super) fn release(&mut self, ids: Vec<SetId>) {
        for id in ids {
            if let Some(set) = self.all.get_mut(&id) {
                set.users -= 1;
                self.unused.insert(id);
            }
        }
    }

    /// Removes the sets that no rule names, fills new ones, and changes what is stale in others.
    pub(super) fn change(
        &mut self,
        world: &World,
        stale: BTreeSet<(SelectionId, IpAddr)>,
        program: &Program,
        changes: &mut Changes,
    ) {
        changes.removed_sets = self.remove_unused();
        for (selection, address) in stale {
            for id in self.by_selection.get(&selection).into_iter().flatten() {
                if !self.new.contains(id) {
                    self.change_address(world, *id, address, program, changes);
                }
            }
        }
        for id in std::mem::take(&mut self.new) {
            let content = &self.all[&id].content;
            changes.new_sets.insert(id, content.kind());
            let elements = content.elements(world, id.family);
            if !elements.is_empty() {
                changes.added_elements.insert(id, elements);
            }
        }
    }

    fn change_address(
        &self,
        world: &World,
        id: SetId,
        address: IpAddr,
        program: &Program,
        changes: &mut Changes,
    ) {
        if Family::of(address) != id.family {
            return;
        }
        let content = &self.all[&id].content;
        let owner = world.owners.of(address);
        let after = owner.map(|pod| content.elements_at(world, pod, address));
        let after = after.unwrap_or_default();
        let set = program.sets.get(&id);
        let before: BTreeSet<Element> = set.into_iter().flat_map(|set| set.at(address)).collect();
        let mut removed = before.difference(&after).copied().peekable();
        if removed.peek().is_some() {
            changes
                .removed_elements
                .entry(id)
                .or_default()
                .extend(removed);
        }
        let mut added = after.difference(&before).copied().peekable();
        if added.peek().is_some() {
            changes.added_elements.entry(id).or_default().extend(added);
        }
    }

    fn remove_unused(&mut self) -> Vec<SetId> {
        let mut removed = Vec::new();
        for id in std::mem::take(&mut self.unused) {
            if self.all.get(&id).is_some_and(|set| set.users == 0) {
                self.remove(id);
                if !self.new.remove(&id) {
                    removed.push(id);
                }
            }
        }
        removed
    }

    fn remove(&mut self, id: SetId) {
        let Some(Set { content, .. }) = self.all.remove(&id) else {
            return;
        };
        if let Some(sets) = self.by_selection.get_mut(&content.selection) {
            sets.remove(&id);
            if sets.is_empty() {
                self.by_selection.remove(&content.selection);
            }
        }
        let mut families = Family::BOTH.into_iter();
        let number = id.number;
        if !families.any(|family| self.all.contains_key(&SetId { number, family })) {
            self.numbers.remove(&content);
        }
    }
}

impl Content {
    pub(super) fn addresses(selection: SelectionId) -> Content {
        Content {
            selection,
            ports: Box::default(),
        }
    }

    fn kind(&self) -> SetKind {
        match self.ports.is_empty() {
            true => SetKind::Addresses,
            false => SetKind::Ports,
        }
    }

    fn elements(&self, world: &World, family: Family) -> Vec<Element> {
        let members = world.selections[self.selection].members.iter();
        let elements = members.flat_map(|pod| {
            let owned = world.owned(pod);
            let ours = owned.filter(move |address| Family::of(*address) == family);
            ours.flat_map(move |address| self.elements_at(world, pod, address))
        });
        let mut elements: Vec<Element> = elements.collect();
        elements.sort_unstable();
        elements
    }

    /// What there is in the set by an address that the pod has.
    fn elements_at(&self, world: &World, pod: PodId, address: IpAddr) -> BTreeSet<Element> {
        let members = &world.selections[self.selection].members;
        if !members.contains(pod) {
            return BTreeSet::new();
        }
        if self.ports.is_empty() {
            let port = None;
            return [Element { address, port }].into();
        }
        let facts = &world.pods[pod].facts;
        let ports = self.ports.iter().filter_map(|(protocol, name)| {
            let port = Some((*protocol, facts.port(name, *protocol)?));
            Some(Element { address, port })
        });
        ports.collect()
    }
}
