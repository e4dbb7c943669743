//! What a new, changed or removed object changes.

use std::net::IpAddr;

use kube::api::ObjectMeta;

use super::Engine;
use super::pods::{self, Facts};
use super::policies::Meaning;
use super::slots::{PodId, PolicyId, SelectionId};
use crate::objects::Labels;
use crate::{Name, Namespace, NetworkPolicy, Pod};

impl Engine {
    pub(super) fn change_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        let none = Labels::new();
        let labels = namespace.metadata.labels.as_ref().unwrap_or(&none);
        if self.world.namespaces.set(name, labels, &mut self.texts) {
            self.select_namespace_again(name);
        }
    }

    pub(super) fn forget_namespace(&mut self, name: &str) {
        if self.world.namespaces.remove(name, &mut self.texts) {
            self.select_namespace_again(name);
        }
    }

    fn select_namespace_again(&mut self, name: &str) {
        let Some(id) = self.world.namespaces.find(name) else {
            return;
        };
        let pods: Vec<PodId> = self.world.namespaces[id].pods.iter().collect();
        for pod in pods {
            self.select_again(pod);
        }
        self.settle_all();
    }

    pub(super) fn change_pod(&mut self, pod: &Pod) {
        let name = name_of(&pod.metadata);
        if pods::is_finished(pod) {
            return self.forget_pod(&name);
        }
        let facts = Facts::read(pod, &mut self.texts);
        let id = match self.world.pods.find(&name) {
            Some(id) if self.world.pods[id].facts == facts => return,
            Some(id) => {
                self.withdraw(id);
                if self.world.pods[id].facts.node != facts.node {
                    self.count_elsewhere(id, &facts.node);
                }
                self.world.pods[id].facts = facts;
                id
            }
            None => {
                let namespaces = &mut self.world.namespaces;
                let namespace = namespaces.hold(&name.namespace, &mut self.texts);
                self.world.pods.insert(name, namespace, facts)
            }
        };
        self.present(id);
        self.select_again(id);
        self.settle_all();
    }

    pub(super) fn forget_pod(&mut self, name: &Name) {
        let Some(id) = self.world.pods.find(name) else {
            return;
        };
        self.withdraw(id);
        for selection in std::mem::take(&mut self.world.pods[id].selections) {
            self.leave(selection, id);
        }
        let pod = self.world.pods.remove(id);
        self.world.namespaces.release(pod.namespace);
        self.settle_all();
    }

    /// Enters a pod wherever it is looked up by what is known of it.
    fn present(&mut self, id: PodId) {
        let world = &mut self.world;
        let pod = &world.pods[id];
        world.nodes.insert(&pod.facts);
        if pod.facts.is_host_network {
            return;
        }
        world.namespaces.insert_pod(pod.namespace, id);
        world.pods.post(id);
        if self.is_local(id) {
            self.node.pods.insert(id);
        }
        for at in 0..self.world.pods[id].facts.addresses.len() {
            let address = self.world.pods[id].facts.addresses[at];
            let before = self.world.owners.claim(address, id, &self.world.pods);
            self.note_owner(address, before);
        }
    }

    fn withdraw(&mut self, id: PodId) {
        let world = &mut self.world;
        let pod = &world.pods[id];
        world.nodes.remove(&pod.facts);
        if pod.facts.is_host_network {
            return;
        }
        world.namespaces.remove_pod(pod.namespace, id);
        world.pods.unpost(id);
        for at in 0..self.world.pods[id].facts.addresses.len() {
            let address = self.world.pods[id].facts.addresses[at];
            let before = self.world.owners.release(address, id, &self.world.pods);
            self.note_owner(address, before);
        }
        self.node.pods.remove(&id);
    }

    pub(super) fn change_ranges(&mut self, ranges: &[(IpAddr, IpAddr)]) {
        if self.node.ranges == ranges {
            return;
        }
        let before = std::mem::replace(&mut self.node.ranges, ranges.to_vec());
        for (first, last) in before.iter().chain(ranges) {
            let owned = self.world.owners.within(*first, *last);
            self.node.stale.addresses.extend(owned);
        }
    }

    /// Who has an address may have changed: all that is said of it by either may have, too.
    fn note_owner(&mut self, address: IpAddr, before: Option<PodId>) {
        if self.node.name.is_none() {
            return;
        }
        let after = self.world.owners.of(address);
        if self.node.is_in_range(address) {
            self.node.stale.addresses.insert(address);
        }
        for pod in before.into_iter().chain(after) {
            if self.is_local(pod) {
                self.node.stale.addresses.insert(address);
            }
            for selection in &self.world.pods[pod].selections {
                self.node.note_elements(*selection, &[address]);
            }
        }
    }

    pub(super) fn change_policy(&mut self, policy: &NetworkPolicy) {
        let name = name_of(&policy.metadata);
        let meaning = self.read_policy(&name.namespace, policy);
        let Some(id) = self.world.policies.find(&name) else {
            let id = self.world.policies.insert(name, meaning);
            self.link(id);
            return self.settle_all();
        };
        if self.world.policies[id].meaning == meaning {
            return self.release_all(&meaning);
        }
        self.unlink(id);
        let was_active = std::mem::take(&mut self.world.policies[id].is_active);
        let before = std::mem::replace(&mut self.world.policies[id].meaning, meaning);
        // What both need is never let go of.
        self.link(id);
        self.disuse(&before, was_active);
        self.release_all(&before);
        self.settle_all();
    }

    pub(super) fn forget_policy(&mut self, name: &Name) {
        let Some(id) = self.world.policies.find(name) else {
            return;
        };
        self.unlink(id);
        let policy = self.world.policies.remove(id);
        if self.node.name.is_none() {
            self.touched.note_removed(id, policy.name);
        }
        self.disuse(&policy.meaning, policy.is_active);
        self.release_all(&policy.meaning);
    }

    fn link(&mut self, id: PolicyId) {
        let meaning = &self.world.policies[id].meaning;
        let (target, is_understood) = (meaning.target, meaning.is_understood);
        let peers: Vec<SelectionId> = meaning.peers().collect();
        let selections = &mut self.world.selections;
        for peer in peers {
            selections[peer].peer_of.insert(id);
        }
        selections[target].targeted_by.insert(id);
        self.count(target);
        if is_understood || self.node.name.is_none() {
            self.use_selection(target);
        }
        self.note_policy(id);
        self.settle(id);
    }

    fn unlink(&mut self, id: PolicyId) {
        self.note_policy(id);
        let meaning = &self.world.policies[id].meaning;
        let selections = &mut self.world.selections;
        for peer in meaning.peers() {
            selections[peer].peer_of.remove(id);
        }
        selections[meaning.target].targeted_by.remove(id);
        self.node.stale.activity.remove(&id);
    }

    /// All that is said of the policy and of the pods that it is about may have changed.
    fn note_policy(&mut self, id: PolicyId) {
        let policy = &self.world.policies[id];
        if self.node.name.is_none() {
            self.touched.note(id);
            return;
        }
        let stale = &mut self.node.stale;
        stale.policies.insert(policy.name.clone());
        for pod in self.world.selections[policy.meaning.target].members.iter() {
            let addresses = &self.world.pods[pod].facts.addresses;
            stale.addresses.extend(addresses);
        }
    }

    fn disuse(&mut self, meaning: &Meaning, was_active: bool) {
        if was_active {
            for selection in meaning.needs() {
                self.disuse_selection(selection);
            }
        }
        if meaning.is_understood || self.node.name.is_none() {
            self.disuse_selection(meaning.target);
        }
    }

    fn release_all(&mut self, meaning: &Meaning) {
        for selection in meaning.needs() {
            self.release_selection(selection);
        }
        self.release_selection(meaning.target);
    }
}

/// Objects in files may leave the namespace out.
fn name_of(metadata: &ObjectMeta) -> Name {
    let namespace = metadata.namespace.as_deref();
    let namespace = namespace.filter(|name| !name.is_empty());
    Name::new(
        namespace.unwrap_or("default"),
        metadata.name.as_deref().unwrap_or_default(),
    )
}
