//! The state of the cluster as the engine knows it, and queries on it.

use std::net::IpAddr;

use super::address_owners::{AddressOwners, NodeAddresses};
use super::ids::{PodId, PolicyId};
use super::namespace_table::NamespaceTable;
use super::pod_selections::{NamespaceScope, PodSelection, PodSelectionTable};
use super::pod_table::PodTable;
use super::policy_table::PolicyTable;
use crate::Direction;

#[derive(Debug, Default)]
pub(crate) struct PolicyClusterState {
    pub(crate) namespaces: NamespaceTable,
    pub(crate) pods: PodTable,
    pub(crate) address_owners: AddressOwners,
    pub(crate) node_addresses: NodeAddresses,
    pub(crate) selections: PodSelectionTable,
    pub(crate) policies: PolicyTable,
}

impl PolicyClusterState {
    /// Whether a selection matches the pod, on any node.
    pub(crate) fn selection_matches(&self, selection: &PodSelection, pod: PodId) -> bool {
        let pod = &self.pods[pod];
        let is_in_place = match selection.key.namespaces {
            NamespaceScope::Named(namespace) => namespace == pod.namespace,
            NamespaceScope::Matching(selector) => {
                let selector = &self.namespaces.selector(selector).selector;
                selector.matches(&*self.namespaces[pod.namespace].labels)
            }
        };
        is_in_place
            && !pod.attributes.is_host_network
            && selection.pods.matches(&*pod.attributes.labels)
    }

    /// The policies that isolate a pod in a direction, sorted by name.
    pub(crate) fn isolating_policies(&self, pod: PodId, direction: Direction) -> Vec<PolicyId> {
        let selections = self.pods[pod].selections.iter();
        let policies = selections.flat_map(|id| self.selections[*id].targeted_by.iter());
        let isolates = |id: &PolicyId| {
            let compiled = &self.policies[*id].compiled;
            compiled.is_supported && compiled.rules(direction).is_some()
        };
        let mut policies: Vec<PolicyId> = policies.filter(isolates).collect();
        policies.sort_unstable_by(|a, b| self.policies[*a].name.cmp(&self.policies[*b].name));
        policies
    }

    /// The addresses of a pod that no other pod has taken over.
    pub(crate) fn owned_addresses(&self, pod: PodId) -> impl Iterator<Item = IpAddr> {
        let addresses = self.pods[pod].attributes.addresses.iter().copied();
        addresses.filter(move |address| self.address_owners.owner_of(*address) == Some(pod))
    }
}
