//! Equivalence classes of queued pods.
//!
//! Equivalent pods form a class. The plugins that reject one of them reject all, so queueing hints are evaluated once
//! per class. If a hint requests a new attempt, only one pod of the class, the probe, is requeued. The next pod is
//! requeued when the probe was scheduled: if the probe is unschedulable, so are the others.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::equivalence;
use super::order::QueueOrderKey;
use crate::cluster::PodId;
use crate::model::Pod;

/// The plugins that rejected a pod, as a bit set of their indexes in the profile. Indexes beyond the last bit share it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UnschedulablePlugins(u64);

impl UnschedulablePlugins {
    const LAST: usize = 63;

    pub fn contains(self, plugin: usize) -> bool {
        self.0 >> plugin.min(Self::LAST) & 1 == 1
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn intersects(self, other: UnschedulablePlugins) -> bool {
        self.0 & other.0 != 0
    }

    pub fn union(self, other: UnschedulablePlugins) -> UnschedulablePlugins {
        UnschedulablePlugins(self.0 | other.0)
    }
}

impl FromIterator<usize> for UnschedulablePlugins {
    fn from_iter<I: IntoIterator<Item = usize>>(plugins: I) -> Self {
        let bits = plugins
            .into_iter()
            .map(|plugin| 1 << plugin.min(Self::LAST));
        UnschedulablePlugins(bits.fold(0, |all, bit| all | bit))
    }
}

/// The result of the last failed attempt of a class, valid for all its pods until the state version changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedFailure {
    pub state_version: u64,
    pub plugins: UnschedulablePlugins,
    pub message: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EquivalenceClassId(u64);

/// A set of equivalent pods.
#[derive(Debug)]
struct EquivalenceClass {
    representative: Arc<Pod>,
    profile: usize,
    /// `None` for the singleton class of a nominated pod, which is not shared with equivalent pods.
    hash: Option<u64>,
    members: usize,
    unschedulable: BTreeMap<QueueOrderKey, PodId>,
    unschedulable_plugins: UnschedulablePlugins,
    /// The requeued pod whose attempt decides for the class. While there is one, events are not evaluated.
    probe: Option<PodId>,
    cached_failure: Option<CachedFailure>,
}

/// All equivalence classes.
#[derive(Debug, Default)]
pub(super) struct EquivalenceClasses {
    all: HashMap<EquivalenceClassId, EquivalenceClass>,
    by_hash: HashMap<u64, Vec<EquivalenceClassId>>,
    /// Classes with unschedulable pods and without a probe, by profile and unschedulable plugins.
    idle: HashMap<(usize, UnschedulablePlugins), BTreeSet<EquivalenceClassId>>,
    hasher: RandomState,
    next_id: u64,
}

/// Membership.
impl EquivalenceClasses {
    /// Adds a pod to its class, which is created if needed.
    pub(super) fn join(&mut self, pod: &Arc<Pod>, profile: usize) -> EquivalenceClassId {
        let hash = equivalence::equivalence_hash(&self.hasher, pod);
        let known = self.by_hash.get(&hash).into_iter().flatten();
        let found = known.copied().find(|id| {
            let class = self.all.get(id);
            class.is_some_and(|class| class.representative.is_equivalent(pod))
        });
        let id = found.unwrap_or_else(|| {
            let id = self.add(pod, profile, Some(hash));
            self.by_hash.entry(hash).or_default().push(id);
            id
        });
        if let Some(class) = self.all.get_mut(&id) {
            class.members += 1;
        }
        id
    }

    /// Creates a singleton class for a pod.
    pub(super) fn join_singleton(&mut self, pod: &Arc<Pod>, profile: usize) -> EquivalenceClassId {
        let id = self.add(pod, profile, None);
        if let Some(class) = self.all.get_mut(&id) {
            class.members = 1;
        }
        id
    }

    fn add(&mut self, pod: &Arc<Pod>, profile: usize, hash: Option<u64>) -> EquivalenceClassId {
        let id = EquivalenceClassId(self.next_id);
        self.next_id += 1;
        let class = EquivalenceClass {
            representative: pod.clone(),
            profile,
            hash,
            members: 0,
            unschedulable: BTreeMap::new(),
            unschedulable_plugins: UnschedulablePlugins::default(),
            probe: None,
            cached_failure: None,
        };
        self.all.insert(id, class);
        id
    }

