//! Policy groups (the distinct sets of policies that isolate local pods) and their policy chains.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::ruleset::{IpSetId, PolicyChainId, PolicyGroupChange, PolicyGroupId};
use crate::{Direction, NamespacedName};

#[derive(Debug, Default)]
pub(super) struct PolicyGroups {
    by_chains: BTreeMap<Vec<PolicyChainId>, PolicyGroupId>,
    all: BTreeMap<PolicyGroupId, PolicyChainGroup>,
    /// Groups that lost an address since the last delta.
    maybe_unused_groups: BTreeSet<PolicyGroupId>,
    last_group: u64,
    numbers: BTreeMap<Arc<NamespacedName>, u64>,
    chains: BTreeMap<PolicyChainId, PolicyChainEntry>,
    /// Chains that lost a group since the last delta.
    maybe_unused_chains: BTreeSet<PolicyChainId>,
    last_chain: u64,
    /// Policies with chains whose rules have not been built yet.
    pub(super) policies_with_new_chains: BTreeSet<Arc<NamespacedName>>,
}

#[derive(Debug, Default)]
struct PolicyChainGroup {
    chains: Vec<PolicyChainId>,
    /// The number of addresses dispatched to it.
    addresses: usize,
}

#[derive(Debug, Default)]
struct PolicyChainEntry {
    policy: Arc<NamespacedName>,
    /// The number of groups that contain it.
    groups: usize,
    /// The sets that its rules refer to, with repetitions.
    sets: Vec<IpSetId>,
}

impl PolicyGroups {
    /// The group of these policies, and its chains if the group is new.
    pub(super) fn find_or_insert<'a>(
        &mut self,
        policies: impl Iterator<Item = &'a Arc<NamespacedName>>,
        direction: Direction,
    ) -> (PolicyGroupId, Option<Vec<PolicyChainId>>) {
        let mut chains: Vec<PolicyChainId> = policies
            .map(|policy| self.chain_of(policy, direction))
            .collect();
        chains.sort_unstable();
        if let Some(known) = self.by_chains.get(&chains) {
            return (*known, None);
        }
        self.last_group += 1;
        let id = PolicyGroupId {
            number: self.last_group,
            direction,
        };
        for chain in &chains {
            self.chains.entry(*chain).or_default().groups += 1;
        }
        self.by_chains.insert(chains.clone(), id);
        let group = PolicyChainGroup {
            chains: chains.clone(),
            addresses: 0,
        };
        self.all.insert(id, group);
        (id, Some(chains))
    }

    fn chain_of(&mut self, policy: &Arc<NamespacedName>, direction: Direction) -> PolicyChainId {
        let number = *self.numbers.entry(policy.clone()).or_insert_with(|| {
            self.last_chain += 1;
            self.last_chain
        });
        let id = PolicyChainId { number, direction };
        self.chains.entry(id).or_insert_with(|| {
            self.policies_with_new_chains.insert(policy.clone());
            PolicyChainEntry {
                policy: policy.clone(),
                ..PolicyChainEntry::default()
            }
        });
        id
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let has_no_groups = self.by_chains.is_empty() && self.all.is_empty();
        has_no_groups && self.numbers.is_empty() && self.chains.is_empty()
    }

    pub(super) fn count_dispatch_change(&mut self, redirection: PolicyGroupChange) {
        if let Some(group) = redirection.after.and_then(|id| self.all.get_mut(&id)) {
            group.addresses += 1;
        }
        let Some(before) = redirection.before else {
            return;
        };
        if let Some(group) = self.all.get_mut(&before) {
            group.addresses -= 1;
            self.maybe_unused_groups.insert(before);
        }
    }

    pub(super) fn remove_unused(&mut self) -> Vec<PolicyGroupId> {
        let mut removed = Vec::new();
        for id in mem::take(&mut self.maybe_unused_groups) {
            if self.all.get(&id).is_none_or(|group| group.addresses > 0) {
                continue;
            }
            let group = self.all.remove(&id).unwrap_or_default();
            self.by_chains.remove(&group.chains);
            for chain in group.chains {
                if let Some(state) = self.chains.get_mut(&chain) {
                    state.groups -= 1;
                    self.maybe_unused_chains.insert(chain);
                }
            }
            removed.push(id);
        }
        removed
    }

    /// Returns each removed chain with the sets that its rules referred to.
    pub(super) fn remove_unused_chains(&mut self) -> Vec<(PolicyChainId, Vec<IpSetId>)> {
        let mut removed = Vec::new();
        for id in mem::take(&mut self.maybe_unused_chains) {
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
    pub(super) fn chains_of(&self, policy: &NamespacedName) -> Vec<PolicyChainId> {
        let Some(number) = self.numbers.get(policy).copied() else {
            return Vec::new();
        };
        let both = Direction::BOTH.map(|direction| PolicyChainId { number, direction });
        let chains = both.into_iter();
        chains.filter(|id| self.chains.contains_key(id)).collect()
    }

    /// Replaces the sets of a chain and returns the previous ones.
    pub(super) fn set_sets(&mut self, id: PolicyChainId, sets: Vec<IpSetId>) -> Vec<IpSetId> {
        let chain = self.chains.entry(id).or_default();
        mem::replace(&mut chain.sets, sets)
    }
}
