//! All objects of a cluster as the server has them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Dice, Extent, NAMESPACES, namespace, node, pod};
use crate::cluster::Cluster;
use crate::model::{Labels, Node, Pod};

/// Objects by name; pods by uid.
#[derive(Debug, Default, Clone)]
pub(crate) struct World {
    pub(crate) nodes: BTreeMap<String, Value>,
    pub(crate) namespaces: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<String, Value>,
}

impl World {
    /// A cluster with pods on its nodes, pods that wait, and some that are on nodes nobody knows.
    pub(crate) fn random(dice: &mut Dice, extent: Extent) -> World {
        let mut world = World::default();
        let (nodes, pods) = (1 + dice.below(8), dice.below(16));
        let namespaces = 2 + dice.below(NAMESPACES.len() - 1);
        for number in 0..nodes {
            let name = format!("node-{number}");
            world.nodes.insert(name.clone(), node(dice, &name));
        }
        for name in &NAMESPACES[..namespaces] {
            if dice.chance(90) {
                let namespace = namespace(dice, name);
                world.namespaces.insert((*name).to_owned(), namespace);
            }
        }
        for number in 0..pods {
            let mut pod = pod(dice, number, namespaces, extent);
            if dice.chance(75) {
                let place = dice.below(nodes + 1);
                pod["spec"]["nodeName"] = format!("node-{place}").into();
                if dice.chance(8) {
                    pod["status"]["phase"] = dice.one_of(&["Succeeded", "Failed"]).into();
                }
            }
            world.insert_pod(pod);
        }
        world
    }

    pub(crate) fn insert_pod(&mut self, pod: Value) {
        let uid = pod["metadata"]["uid"].as_str().expect("a uid").to_owned();
        self.pods.insert(uid, pod);
    }

    /// What the scheduler makes of it.
    pub(crate) fn build(&self) -> Cluster {
        let mut cluster = Cluster::default();
        for node in self.nodes.values() {
            cluster.set_node(read_node(node));
        }
        for (name, namespace) in &self.namespaces {
            cluster.set_namespace(name, read_labels(namespace));
        }
        for pod in self.pods.values() {
            cluster.set_pod(read_pod(pod));
        }
        cluster.prepare();
        cluster
    }

    /// Pods that wait for a node. Those that are being deleted wait for nothing.
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
    Pod::from_json(pod.to_string().as_bytes()).expect("a pod")
}

pub(crate) fn read_node(node: &Value) -> Node {
    Node::from_json(node.to_string().as_bytes()).expect("a node")
}

pub(crate) fn read_labels(object: &Value) -> Labels {
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    labels
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect()
}
