//! Services and controllers, whose selectors define which pods the default topology spread constraints count.

use std::collections::{BTreeMap, HashMap};

use rhumb_meta::labels::{Requirement, Selector};
use rhumb_selection::{IndexTerm, InternedString, Interner, SelectorIndex, SlotMap};

use super::ClusterState;
use super::ids::{PodId, ServiceId, TermId};
use super::pod_matchers::MatcherRule;
use super::topologies::TopologyTable;
use crate::model::{Pod, PodMatcher, SpreadOwner, SpreadOwnerKey, SpreadOwnerKind, TermNamespaces};

/// The selectors of all services and controllers.
#[derive(Debug, Default)]
pub(super) struct SpreadOwners {
    /// By namespace and name.
    services: HashMap<Box<str>, BTreeMap<Box<str>, ServiceId>>,
    service_slots: SlotMap<ServiceId, ServiceSelector>,
    /// The services of each namespace, by a label that they require.
    service_index: SelectorIndex<InternedString, ServiceId>,
    controllers: HashMap<SpreadOwnerKey, Selector>,
}

#[derive(Debug)]
struct ServiceSelector {
    name: Box<str>,
    selector: Selector,
}

impl SpreadOwners {
    /// Returns the previous selector.
    fn set(&mut self, group: SpreadOwner, interner: &mut Interner) -> Option<Selector> {
        let SpreadOwner { key, selector } = group;
        match key.kind {
            SpreadOwnerKind::Service => {
                let old = self.remove_service(&key, interner);
                self.insert_service(key, selector, interner);
                old
            }
            _ => self.controllers.insert(key, selector),
        }
    }

    fn remove(&mut self, key: &SpreadOwnerKey, interner: &mut Interner) -> Option<Selector> {
        match key.kind {
            SpreadOwnerKind::Service => self.remove_service(key, interner),
            _ => self.controllers.remove(key),
        }
    }

    fn insert_service(&mut self, key: SpreadOwnerKey, selector: Selector, interner: &mut Interner) {
        let id = self.service_slots.insert(ServiceSelector {
            name: key.name.clone(),
            selector: selector.clone(),
        });
        let namespace = interner.intern(&key.namespace);
        self.service_index
            .insert_selector(&namespace, &selector, id, interner);
        let services = self.services.entry(key.namespace).or_default();
        services.insert(key.name, id);
    }

    fn remove_service(
        &mut self,
        key: &SpreadOwnerKey,
        interner: &mut Interner,
    ) -> Option<Selector> {
        let services = self.services.get_mut(&key.namespace)?;
        let id = services.remove(&key.name)?;
        if services.is_empty() {
            self.services.remove(&key.namespace);
        }
        let service = self.service_slots.remove(id)?;
        let namespace = interner.intern(&key.namespace);
        self.service_index
            .remove_selector(&namespace, &service.selector, id, interner);
        Some(service.selector)
    }

    /// The conjunction of the selectors of the pod's controller and of all services that match the pod, as upstream's
    /// `helper.DefaultSelector`. `None` if there are no requirements.
    fn default_selector(&self, pod: &Pod, interner: &Interner) -> Option<Selector> {
        let services = self.matching_services(pod, interner);
        let services = services.iter().map(|service| &service.selector);
        let all = services.chain(self.controller_selector(pod));
        let mut requirements: Vec<Requirement> = Vec::new();
        for requirement in all.filter_map(Selector::requirements).flatten() {
            if !requirements.contains(requirement) {
                requirements.push(requirement.clone());
            }
        }
        (!requirements.is_empty()).then(|| Selector::new(requirements))
    }

    /// The services that select a pod, in the order of their names.
    fn matching_services(&self, pod: &Pod, interner: &Interner) -> Vec<&ServiceSelector> {
        if !self.services.contains_key(&pod.key.namespace) {
            return Vec::new();
        }
        let Some(namespace) = interner.get(&pod.key.namespace) else {
            return Vec::new();
        };
        let labels = interner.resolve_labels(pod.labels.iter());
        let terms = labels
            .flat_map(IndexTerm::of_resolved)
            .chain([IndexTerm::Any]);
        let candidates = self.service_index.candidates(namespace, terms);
        let candidates = candidates.map(|candidate| &self.service_slots[candidate.id]);
        let matching = candidates.filter(|service| service.selector.matches(&pod.labels));
        let mut matching: Vec<&ServiceSelector> = matching.collect();
        matching.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        matching
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
        let old = self.spread_owners.set(group, &mut self.interner);
        if old.as_ref() == Some(&after) {
            return false;
        }
        self.refresh_default_spread(&key, [old, Some(after)]);
        true
    }

    /// Removes a service or controller. Returns whether it was known.
    pub fn remove_spread_owner(&mut self, key: &SpreadOwnerKey) -> bool {
        let old = self.spread_owners.remove(key, &mut self.interner);
        let was_known = old.is_some();
        if was_known {
            self.refresh_default_spread(key, [old, None]);
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
            let old = std::mem::replace(&mut terms.default_spread, after);
            self.release_term_ids(old);
        }
    }

    /// Acquires the term that the default constraints count for a pod without constraints of its own: the pods that
    /// its services and controller select, per node.
    pub(super) fn acquire_default_spread(&mut self, pod: &Pod) -> Option<TermId> {
        if !pod.spread_constraints.is_empty() {
            return None;
        }
        let matcher = PodMatcher {
            selector: self.spread_owners.default_selector(pod, &self.interner)?,
            namespaces: TermNamespaces::only(&pod.key.namespace),
            skips_terminating: true,
        };
        let matcher = self.acquire_matcher(MatcherRule::One(matcher.into()));
        Some(self.acquire_term_counts(matcher, TopologyTable::EACH_NODE))
    }
}
