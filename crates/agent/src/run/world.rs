//! All that is known of the cluster.

use std::collections::BTreeSet;

use rhumb_netpol::{Engine, Knowledge, Name, Scope};

use super::watches::{Listed, Node, Told};
use crate::nft::Held;

const NAMESPACES: &str = "namespaces";
const PODS: &str = "pods";
const POLICIES: &str = "network policies";
const NODE: &str = "the node";

/// What the server has told so far. Pure.
pub(super) struct World {
    pub(super) engine: Engine,
    /// Addresses of pods of this node that are not to be used before the pod is known.
    pub(super) held: Held,
    pub(super) node: NodeState,
    holds_unknown: bool,
    /// What has not been listed yet.
    missing: BTreeSet<&'static str>,
}

/// What is known of the node's own object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeState {
    /// There never was one.
    Unknown,
    /// It is there, with its uid.
    Known(String),
    /// There was one.
    Gone,
}

impl World {
    pub(super) fn new(node: String, knowledge: Knowledge, holds_unknown: bool) -> World {
        World {
            engine: Engine::new(Scope::Node(node), knowledge),
            held: Held::default(),
            node: NodeState::Unknown,
            holds_unknown,
            missing: BTreeSet::from([NAMESPACES, PODS, POLICIES, NODE]),
        }
    }

    /// What has not been seen at all yet; `None` if everything has.
    pub(super) fn missing(&self) -> Option<String> {
        let missing: Vec<&str> = self.missing.iter().copied().collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }

    pub(super) fn hear(&mut self, told: Told) {
        match told {
            Told::Namespace(namespace) => self.engine.set_namespace(&namespace),
            Told::NamespaceGone(name) => self.engine.remove_namespace(&name),
            Told::Pod(pod) => self.engine.set_pod(&pod),
            Told::PodGone(name) => self.engine.remove_pod(&name),
            Told::Policy(policy) => self.engine.set_policy(&policy),
            Told::PolicyGone(name) => self.engine.remove_policy(&name),
            Told::Node(node) => self.node_is(&node),
            Told::NodeGone => self.node_is_gone(),
            Told::All(listed) => self.forget_others(listed),
        }
    }

    fn forget_others(&mut self, listed: Listed) {
        match listed {
            Listed::Namespaces(names) => {
                let engine = &mut self.engine;
                let known = engine.namespaces().map(str::to_owned);
                let gone: Vec<String> = known.filter(|name| !names.contains(name)).collect();
                gone.iter().for_each(|name| engine.remove_namespace(name));
                self.missing.remove(NAMESPACES);
            }
            Listed::Pods(names) => {
                let gone = not_among(self.engine.pods(), &names);
                gone.iter().for_each(|name| self.engine.remove_pod(name));
                self.missing.remove(PODS);
            }
            Listed::Policies(names) => {
                let gone = not_among(self.engine.policies(), &names);
                gone.iter().for_each(|name| self.engine.remove_policy(name));
                self.missing.remove(POLICIES);
            }
            Listed::Nodes(names) => {
                if names.is_empty() {
                    self.node_is_gone();
                }
                self.missing.remove(NODE);
            }
        }
    }

    fn node_is(&mut self, node: &Node) {
        self.node = NodeState::Known(node.metadata.uid.clone().unwrap_or_default());
        if self.holds_unknown {
            self.held = Held::of(node.blocks());
        }
    }

    /// Its pods keep the addresses that they have, and so do rules.
    fn node_is_gone(&mut self) {
        if self.node != NodeState::Unknown {
            self.node = NodeState::Gone;
        }
    }
}

fn not_among<'a>(known: impl Iterator<Item = &'a Name>, names: &BTreeSet<Name>) -> Vec<Name> {
    known
        .filter(|name| !names.contains(name))
        .cloned()
        .collect()
}
