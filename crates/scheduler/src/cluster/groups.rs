//! Services and controllers, and which pods belong together by them.

use std::collections::{BTreeMap, HashMap};

use rhumb_meta::labels::{Requirement, Selector};

use super::Cluster;
use super::ids::{PodId, TermId};
use super::pickers::Rule;
use super::topologies::Topologies;
use crate::model::{Group, GroupKey, GroupKind, NamespaceRule, Picker, Pod};

/// All of them, by namespace.
#[derive(Debug, Default)]
pub(super) struct Groups {
    services: HashMap<Box<str>, BTreeMap<Box<str>, Selector>>,
    controllers: HashMap<GroupKey, Selector>,
}

impl Groups {
    /// The selector before.
    fn set(&mut self, group: Group) -> Option<Selector> {
        let Group { key, selector } = group;
        match key.kind {
            GroupKind::Service => {
                let services = self.services.entry(key.namespace).or_default();
                services.insert(key.name, selector)
            }
            _ => self.controllers.insert(key, selector),
        }
    }

    fn remove(&mut self, key: &GroupKey) -> Option<Selector> {
        match key.kind {
            GroupKind::Service => {
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

    /// What services that pick the pod and its controller say together. `None` if there are none, or they say nothing.
    fn selector_of(&self, pod: &Pod) -> Option<Selector> {
        let services = self.services.get(&pod.key.namespace);
        let services = services.into_iter().flat_map(BTreeMap::values);
        let services = services.filter(|selector| selector.matches(&pod.labels));
        let all = services.chain(self.controller_of(pod));
        let mut requirements: Vec<Requirement> = Vec::new();
        for requirement in all.filter_map(Selector::requirements).flatten() {
            if !requirements.contains(requirement) {
                requirements.push(requirement.clone());
            }
        }
        (!requirements.is_empty()).then(|| Selector::new(requirements))
    }

    fn controller_of(&self, pod: &Pod) -> Option<&Selector> {
        if self.controllers.is_empty() {
            return None;
        }
        self.controllers.get(&controller_key(pod)?)
    }
}

fn controller_key(pod: &Pod) -> Option<GroupKey> {
    let controller = pod.controller.as_ref()?;
    Some(GroupKey {
        kind: GroupKind::of_controller(&controller.api_version, &controller.kind)?,
        namespace: pod.key.namespace.clone(),
        name: controller.name.clone(),
    })
}

/// The same question the other way round, asked of all pods of a namespace: it allocates nothing.
fn is_controlled_by(pod: &Pod, key: &GroupKey) -> bool {
    pod.controller.as_ref().is_some_and(|controller| {
        controller.name == key.name
            && GroupKind::of_controller(&controller.api_version, &controller.kind) == Some(key.kind)
    })
}

impl Cluster {
    /// Takes note of a service or a controller. Says whether it is about other pods than before.
    pub fn set_group(&mut self, group: Group) -> bool {
        let (key, after) = (group.key.clone(), group.selector.clone());
        let before = self.groups.set(group);
        if before.as_ref() == Some(&after) {
            return false;
        }
        self.group_changed(&key, [before, Some(after)]);
        true
    }

    /// The same for one that is gone.
    pub fn remove_group(&mut self, key: &GroupKey) -> bool {
        let before = self.groups.remove(key);
        let was_known = before.is_some();
        if was_known {
            self.group_changed(key, [before, None]);
        }
        was_known
    }

    /// All that are known of one kind.
    pub fn groups(&self, kind: GroupKind) -> Vec<GroupKey> {
        match kind {
            GroupKind::Service => {
                let services = self.groups.services.iter();
                let keys = services.flat_map(|(namespace, services)| {
                    services.keys().map(|name| GroupKey {
                        kind,
                        namespace: namespace.clone(),
                        name: name.clone(),
                    })
                });
                keys.collect()
            }
            _ => {
                let controllers = self.groups.controllers.keys();
                controllers
                    .filter(|key| key.kind == kind)
                    .cloned()
                    .collect()
            }
        }
    }

    /// Looks again at the pods that it was about, or is about now.
    fn group_changed(&mut self, key: &GroupKey, selectors: [Option<Selector>; 2]) {
        let is_about = |pod: &Pod| match key.kind {
            GroupKind::Service => selectors
                .iter()
                .flatten()
                .any(|selector| selector.matches(&pod.labels)),
            _ => is_controlled_by(pod, key),
        };
        let pods = self.pods.in_namespace(&key.namespace);
        let pods: Vec<PodId> = pods
            .filter(|pod| is_about(&self.pods.slots[*pod].facts))
            .collect();
        for pod in pods {
            let facts = self.pods.slots[pod].facts.clone();
            let after = self.acquire_default_spread(&facts);
            let terms = &mut self.pods.slots[pod].terms;
            let before = std::mem::replace(&mut terms.default_spread, after);
            self.release(before);
        }
    }

    /// What default constraints count for a pod that has none of its own: those that belong together with it, on each
    /// node.
    pub(super) fn acquire_default_spread(&mut self, pod: &Pod) -> Option<TermId> {
        if !pod.spread.is_empty() {
            return None;
        }
        let picker = Picker {
            selector: self.groups.selector_of(pod)?,
            namespaces: NamespaceRule::only(&pod.key.namespace),
            skips_terminating: true,
        };
        let picker = self.acquire_picker(Rule::One(picker.into()));
        Some(self.acquire_counted(picker, Topologies::EACH_NODE))
    }
}
