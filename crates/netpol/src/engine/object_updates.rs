//! Applies added, updated and deleted objects to the engine's state.

use std::net::IpAddr;

use kube::api::ObjectMeta;

use super::PolicyEngine;
use super::ids::{PodId, PolicyId, SelectionId};
use super::pod_table::{self, PodAttributes};
use super::policy_table::CompiledPolicy;
use crate::objects::Labels;
use crate::{Namespace, NamespacedName, NetworkPolicy, Pod};

impl PolicyEngine {
    pub(super) fn apply_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.as_deref().unwrap_or_default();
        let none = Labels::new();
        let labels = namespace.metadata.labels.as_ref().unwrap_or(&none);
        if self
            .cluster
            .namespaces
            .set(name, labels, &mut self.interner)
        {
            self.reselect_pods_of_namespace(name);
        }
    }

    pub(super) fn delete_namespace(&mut self, name: &str) {
        if self.cluster.namespaces.remove(name, &mut self.interner) {
            self.reselect_pods_of_namespace(name);
        }
    }

    fn reselect_pods_of_namespace(&mut self, name: &str) {
        let Some(id) = self.cluster.namespaces.find(name) else {
            return;
        };
        let pods: Vec<PodId> = self.cluster.namespaces[id].pods.iter().collect();
        for pod in pods {
            self.update_pod_selections(pod);
        }
        self.update_stale_policy_activity();
    }

    pub(super) fn apply_pod(&mut self, pod: &Pod) -> bool {
        let name = name_of(&pod.metadata);
        if pod_table::is_finished(pod) {
            self.delete_pod(&name);
            return false;
        }
        let attributes = PodAttributes::from_pod(pod, &mut self.interner);
        let mut is_same_target = false;
        let id = match self.cluster.pods.find(&name) {
            Some(id) if self.cluster.pods[id].attributes == attributes => return false,
            Some(id) => {
                is_same_target = self.cluster.pods[id].attributes.is_same_target(&attributes);
                self.unindex_pod(id);
                if self.cluster.pods[id].attributes.node != attributes.node {
                    self.move_member_counts(id, &attributes.node);
                }
                self.cluster.pods[id].attributes = attributes;
                id
            }
            None => {
                let namespaces = &mut self.cluster.namespaces;
                let namespace = namespaces.acquire(&name.namespace, &mut self.interner);
                self.cluster.pods.insert(name, namespace, attributes)
            }
        };
        self.index_pod(id);
        self.update_pod_selections(id);
        self.update_stale_policy_activity();
        !is_same_target
    }

    pub(super) fn delete_pod(&mut self, name: &NamespacedName) {
        let Some(id) = self.cluster.pods.find(name) else {
            return;
        };
        self.unindex_pod(id);
        for selection in std::mem::take(&mut self.cluster.pods[id].selections) {
            self.remove_member(selection, id);
        }
        let namespace = self.cluster.pods[id].namespace;
        self.cluster.pods.remove(id);
        self.cluster.namespaces.release(namespace);
        self.update_stale_policy_activity();
    }

    /// Adds a pod to all indexes: node addresses, namespace, labels, local pods, address owners.
    fn index_pod(&mut self, id: PodId) {
        let cluster = &mut self.cluster;
        let pod = &cluster.pods[id];
        cluster.node_addresses.insert(&pod.attributes);
        if pod.attributes.is_host_network {
            return;
        }
        cluster.namespaces.insert_pod(pod.namespace, id);
        cluster.pods.index_labels(id);
        if self.is_local(id) {
            self.node_ruleset.pods.insert(id);
        }
        for at in 0..self.cluster.pods[id].attributes.addresses.len() {
            let address = self.cluster.pods[id].attributes.addresses[at];
            let before = self
                .cluster
                .address_owners
                .claim(address, id, &self.cluster.pods);
            self.mark_address_owner_changed(address, before);
        }
    }

    /// Undoes `index_pod`, with the attributes that the pod was indexed with.
    fn unindex_pod(&mut self, id: PodId) {
        let cluster = &mut self.cluster;
        let pod = &cluster.pods[id];
        cluster.node_addresses.remove(&pod.attributes);
        if pod.attributes.is_host_network {
            return;
        }
        cluster.namespaces.remove_pod(pod.namespace, id);
        cluster.pods.unindex_labels(id);
        for at in 0..self.cluster.pods[id].attributes.addresses.len() {
            let address = self.cluster.pods[id].attributes.addresses[at];
            let before = self
                .cluster
                .address_owners
                .release(address, id, &self.cluster.pods);
            self.mark_address_owner_changed(address, before);
        }
        self.node_ruleset.pods.remove(&id);
    }

    pub(super) fn apply_node_pod_ranges(&mut self, ranges: &[(IpAddr, IpAddr)]) {
        if self.node_ruleset.pod_ranges == ranges {
            return;
        }
        let before = std::mem::replace(&mut self.node_ruleset.pod_ranges, ranges.to_vec());
        for (first, last) in before.iter().chain(ranges) {
            let owned = self
                .cluster
                .address_owners
                .addresses_in_range(*first, *last);
            self.node_ruleset.stale.addresses.extend(owned);
        }
    }

    /// The owner of an address may have changed: marks everything in the node's ruleset that depends on the address,
    /// for the previous and the new owner.
    fn mark_address_owner_changed(&mut self, address: IpAddr, before: Option<PodId>) {
        if self.node_ruleset.name.is_none() {
            return;
        }
        let after = self.cluster.address_owners.owner_of(address);
        if self.node_ruleset.is_in_range(address) {
            self.node_ruleset.stale.addresses.insert(address);
        }
        for pod in before.into_iter().chain(after) {
            if self.is_local(pod) {
                self.node_ruleset.stale.addresses.insert(address);
            }
            for selection in &self.cluster.pods[pod].selections {
                self.node_ruleset
                    .mark_elements_stale(*selection, &[address]);
            }
        }
    }

    pub(super) fn apply_policy(&mut self, policy: &NetworkPolicy) {
        let name = name_of(&policy.metadata);
        let compiled = self.compile_policy(&name.namespace, policy);
        let Some(id) = self.cluster.policies.find(&name) else {
            let id = self.cluster.policies.insert(name, compiled);
            self.link_selections(id);
            return self.update_stale_policy_activity();
        };
        if self.cluster.policies[id].compiled == compiled {
            return self.release_selections(&compiled);
        }
        self.unlink_selections(id);
        let was_active = std::mem::take(&mut self.cluster.policies[id].is_active);
        let before = std::mem::replace(&mut self.cluster.policies[id].compiled, compiled);
        // Link the new version first, so that selections used by both versions are never dropped in between.
        self.link_selections(id);
        self.stop_using_selections(&before, was_active);
        self.release_selections(&before);
        self.update_stale_policy_activity();
    }

    pub(super) fn delete_policy(&mut self, name: &NamespacedName) {
        let Some(id) = self.cluster.policies.find(name) else {
            return;
        };
        self.unlink_selections(id);
        let Some(policy) = self.cluster.policies.remove(id) else {
            return;
        };
        if self.node_ruleset.name.is_none() {
            self.changed_policies.mark_removed(id, policy.name);
        }
        self.stop_using_selections(&policy.compiled, policy.is_active);
        self.release_selections(&policy.compiled);
    }

    fn link_selections(&mut self, id: PolicyId) {
        let compiled = &self.cluster.policies[id].compiled;
        let (target, is_understood) = (compiled.target, compiled.is_supported);
        let peers: Vec<SelectionId> = compiled.peer_selections().collect();
        let selections = &mut self.cluster.selections;
        for peer in peers {
            selections[peer].peer_of.insert(id);
        }
        selections[target].targeted_by.insert(id);
        self.count_members(target);
        if is_understood || self.node_ruleset.name.is_none() {
            self.use_selection(target);
        }
        self.mark_policy_changed(id);
        self.update_policy_activity(id);
    }

    fn unlink_selections(&mut self, id: PolicyId) {
        self.mark_policy_changed(id);
        let compiled = &self.cluster.policies[id].compiled;
        let selections = &mut self.cluster.selections;
        for peer in compiled.peer_selections() {
            selections[peer].peer_of.remove(id);
        }
        selections[compiled.target].targeted_by.remove(id);
        self.node_ruleset.stale.activity_changed.remove(&id);
    }

    /// Marks the policy and the addresses of the pods that it selects as changed.
    fn mark_policy_changed(&mut self, id: PolicyId) {
        let policy = &self.cluster.policies[id];
        if self.node_ruleset.name.is_none() {
            self.changed_policies.mark_policy(id);
            return;
        }
        let stale = &mut self.node_ruleset.stale;
        stale.policies.insert(policy.name.clone());
        for pod in self.cluster.selections[policy.compiled.target]
            .members
            .iter()
        {
            let addresses = &self.cluster.pods[pod].attributes.addresses;
            stale.addresses.extend(addresses);
        }
    }

    fn stop_using_selections(&mut self, compiled: &CompiledPolicy, was_active: bool) {
        if was_active {
            for selection in compiled.required_selections() {
                self.stop_using_selection(selection);
            }
        }
        if compiled.is_supported || self.node_ruleset.name.is_none() {
            self.stop_using_selection(compiled.target);
        }
    }

    fn release_selections(&mut self, compiled: &CompiledPolicy) {
        for selection in compiled.required_selections() {
            self.release_selection(selection);
        }
        self.release_selection(compiled.target);
    }
}

/// Objects read from files may omit the namespace.
fn name_of(metadata: &ObjectMeta) -> NamespacedName {
    let namespace = metadata.namespace.as_deref();
    let namespace = namespace.filter(|name| !name.is_empty());
    NamespacedName::new(
        namespace.unwrap_or("default"),
        metadata.name.as_deref().unwrap_or_default(),
    )
}
