//! The objects of a cluster as JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{NAMESPACES, PodFeatures, SeededRng, namespace, node, pod};
use crate::cluster::ClusterState;
use crate::model::{Labels, Node, Pod};

/// Objects by name; pods by uid.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClusterObjects {
    pub(crate) nodes: BTreeMap<String, Value>,
    pub(crate) namespaces: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<String, Value>,
}

impl ClusterObjects {
    /// A random cluster with assigned and pending pods, some of them on nodes that do not exist.
    pub(crate) fn random(rng: &mut SeededRng, extent: PodFeatures) -> ClusterObjects {
        let mut objects = ClusterObjects::default();
        let (nodes, pods) = (1 + rng.below(8), rng.below(16));
        let namespaces = 2 + rng.below(NAMESPACES.len() - 1);
        for number in 0..nodes {
            let name = format!("node-{number}");
            objects.nodes.insert(name.clone(), node(rng, &name));
        }
        for name in &NAMESPACES[..namespaces] {
            if rng.percent(90) {
                let namespace = namespace(rng, name);
                objects.namespaces.insert((*name).to_owned(), namespace);
            }
        }
        for number in 0..pods {
            let mut pod = pod(rng, number, namespaces, extent);
            if rng.percent(75) {
                let node_index = rng.below(nodes + 1);
                pod["spec"]["nodeName"] = format!("node-{node_index}").into();
                if rng.percent(8) {
                    pod["status"]["phase"] = rng.choose(&["Succeeded", "Failed"]).into();
                }
            }
            objects.insert_pod(pod);
        }
        objects
    }

    pub(crate) fn insert_pod(&mut self, pod: Value) {
        let uid = pod["metadata"]["uid"]
            .as_str()
            .expect("the pod has a uid")
            .to_owned();
        self.pods.insert(uid, pod);
    }

    /// The scheduler's cluster state for these objects.
    pub(crate) fn build_cluster(&self) -> ClusterState {
        let mut cluster = ClusterState::default();
        for node in self.nodes.values() {
            cluster.set_node(read_node(node));
        }
        for (name, namespace) in &self.namespaces {
            cluster.set_namespace(name, read_labels(namespace));
        }
        for pod in self.pods.values() {
            cluster.set_pod(read_pod(pod));
        }
        cluster.refresh_node_order();
        cluster
    }

    /// Unassigned pods that are not being deleted.
    pub(crate) fn pending(&self) -> impl Iterator<Item = (&String, &Value)> {
        let pods = self.pods.iter();
        pods.filter(|(_, pod)| {
            pod["spec"]["nodeName"].is_null()
                && pod["status"]["phase"] == "Pending"
                && pod["metadata"]["deletionTimestamp"].is_null()
        })
    }
}

pub(crate) fn read_pod(pod: &Value) -> Pod {
    Pod::from_json(pod.to_string().as_bytes()).expect("the pod can be decoded")
}

pub(crate) fn read_node(node: &Value) -> Node {
    Node::from_json(node.to_string().as_bytes()).expect("the node can be decoded")
}

pub(crate) fn read_labels(object: &Value) -> Labels {
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    labels
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect()
}
