//! Services and controllers, whose selectors define which pods the default topology spread constraints count.

use std::collections::{BTreeMap, HashMap};

use rhumb_meta::labels::{Requirement, Selector};

use super::ClusterState;
use super::ids::{PodId, TermId};
use super::pod_matchers::MatcherRule;
use super::topologies::TopologyTable;
use crate::model::{Pod, PodMatcher, SpreadOwner, SpreadOwnerKey, SpreadOwnerKind, TermNamespaces};

/// The selectors of all services (by namespace and name) and of all controllers.
#[derive(Debug, Default)]
pub(super) struct SpreadOwners {
    services: HashMap<Box<str>, BTreeMap<Box<str>, Selector>>,
    controllers: HashMap<SpreadOwnerKey, Selector>,
}

impl SpreadOwners {
    /// Returns the previous selector.
    fn set(&mut self, group: SpreadOwner) -> Option<Selector> {
        let SpreadOwner { key, selector } = group;
        match key.kind {
            SpreadOwnerKind::Service => {
                let services = self.services.entry(key.namespace).or_default();
                services.insert(key.name, selector)
            }
            _ => self.controllers.insert(key, selector),
        }
    }

    fn remove(&mut self, key: &SpreadOwnerKey) -> Option<Selector> {
        match key.kind {
            SpreadOwnerKind::Service => {
                let services = self.services.get_mut(&key.namespace)?;
                let before = services.remove(&key.name);
                if services.is_empty() {
                    self.services.remove(&key.namespace);
                }
                before
            }
            _ => self.controllers.remove(key),
        }
    }

    /// The conjunction of the selectors of the pod's controller and of all services that match the pod, as upstream's
    /// `helper.DefaultSelector`. `None` if there are no requirements.
    fn default_selector(&self, pod: &Pod) -> Option<Selector> {
        let services = self.services.get(&pod.key.namespace);
        let services = services.into_iter().flat_map(BTreeMap::values);
        let services = services.filter(|selector| selector.matches(&pod.labels));
        let all = services.chain(self.controller_selector(pod));
        let mut requirements: Vec<Requirement> = Vec::new();
        for requirement in all.filter_map(Selector::requirements).flatten() {
            if !requirements.contains(requirement) {
                requirements.push(requirement.clone());
            }
        }
        (!requirements.is_empty()).then(|| Selector::new(requirements))
    }

    fn controller_selector(&self, pod: &Pod) -> Option<&Selector> {
        if self.controllers.is_empty() {
            return None;
        }
        self.controllers.get(&controller_key(pod)?)
    }
}

fn controller_key(pod: &Pod) -> Option<SpreadOwnerKey> {
    let controller = pod.controller.as_ref()?;
    Some(SpreadOwnerKey {
        kind: SpreadOwnerKind::of_controller(&controller.api_version, &controller.kind)?,
        namespace: pod.key.namespace.clone(),
        name: controller.name.clone(),
    })
}

/// Whether `key` is the controller of a pod. Allocates nothing, since it runs for all pods of a namespace.
fn is_controlled_by(pod: &Pod, key: &SpreadOwnerKey) -> bool {
    pod.controller.as_ref().is_some_and(|controller| {
        controller.name == key.name
            && SpreadOwnerKind::of_controller(&controller.api_version, &controller.kind)
                == Some(key.kind)
    })
}

impl ClusterState {
    /// Adds or updates a service or controller. Returns whether its selector changed.
    pub fn set_spread_owner(&mut self, group: SpreadOwner) -> bool {
        let (key, after) = (group.key.clone(), group.selector.clone());
        let before = self.spread_owners.set(group);
        if before.as_ref() == Some(&after) {
            return false;
        }
        self.refresh_default_spread(&key, [before, Some(after)]);
        true
    }

    /// Removes a service or controller. Returns whether it was known.
    pub fn remove_spread_owner(&mut self, key: &SpreadOwnerKey) -> bool {
        let before = self.spread_owners.remove(key);
        let was_known = before.is_some();
        if was_known {
            self.refresh_default_spread(key, [before, None]);
        }
        was_known
    }

    /// The keys of all known owners of one kind.
    pub fn spread_owner_keys(&self, kind: SpreadOwnerKind) -> Vec<SpreadOwnerKey> {
        match kind {
            SpreadOwnerKind::Service => {
                let services = self.spread_owners.services.iter();
                let keys = services.flat_map(|(namespace, services)| {
                    services.keys().map(|name| SpreadOwnerKey {
                        kind,
                        namespace: namespace.clone(),
                        name: name.clone(),
                    })
                });
                keys.collect()
            }
            _ => {
                let controllers = self.spread_owners.controllers.keys();
                controllers
                    .filter(|key| key.kind == kind)
                    .cloned()
                    .collect()
            }
        }
    }

    /// Recomputes the default spread term of the pods that the owner selected before or selects now.
    fn refresh_default_spread(&mut self, key: &SpreadOwnerKey, selectors: [Option<Selector>; 2]) {
        let is_about = |pod: &Pod| match key.kind {
            SpreadOwnerKind::Service => selectors
                .iter()
                .flatten()
                .any(|selector| selector.matches(&pod.labels)),
            _ => is_controlled_by(pod, key),
        };
        let pods = self.pods.in_namespace(&key.namespace);
        let pods: Vec<PodId> = pods
            .filter(|pod| is_about(&self.pods.slots[*pod].pod))
            .collect();
        for id in pods {
            let pod = self.pods.slots[id].pod.clone();
            let after = self.acquire_default_spread(&pod);
            let terms = &mut self.pods.slots[id].terms;
            let before = std::mem::replace(&mut terms.default_spread, after);
            self.release_term_ids(before);
        }
    }

    /// Acquires the term that the default constraints count for a pod without constraints of its own: the pods that
    /// its services and controller select, per node.
    pub(super) fn acquire_default_spread(&mut self, pod: &Pod) -> Option<TermId> {
        if !pod.spread_constraints.is_empty() {
            return None;
        }
        let matcher = PodMatcher {
            selector: self.spread_owners.default_selector(pod)?,
            namespaces: TermNamespaces::only(&pod.key.namespace),
            skips_terminating: true,
        };
        let matcher = self.acquire_matcher(MatcherRule::One(matcher.into()));
        Some(self.acquire_term_counts(matcher, TopologyTable::EACH_NODE))
    }
}
