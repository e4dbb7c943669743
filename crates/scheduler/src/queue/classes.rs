//! Sleeping pods by what they have in common.
//!
//! Pods that are alike make a class. What refused one of them refuses all, so an event is looked at once for all of
//! them; and if it may help, one of them tries first. Only when that one found a place does the next try: where the
//! first has none, the others have none either.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::alike;
use super::order::Order;
use crate::cluster::PodId;
use crate::model::Pod;

/// The plugins of a profile that refused a pod, as bits by their places. Those beyond the last bit share it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Refusers(u64);

impl Refusers {
    const LAST: usize = 63;

    pub fn contains(self, plugin: usize) -> bool {
        self.0 >> plugin.min(Self::LAST) & 1 == 1
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn intersects(self, other: Refusers) -> bool {
        self.0 & other.0 != 0
    }

    pub fn union(self, other: Refusers) -> Refusers {
        Refusers(self.0 | other.0)
    }
}

impl FromIterator<usize> for Refusers {
    fn from_iter<I: IntoIterator<Item = usize>>(plugins: I) -> Self {
        let bits = plugins
            .into_iter()
            .map(|plugin| 1 << plugin.min(Self::LAST));
        Refusers(bits.fold(0, |all, bit| all | bit))
    }
}

/// The last attempt in vain, which holds for all of a class until something changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    /// Of everything that is known.
    pub version: u64,
    pub refusers: Refusers,
    pub message: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ClassId(u64);

#[derive(Debug)]
struct Class {
    example: Arc<Pod>,
    profile: usize,
    /// `None` for a pod that is by itself, whoever is like it.
    hash: Option<u64>,
    members: usize,
    sleeping: BTreeMap<Order, PodId>,
    refusers: Refusers,
    /// The one that tries for all. While there is one, events need not be looked at.
    trying: Option<PodId>,
    memo: Option<Memo>,
}

#[derive(Debug, Default)]
pub(super) struct Classes {
    all: HashMap<ClassId, Class>,
    by_hash: HashMap<u64, Vec<ClassId>>,
    /// Those that sleep, with nobody trying, by profile and by who refused them.
    asleep: HashMap<(usize, Refusers), BTreeSet<ClassId>>,
    hasher: RandomState,
    next: u64,
}

/// Pods that come and go.
impl Classes {
    /// The class of a pod, which has one member more now.
    pub(super) fn join(&mut self, facts: &Arc<Pod>, profile: usize) -> ClassId {
        let hash = alike::hash(&self.hasher, facts);
        let known = self.by_hash.get(&hash).into_iter().flatten();
        let found = known.copied().find(|id| {
            let class = self.all.get(id);
            class.is_some_and(|class| class.example.is_alike(facts))
        });
        let id = found.unwrap_or_else(|| {
            let id = self.add(facts, profile, Some(hash));
            self.by_hash.entry(hash).or_default().push(id);
            id
        });
        if let Some(class) = self.all.get_mut(&id) {
            class.members += 1;
        }
        id
    }

    /// A class for one pod, whoever else is like it.
    pub(super) fn join_alone(&mut self, facts: &Arc<Pod>, profile: usize) -> ClassId {
        let id = self.add(facts, profile, None);
        if let Some(class) = self.all.get_mut(&id) {
            class.members = 1;
        }
        id
    }

    fn add(&mut self, facts: &Arc<Pod>, profile: usize, hash: Option<u64>) -> ClassId {
        let id = ClassId(self.next);
        self.next += 1;
        let class = Class {
            example: facts.clone(),
            profile,
            hash,
            members: 0,
            sleeping: BTreeMap::new(),
            refusers: Refusers::default(),
            trying: None,
            memo: None,
        };
        self.all.insert(id, class);
        id
    }

