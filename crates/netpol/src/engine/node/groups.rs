//! The groups of policies that isolate pods of the node, and the chains that they consist of.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::program::{ChainId, GroupId, Redirection, SetId};
use crate::{Direction, Name};

#[derive(Debug, Default)]
pub(super) struct Groups {
    by_chains: BTreeMap<Vec<ChainId>, GroupId>,
    all: BTreeMap<GroupId, Group>,
    /// Groups that nobody was in at some time since the last round.
    deserted: BTreeSet<GroupId>,
    last_group: u64,
    numbers: BTreeMap<Arc<Name>, u64>,
    chains: BTreeMap<ChainId, Chain>,
    /// Chains that no group had at some time since the last round.
    loose: BTreeSet<ChainId>,
    last_chain: u64,
    /// Policies with chains that have never been written.
    pub(super) unwritten: BTreeSet<Arc<Name>>,
}

#[derive(Debug, Default)]
struct Group {
    chains: Vec<ChainId>,
    /// How many addresses are sent to it.
    addresses: usize,
}

#[derive(Debug, Default)]
struct Chain {
    policy: Arc<Name>,
    /// How many groups have it.
    groups: usize,
    /// The sets that its rules name, as often as they do.
    sets: Vec<SetId>,
}

impl Groups {
    /// The group of these policies, and its chains if it is new.
    pub(super) fn find_or_insert<'a>(
        &mut self,
        policies: impl Iterator<Item = &'a Arc<Name>>,
        direction: Direction,
    ) -> (GroupId, Option<Vec<ChainId>>) {
        let mut chains: Vec<ChainId> = policies
            .map(|policy| self.chain_of(policy, direction))
            .collect();
        chains.sort_unstable();
        if let Some(known) = self.by_chains.get(&chains) {
            return (*known, None);
        }
        self.last_group += 1;
        let id = GroupId {
            number: self.last_group,
            direction,
        };
        for chain in &chains {
            self.chains.entry(*chain).or_default().groups += 1;
        }
        self.by_chains.insert(chains.clone(), id);
        let group = Group {
            chains: chains.clone(),
            addresses: 0,
        };
        self.all.insert(id, group);
        (id, Some(chains))
    }

    fn chain_of(&mut self, policy: &Arc<Name>, direction: Direction) -> ChainId {
        let number = *self.numbers.entry(policy.clone()).or_insert_with(|| {
            self.last_chain += 1;
            self.last_chain
        });
        let id = ChainId { number, direction };
        self.chains.entry(id).or_insert_with(|| {
            self.unwritten.insert(policy.clone());
            Chain {
                policy: policy.clone(),
                ..Chain::default()
            }
        });
        id
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let has_no_groups = self.by_chains.is_empty() && self.all.is_empty();
        has_no_groups && self.numbers.is_empty() && self.chains.is_empty()
    }

    pub(super) fn redirect(&mut self, redirection: Redirection) {
        if let Some(group) = redirection.after.and_then(|id| self.all.get_mut(&id)) {
            group.addresses += 1;
        }
        let Some(before) = redirection.before else {
            return;
        };
        if let Some(group) = self.all.get_mut(&before) {
            group.addresses -= 1;
            self.deserted.insert(before);
        }
    }

    pub(super) fn remove_unused(&mut self) -> Vec<GroupId> {
        let mut removed = Vec::new();
        for id in mem::take(&mut self.deserted) {
            if self.all.get(&id).is_none_or(|group| group.addresses > 0) {
                continue;
            }
            let group = self.all.remove(&id).unwrap_or_default();
            self.by_chains.remove(&group.chains);
            for chain in group.chains {
                if let Some(state) = self.chains.get_mut(&chain) {
                    state.groups -= 1;
                    self.loose.insert(chain);
                }
            }
            removed.push(id);
        }
        removed
    }

    /// Each with the sets that its rules named.
    pub(super) fn remove_unused_chains(&mut self) -> Vec<(ChainId, Vec<SetId>)> {
        let mut removed = Vec::new();
        for id in mem::take(&mut self.loose) {
            if self.chains.get(&id).is_none_or(|chain| chain.groups > 0) {
                continue;
            }
            let chain = self.chains.remove(&id).unwrap_or_default();
            if self.chains_of(&chain.policy).is_empty() {
                self.numbers.remove(&chain.policy);
            }
            removed.push((id, chain.sets));
        }
        removed
    }

    /// The chains of a policy, in both directions.
    pub(super) fn chains_of(&self, policy: &Name) -> Vec<ChainId> {
        let Some(number) = self.numbers.get(policy).copied() else {
            return Vec::new();
        };
        let both = Direction::BOTH.map(|direction| ChainId { number, direction });
        let chains = both.into_iter();
        chains.filter(|id| self.chains.contains_key(id)).collect()
    }

    /// Gives the sets that it had before.
    pub(super) fn set_sets(&mut self, id: ChainId, sets: Vec<SetId>) -> Vec<SetId> {
        let chain = self.chains.entry(id).or_default();
        mem::replace(&mut chain.sets, sets)
    }
}
