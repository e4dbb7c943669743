//! All that is known, and what can be asked of it.

use std::net::IpAddr;

use super::namespaces::Namespaces;
use super::owners::{Nodes, Owners};
use super::pods::Pods;
use super::policies::Policies;
use super::selections::{Place, Selection, Selections};
use super::slots::{PodId, PolicyId};
use crate::Direction;

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) namespaces: Namespaces,
    pub(crate) pods: Pods,
    pub(crate) owners: Owners,
    pub(crate) nodes: Nodes,
    pub(crate) selections: Selections,
    pub(crate) policies: Policies,
}

impl World {
    /// Whether a selection picks the pod, on whichever node.
    pub(crate) fn picks(&self, selection: &Selection, pod: PodId) -> bool {
        let pod = &self.pods[pod];
        let is_in_place = match selection.key.place {
            Place::Exactly(namespace) => namespace == pod.namespace,
            Place::Selected(selector) => {
                let selector = &self.namespaces.selector(selector).selector;
                selector.matches(&*self.namespaces[pod.namespace].labels)
            }
        };
        is_in_place && !pod.facts.is_host_network && selection.pods.matches(&*pod.facts.labels)
    }

    /// The policies that isolate a pod in a direction, by name.
    pub(crate) fn isolating(&self, pod: PodId, direction: Direction) -> Vec<PolicyId> {
        let selections = self.pods[pod].selections.iter();
        let policies = selections.flat_map(|id| self.selections[*id].targeted_by.iter());
        let isolates = |id: &PolicyId| {
            let meaning = &self.policies[*id].meaning;
            meaning.is_understood && meaning.rules(direction).is_some()
        };
        let mut policies: Vec<PolicyId> = policies.filter(isolates).collect();
        policies.sort_unstable_by(|a, b| self.policies[*a].name.cmp(&self.policies[*b].name));
        policies
    }

    /// The addresses of a pod that are not another's by now.
    pub(crate) fn owned(&self, pod: PodId) -> impl Iterator<Item = IpAddr> {
        let addresses = self.pods[pod].facts.addresses.iter().copied();
        addresses.filter(move |address| self.owners.of(*address) == Some(pod))
    }
}