    /// Removes a member, which must not be among the unschedulable pods.
    pub(super) fn leave(&mut self, id: EquivalenceClassId) {
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

    pub(super) fn is_singleton(&self, id: EquivalenceClassId) -> bool {
        self.all.get(&id).is_some_and(|class| class.hash.is_none())
    }

    pub(super) fn is_equivalent_to(&self, id: EquivalenceClassId, pod: &Pod) -> bool {
        let class = self.all.get(&id);
        class.is_some_and(|class| class.representative.is_equivalent(pod))
    }

    pub(super) fn cached_failure(&self, id: EquivalenceClassId) -> Option<&CachedFailure> {
        self.all.get(&id)?.cached_failure.as_ref()
    }

    pub(super) fn profile(&self, id: EquivalenceClassId) -> usize {
        self.all.get(&id).map_or(0, |class| class.profile)
    }

    pub(super) fn unschedulable_plugins(&self, id: EquivalenceClassId) -> UnschedulablePlugins {
        let class = self.all.get(&id);
        class
            .map(|class| class.unschedulable_plugins)
            .unwrap_or_default()
    }
}

/// Unschedulable pods and probes.
impl EquivalenceClasses {
    pub(super) fn add_unschedulable(
        &mut self,
        id: EquivalenceClassId,
        order: QueueOrderKey,
        pod: PodId,
    ) {
        self.update_class(id, |class| {
            class.unschedulable.insert(order, pod);
        });
    }

    pub(super) fn remove_unschedulable(&mut self, id: EquivalenceClassId, order: QueueOrderKey) {
        self.update_class(id, |class| {
            class.unschedulable.remove(&order);
        });
    }

    /// Records a failed attempt for the whole class.
    pub(super) fn record_failure(
        &mut self,
        id: EquivalenceClassId,
        rejected_by: UnschedulablePlugins,
        failure: Option<CachedFailure>,
    ) {
        self.update_class(id, |class| {
            class.unschedulable_plugins = rejected_by;
            class.cached_failure = failure;
        });
    }

    /// Adds plugins that may have rejected some of the unschedulable pods.
    pub(super) fn add_unschedulable_plugins(
        &mut self,
        id: EquivalenceClassId,
        rejected_by: UnschedulablePlugins,
    ) {
        self.update_class(id, |class| {
            class.unschedulable_plugins = class.unschedulable_plugins.union(rejected_by);
        });
    }

    /// Makes the first unschedulable pod the probe and returns it, unless there is a probe already.
    pub(super) fn start_probe(&mut self, id: EquivalenceClassId) -> Option<PodId> {
        let mut chosen = None;
        self.update_class(id, |class| {
            if class.probe.is_none()
                && let Some((_, pod)) = class.unschedulable.pop_first()
            {
                class.probe = Some(pod);
                chosen = Some(pod);
            }
        });
        chosen
    }

    /// Ends the probe if it is this pod. Returns whether it was.
    pub(super) fn end_probe(&mut self, id: EquivalenceClassId, pod: PodId) -> bool {
        let mut was_trying = false;
        self.update_class(id, |class| {
            was_trying = class.probe == Some(pod);
            if was_trying {
                class.probe = None;
            }
        });
        was_trying
    }

    /// The idle classes to requeue: `concerns` filters by profile and unschedulable plugins, then `should_requeue` by the first
    /// pod.
    pub(super) fn idle_matching(
        &self,
        concerns: impl Fn(usize, UnschedulablePlugins) -> bool,
        mut should_requeue: impl FnMut(PodId, usize, UnschedulablePlugins) -> bool,
    ) -> Vec<EquivalenceClassId> {
        let mut found = Vec::new();
        let idle = self.idle.iter();
        for ((profile, rejected_by), ids) in idle.filter(|(of, _)| concerns(of.0, of.1)) {
            for id in ids {
                let class = self.all.get(id);
                let first = class.and_then(|class| class.unschedulable.first_key_value());
                if let Some((_, pod)) = first
                    && should_requeue(*pod, *profile, *rejected_by)
                {
                    found.push(*id);
                }
            }
        }
        found
    }

    /// Updates a class and its entry in the index of idle classes.
    fn update_class(&mut self, id: EquivalenceClassId, update: impl FnOnce(&mut EquivalenceClass)) {
        let Some(class) = self.all.get_mut(&id) else {
            return;
        };
        let old_key = class.idle_index_key();
        update(class);
        let after = class.idle_index_key();
        if old_key == after {
            return;
        }
        if let Some(old_key) = old_key
            && let Some(ids) = self.idle.get_mut(&old_key)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.idle.remove(&old_key);
            }
        }
        if let Some(after) = after {
            self.idle.entry(after).or_default().insert(id);
        }
    }
}

impl EquivalenceClass {
    /// The key under which the class is in the index of idle classes, if it is.
    fn idle_index_key(&self) -> Option<(usize, UnschedulablePlugins)> {
        let is_asleep = self.probe.is_none() && !self.unschedulable.is_empty();
        is_asleep.then_some((self.profile, self.unschedulable_plugins))
    }
}