    /// One member less. It must not be asleep.
    pub(super) fn leave(&mut self, id: ClassId) {
        let Some(class) = self.all.get_mut(&id) else {
            return;
        };
        class.members = class.members.saturating_sub(1);
        if class.members > 0 {
            return;
        }
        let hash = class.hash;
        self.all.remove(&id);
        let Some(hash) = hash else { return };
        if let Some(ids) = self.by_hash.get_mut(&hash) {
            ids.retain(|known| *known != id);
            if ids.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    pub(super) fn is_alone(&self, id: ClassId) -> bool {
        self.all.get(&id).is_some_and(|class| class.hash.is_none())
    }

    pub(super) fn contains_alike(&self, id: ClassId, facts: &Pod) -> bool {
        let class = self.all.get(&id);
        class.is_some_and(|class| class.example.is_alike(facts))
    }

    pub(super) fn memo(&self, id: ClassId) -> Option<&Memo> {
        self.all.get(&id)?.memo.as_ref()
    }

    pub(super) fn profile(&self, id: ClassId) -> usize {
        self.all.get(&id).map_or(0, |class| class.profile)
    }

    pub(super) fn refusers(&self, id: ClassId) -> Refusers {
        let class = self.all.get(&id);
        class.map(|class| class.refusers).unwrap_or_default()
    }
}

/// Pods that sleep and wake up.
impl Classes {
    pub(super) fn sleep(&mut self, id: ClassId, order: Order, pod: PodId) {
        self.change(id, |class| {
            class.sleeping.insert(order, pod);
        });
    }

    pub(super) fn wake_one(&mut self, id: ClassId, order: Order) {
        self.change(id, |class| {
            class.sleeping.remove(&order);
        });
    }

    /// What came of an attempt holds for all who sleep.
    pub(super) fn refused(&mut self, id: ClassId, refusers: Refusers, memo: Option<Memo>) {
        self.change(id, |class| {
            class.refusers = refusers;
            class.memo = memo;
        });
    }

    /// One more plugin may have refused some who sleep.
    pub(super) fn refused_also(&mut self, id: ClassId, refusers: Refusers) {
        self.change(id, |class| class.refusers = class.refusers.union(refusers));
    }

    /// The first of those who sleep is to try for all, unless somebody does already.
    pub(super) fn next_to_try(&mut self, id: ClassId) -> Option<PodId> {
        let mut chosen = None;
        self.change(id, |class| {
            if class.trying.is_none()
                && let Some((_, pod)) = class.sleeping.pop_first()
            {
                class.trying = Some(pod);
                chosen = Some(pod);
            }
        });
        chosen
    }

    /// Whether the pod was to try for all. It is not any more.
    pub(super) fn stops_trying(&mut self, id: ClassId, pod: PodId) -> bool {
        let mut was_trying = false;
        self.change(id, |class| {
            was_trying = class.trying == Some(pod);
            if was_trying {
                class.trying = None;
            }
        });
        was_trying
    }

    /// The classes that sleep and that this is true of: of their profile and who refused them, and then of their first
    /// pod as well.
    pub(super) fn asleep(
        &self,
        concerns: impl Fn(usize, Refusers) -> bool,
        mut ask: impl FnMut(PodId, usize, Refusers) -> bool,
    ) -> Vec<ClassId> {
        let mut found = Vec::new();
        let asleep = self.asleep.iter();
        for ((profile, refusers), ids) in asleep.filter(|(of, _)| concerns(of.0, of.1)) {
            for id in ids {
                let class = self.all.get(id);
                let first = class.and_then(|class| class.sleeping.first_key_value());
                if let Some((_, pod)) = first
                    && ask(*pod, *profile, *refusers)
                {
                    found.push(*id);
                }
            }
        }
        found
    }

    /// Changes a class and keeps the list of those asleep right.
    fn change(&mut self, id: ClassId, how: impl FnOnce(&mut Class)) {
        let Some(class) = self.all.get_mut(&id) else {
            return;
        };
        let before = class.place_asleep();
        how(class);
        let after = class.place_asleep();
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(ids) = self.asleep.get_mut(&before)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.asleep.remove(&before);
            }
        }
        if let Some(after) = after {
            self.asleep.entry(after).or_default().insert(id);
        }
    }
}

impl Class {
    fn place_asleep(&self) -> Option<(usize, Refusers)> {
        let is_asleep = self.trying.is_none() && !self.sleeping.is_empty();
        is_asleep.then_some((self.profile, self.refusers))
    }
}
