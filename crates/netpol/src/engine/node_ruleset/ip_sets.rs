//! IP sets (addresses, or addresses with ports) of pod selections, shared by all rules of the node that refer to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_selection::{IdMap, InternedString};

use crate::engine::ids::{PodId, SelectionId};
use crate::engine::policy_cluster_state::PolicyClusterState;
use crate::ruleset::{IpSetElement, IpSetElementType, IpSetId, NodeRuleset, RulesetDelta};
use crate::{IpFamily, Protocol};

pub(super) type ProtocolPortName = (Protocol, InternedString);

/// What a set contains; there is one set per IP family.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct IpSetContent {
    pub(super) selection: SelectionId,
    /// If not empty, the set contains these named ports of the pods (sorted) instead of plain addresses.
    pub(super) ports: Box<[ProtocolPortName]>,
}

#[derive(Debug, Default)]
pub(super) struct IpSetRegistry {
    numbers: IdMap<IpSetContent, u64>,
    all: BTreeMap<IpSetId, IpSetEntry>,
    by_selection: BTreeMap<SelectionId, BTreeSet<IpSetId>>,
    /// Sets that lost a user since the last delta, and sets that are not in the kernel yet.
    maybe_unused: BTreeSet<IpSetId>,
    new: BTreeSet<IpSetId>,
    last_number: u64,
}

#[derive(Debug)]
struct IpSetEntry {
    content: IpSetContent,
    /// The number of references by rules.
    users: usize,
}

impl IpSetRegistry {
    pub(super) fn has_sets_of(&self, selection: SelectionId) -> bool {
        self.by_selection.contains_key(&selection)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.all.is_empty() && self.by_selection.is_empty()
    }

    /// Adds a reference to a set.
    pub(super) fn acquire(&mut self, content: &IpSetContent, family: IpFamily) -> IpSetId {
        let number = match self.numbers.get(content) {
            Some(number) => *number,
            None => {
                self.last_number += 1;
                self.numbers.insert(content.clone(), self.last_number);
                self.last_number
            }
        };
        let id = IpSetId { number, family };
        let set = self.all.entry(id).or_insert_with(|| {
            self.new.insert(id);
            let sets = self.by_selection.entry(content.selection).or_default();
            sets.insert(id);
            IpSetEntry {
                content: content.clone(),
                users: 0,
            }
        });
        set.users += 1;
        id
    }

    pub(super) fn release(&mut self, ids: Vec<IpSetId>) {
        for id in ids {
            if let Some(set) = self.all.get_mut(&id) {
                set.users -= 1;
                self.maybe_unused.insert(id);
            }
        }
    }

    /// Removes unused sets, fills new ones and updates stale elements.
    pub(super) fn update(
        &mut self,
        cluster: &PolicyClusterState,
        stale: BTreeSet<(SelectionId, IpAddr)>,
        ruleset: &NodeRuleset,
        changes: &mut RulesetDelta,
    ) {
        changes.removed_sets = self.remove_unused();
        for (selection, address) in stale {
            for id in self.by_selection.get(&selection).into_iter().flatten() {
                if !self.new.contains(id) {
                    self.update_address(cluster, *id, address, ruleset, changes);
                }
            }
        }
        for id in std::mem::take(&mut self.new) {
            let content = &self.all[&id].content;
            changes.new_sets.insert(id, content.kind());
            let elements = content.elements(cluster, id.family);
            if !elements.is_empty() {
                changes.added_elements.insert(id, elements);
            }
        }
    }

    fn update_address(
        &self,
        cluster: &PolicyClusterState,
        id: IpSetId,
        address: IpAddr,
        ruleset: &NodeRuleset,
        changes: &mut RulesetDelta,
    ) {
        if IpFamily::of(address) != id.family {
            return;
        }
        let content = &self.all[&id].content;
        let owner = cluster.address_owners.owner_of(address);
        let after = owner.map(|pod| content.elements_of_address(cluster, pod, address));
        let after = after.unwrap_or_default();
        let set = ruleset.sets.get(&id);
        let before: BTreeSet<IpSetElement> = set
            .into_iter()
            .flat_map(|set| set.elements_of_address(address))
            .collect();
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

    fn remove_unused(&mut self) -> Vec<IpSetId> {
        let mut removed = Vec::new();
        for id in std::mem::take(&mut self.maybe_unused) {
            if self.all.get(&id).is_some_and(|set| set.users == 0) {
                self.remove(id);
                if !self.new.remove(&id) {
                    removed.push(id);
                }
            }
        }
        removed
    }

    fn remove(&mut self, id: IpSetId) {
        let Some(IpSetEntry { content, .. }) = self.all.remove(&id) else {
            return;
        };
        if let Some(sets) = self.by_selection.get_mut(&content.selection) {
            sets.remove(&id);
            if sets.is_empty() {
                self.by_selection.remove(&content.selection);
            }
        }
        let mut families = IpFamily::BOTH.into_iter();
        let number = id.number;
        if !families.any(|family| self.all.contains_key(&IpSetId { number, family })) {
            self.numbers.remove(&content);
        }
    }
}

impl IpSetContent {
    pub(super) fn addresses(selection: SelectionId) -> IpSetContent {
        IpSetContent {
            selection,
            ports: Box::default(),
        }
    }

    fn kind(&self) -> IpSetElementType {
        match self.ports.is_empty() {
            true => IpSetElementType::Addresses,
            false => IpSetElementType::AddressPorts,
        }
    }

    fn elements(&self, cluster: &PolicyClusterState, family: IpFamily) -> Vec<IpSetElement> {
        let members = cluster.selections[self.selection].members.iter();
        let elements = members.flat_map(|pod| {
            let owned = cluster.owned_addresses(pod);
            let ours = owned.filter(move |address| IpFamily::of(*address) == family);
            ours.flat_map(move |address| self.elements_of_address(cluster, pod, address))
        });
        let mut elements: Vec<IpSetElement> = elements.collect();
        elements.sort_unstable();
        elements
    }

    /// The elements for an address that the pod owns.
    fn elements_of_address(
        &self,
        cluster: &PolicyClusterState,
        pod: PodId,
        address: IpAddr,
    ) -> BTreeSet<IpSetElement> {
        let members = &cluster.selections[self.selection].members;
        if !members.contains(pod) {
            return BTreeSet::new();
        }
        if self.ports.is_empty() {
            let port = None;
            return [IpSetElement { address, port }].into();
        }
        let attributes = &cluster.pods[pod].attributes;
        let ports = self.ports.iter().filter_map(|(protocol, name)| {
            let port = Some((*protocol, attributes.named_port(name, *protocol)?));
            Some(IpSetElement { address, port })
        });
        ports.collect()
    }
}
