//! Expected policy summaries.

use std::collections::BTreeMap;

use rhumb_netpol::{Direction, NamespacedName};
use serde_json::Value;

use super::{
    ReferenceCidr, ReferenceEvaluator, is_host, is_live, list, node_of, peers, text, versions,
};

/// A policy summary without lint warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedPolicySummary {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) min_version: String,
    pub(crate) pods_per_node: BTreeMap<String, usize>,
    pub(crate) unscheduled_pods: usize,
    pub(crate) has_matching_peers: Option<bool>,
}

impl ReferenceEvaluator<'_> {
    pub(crate) fn expected_summary(
        &self,
        name: &NamespacedName,
        policy: &Value,
    ) -> ExpectedPolicySummary {
        let mut nodes = BTreeMap::new();
        for pod in self
            .objects
            .pods
            .values()
            .filter(|pod| self.targets(policy, pod))
        {
            *nodes.entry(node_of(pod).to_owned()).or_default() += 1;
        }
        ExpectedPolicySummary {
            uid: text(&policy["metadata"]["uid"]).to_owned(),
            generation: policy["metadata"]["generation"]
                .as_i64()
                .unwrap_or_default(),
            min_version: versions::min_version(&policy["spec"]).to_owned(),
            unscheduled_pods: nodes.remove("").unwrap_or_default(),
            pods_per_node: nodes,
            has_matching_peers: self.has_matching_peers(&name.namespace, &policy["spec"]),
        }
    }

    fn has_matching_peers(&self, namespace: &str, spec: &Value) -> Option<bool> {
        let counted = [(Direction::Ingress, "from"), (Direction::Egress, "to")].into_iter();
        let counted = counted.filter(|(direction, _)| peers::isolates(spec, *direction));
        let mut lists = counted.flat_map(|(direction, field)| {
            peers::rules(spec, direction)
                .iter()
                .map(move |rule| list(&rule[field]))
        });
        lists.clone().next()?;
        Some(lists.any(|peers| {
            peers.is_empty()
                || peers
                    .iter()
                    .any(|peer| self.peer_matches_anything(namespace, peer))
        }))
    }

    fn peer_matches_anything(&self, namespace: &str, peer: &Value) -> bool {
        match peers::selects_pods(peer) {
            Some(true) => {
                let mut pods = self
                    .objects
                    .pods
                    .values()
                    .filter(|pod| is_live(pod) && !is_host(pod));
                pods.any(|pod| self.is_selected(namespace, peer, pod))
            }
            Some(false) => {
                let block = &peer["ipBlock"];
                let cidr = ReferenceCidr::parse(text(&block["cidr"]));
                cidr.is_some_and(|cidr| cidr.has_addresses_outside(&peers::excepts(block)))
            }
            None => false,
        }
    }
}
