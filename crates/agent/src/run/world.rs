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
            self.engine.set_ranges(self.held.ranges());
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

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use rhumb_netpol::{Namespace, NetworkPolicy, Pod};

    use super::*;

    fn meta(namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn world() -> World {
        World::new("n".to_owned(), Knowledge::all(), true)
    }

    fn node(text: &str) -> Told {
        Told::Node(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn what_is_not_among_a_new_list_is_gone() {
        let mut world = world();
        for name in ["a", "b"] {
            let (mut namespace, mut pod) = (Namespace::default(), Pod::default());
            let mut policy = NetworkPolicy::default();
            namespace.metadata.name = Some(name.to_owned());
            pod.metadata = meta(name, "p");
            policy.metadata = meta(name, "q");
            world.hear(Told::Namespace(Box::new(namespace)));
            world.hear(Told::Pod(Box::new(pod)));
            world.hear(Told::Policy(Box::new(policy)));
        }
        let names = |name: &str| BTreeSet::from([Name::new("b", name), Name::new("c", name)]);
        let namespaces = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
        assert_eq!(
            world.missing().as_deref(),
            Some("namespaces, network policies, pods, the node")
        );
        world.hear(Told::All(Listed::Namespaces(namespaces)));
        world.hear(Told::All(Listed::Pods(names("p"))));
        world.hear(Told::All(Listed::Policies(names("q"))));
        assert_eq!(world.missing().as_deref(), Some("the node"));
        world.hear(Told::All(Listed::Nodes(BTreeSet::new())));
        assert_eq!(world.missing(), None);
        let engine = &world.engine;
        let pods: Vec<String> = engine.pods().map(Name::to_string).collect();
        let policies: Vec<String> = engine.policies().map(Name::to_string).collect();
        let namespaces: Vec<&str> = engine.namespaces().collect();
        assert_eq!(
            (pods, policies),
            (vec!["b/p".to_owned()], vec!["b/q".to_owned()])
        );
        assert_eq!(namespaces, ["b"]);
    }

    #[test]
    fn the_addresses_of_a_node_are_held_also_when_it_is_gone() {
        let mut world = world();
        world.hear(Told::NodeGone);
        assert_eq!(world.node, NodeState::Unknown);
        world.hear(node(
            r#"{"metadata": {"uid": "u"}, "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}}"#,
        ));
        assert_eq!(world.node, NodeState::Known("u".to_owned()));
        let held = Held::of(["10.1.0.0/24", "fd00::/64"]);
        assert_eq!(world.held, held);
        world.hear(Told::All(Listed::Nodes(BTreeSet::new())));
        assert_eq!((&world.node, &world.held), (&NodeState::Gone, &held));
        world.hear(node(r#"{"metadata": {"uid": "v"}}"#));
        assert_eq!(world.node, NodeState::Known("v".to_owned()));
        assert!(world.held.is_empty());
    }

    #[test]
    fn addresses_are_not_held_if_nobody_wants_that() {
        let mut world = World::new("n".to_owned(), Knowledge::all(), false);
        world.hear(node(
            r#"{"metadata": {}, "spec": {"podCIDR": "10.1.0.0/24"}}"#,
        ));
        assert!(world.held.is_empty());
    }
}
