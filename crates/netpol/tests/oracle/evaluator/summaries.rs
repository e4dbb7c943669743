//! What is to be told about a policy.

use std::collections::BTreeMap;

use rhumb_netpol::{Direction, Name};
use serde_json::Value;

use super::{Block, Oracle, is_host, is_live, list, node_of, peers, text, versions};

/// The parts of a summary, without flaws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) min_version: String,
    pub(crate) nodes: BTreeMap<String, usize>,
    pub(crate) unplaced: usize,
    pub(crate) traffic: Option<bool>,
}

impl Oracle<'_> {
    pub(crate) fn facts(&self, name: &Name, policy: &Value) -> Facts {
        let mut nodes = BTreeMap::new();
        for pod in self
            .world
            .pods
            .values()
            .filter(|pod| self.targets(policy, pod))
        {
            *nodes.entry(node_of(pod).to_owned()).or_default() += 1;
        }
        Facts {
            uid: text(&policy["metadata"]["uid"]).to_owned(),
            generation: policy["metadata"]["generation"]
                .as_i64()
                .unwrap_or_default(),
            min_version: versions::min_version(&policy["spec"]).to_owned(),
            unplaced: nodes.remove("").unwrap_or_default(),
            nodes,
            traffic: self.traffic(&name.namespace, &policy["spec"]),
        }
    }

    fn traffic(&self, namespace: &str, spec: &Value) -> Option<bool> {
        let counted = [(Direction::Ingress, "from"), (Direction::Egress, "to")].into_iter();
        let counted = counted.filter(|(direction, _)| peers::is_about(spec, *direction));
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
                    .any(|peer| self.speaks_of_someone(namespace, peer))
        }))
    }

    fn speaks_of_someone(&self, namespace: &str, peer: &Value) -> bool {
        match peers::is_of_pods(peer) {
            Some(true) => {
                let mut pods = self
                    .world
                    .pods
                    .values()
                    .filter(|pod| is_live(pod) && !is_host(pod));
                pods.any(|pod| self.is_selected(namespace, peer, pod))
            }
            Some(false) => {
                let block = &peer["ipBlock"];
                let cidr = Block::read(text(&block["cidr"]));
                cidr.is_some_and(|cidr| cidr.has_rest(&peers::excepts(block)))
            }
            None => false,
        }
    }
}
