//! The state that the watches have delivered so far: the policy engine, and the own node. Pure.

use std::collections::{BTreeSet, HashSet};

use rhumb_client::informer::Event;
use rhumb_netpol::{EngineScope, NamespacedName, PluginCapabilities, Pod, PolicyEngine};

use super::watches::{AgentEvent, Node};
use crate::nft::PodCidrRanges;

const NAMESPACES: &str = "namespaces";
const PODS: &str = "pods";
const POLICIES: &str = "network policies";
const NODE: &str = "the node";

/// The observed state of the cluster.
pub(super) struct ObservedState {
    pub(super) engine: PolicyEngine,
    /// The pod address ranges of this node; addresses in them are blocked until a pod with the address is known.
    pub(super) pod_cidr_ranges: PodCidrRanges,
    pub(super) node: NodeObjectState,
    block_unknown_pods: bool,
    node_name: String,
    /// The resourceVersion up to which all changes of pods have been applied.
    pods_version: u64,
    /// The greatest resourceVersion of a pod in the list in progress; `None` between lists.
    listed_pods_version: Option<u64>,
    /// Pods of this node that were added or changed, so that other policies may select them.
    changed_local_pods: Vec<NamespacedName>,
    /// Resources that have not been listed completely yet.
    unsynced: BTreeSet<&'static str>,
}

/// Whether the own Node object exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeObjectState {
    /// No such object has been seen.
    NeverSeen,
    /// It exists, with this uid.
    Exists(String),
    /// It was deleted.
    Deleted,
}

impl ObservedState {
    pub(super) fn new(
        node: String,
        capabilities: PluginCapabilities,
        block_unknown_pods: bool,
    ) -> ObservedState {
        ObservedState {
            engine: PolicyEngine::new(EngineScope::Node(node.clone()), capabilities),
            node_name: node,
            pods_version: 0,
            listed_pods_version: None,
            changed_local_pods: Vec::new(),
            pod_cidr_ranges: PodCidrRanges::default(),
            node: NodeObjectState::NeverSeen,
            block_unknown_pods,
            unsynced: BTreeSet::from([NAMESPACES, PODS, POLICIES, NODE]),
        }
    }

    /// The resources that have not been listed yet; `None` once all have (client-go: HasSynced).
    pub(super) fn unsynced_resources(&self) -> Option<String> {
        let missing: Vec<&str> = self.unsynced.iter().copied().collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }

    pub(super) fn apply_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Namespace(Event::Applied(namespace)) => {
                self.engine.set_namespace(&namespace);
            }
            AgentEvent::Namespace(Event::Deleted(name)) => self.engine.remove_namespace(&name),
            AgentEvent::Namespace(Event::Replaced(names)) => {
                let engine = &mut self.engine;
                let known = engine.namespaces().map(str::to_owned);
                let gone: Vec<String> = known.filter(|name| !names.contains(name)).collect();
                gone.iter().for_each(|name| engine.remove_namespace(name));
                self.unsynced.remove(NAMESPACES);
            }
            AgentEvent::PodListStart => self.listed_pods_version = Some(0),
            AgentEvent::Pod(Event::Applied(pod)) => self.on_pod_applied(&pod),
            AgentEvent::Pod(Event::Deleted(name)) => self.engine.remove_pod(&name),
            AgentEvent::Pod(Event::Replaced(names)) => self.on_pods_listed(&names),
            AgentEvent::Policy(Event::Applied(policy)) => self.engine.set_policy(&policy),
            AgentEvent::Policy(Event::Deleted(name)) => self.engine.remove_policy(&name),
            AgentEvent::Policy(Event::Replaced(names)) => {
                let gone = names_not_listed(self.engine.policies(), &names);
                gone.iter().for_each(|name| self.engine.remove_policy(name));
                self.unsynced.remove(POLICIES);
            }
            AgentEvent::Node(Event::Applied(node)) => self.on_node_applied(&node),
            AgentEvent::Node(Event::Deleted(_)) => self.on_node_deleted(),
            AgentEvent::Node(Event::Replaced(names)) => {
                if names.is_empty() {
                    self.on_node_deleted();
                }
                self.unsynced.remove(NODE);
            }
        }
    }

    /// A list is not in the order of changes: before its end, pods with lower versions than those so far may be missing.
    fn on_pod_applied(&mut self, pod: &Pod) {
        let listed = self.listed_pods_version.as_mut();
        let observed = listed.unwrap_or(&mut self.pods_version);
        *observed = pod.version_number().max(*observed);
        let is_local = pod.node_name() == Some(&self.node_name);
        if self.engine.set_pod(pod) && is_local && pod.has_address() {
            let metadata = &pod.metadata;
            self.changed_local_pods.push(NamespacedName::new(
                metadata.namespace.clone().unwrap_or_default(),
                metadata.name.clone().unwrap_or_default(),
            ));
        }
    }

    /// The versions of the list replace earlier ones: those of a server that was restored from a backup are lower.
    fn on_pods_listed(&mut self, names: &HashSet<NamespacedName>) {
        let gone = names_not_listed(self.engine.pods(), names);
        gone.iter().for_each(|name| self.engine.remove_pod(name));
        if let Some(version) = self.listed_pods_version.take() {
            self.pods_version = version;
        }
        self.unsynced.remove(PODS);
    }

    /// The resourceVersion up to which the rules cover all pods. It does not advance while pods are being listed.
    pub(super) fn pods_version(&self) -> u64 {
        self.pods_version
    }

    /// Whether policies select a pod of this node that was added or changed since the last call: the report must say that
    /// the agent has observed it. It can only do so after the list in progress, if there is one.
    pub(super) fn take_changed_targets(&mut self) -> bool {
        if self.listed_pods_version.is_some() {
            return false;
        }
        let changed = std::mem::take(&mut self.changed_local_pods);
        let is_selected =
            |pod: &NamespacedName| self.engine.policies_selecting(pod).next().is_some();
        changed.iter().any(is_selected)
    }

    fn on_node_applied(&mut self, node: &Node) {
        self.node = NodeObjectState::Exists(node.metadata.uid.clone().unwrap_or_default());
        if self.block_unknown_pods {
            self.pod_cidr_ranges = PodCidrRanges::from_cidrs(node.pod_cidrs());
            self.engine
                .set_node_pod_ranges(self.pod_cidr_ranges.ranges());
        }
    }

    /// Its pods keep their addresses, so the pod address ranges stay.
    fn on_node_deleted(&mut self) {
        if self.node != NodeObjectState::NeverSeen {
            self.node = NodeObjectState::Deleted;
        }
    }
}

fn names_not_listed<'a>(
    known: impl Iterator<Item = &'a NamespacedName>,
    names: &HashSet<NamespacedName>,
) -> Vec<NamespacedName> {
    known
        .filter(|name| !names.contains(name))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;
    use rhumb_netpol::{Namespace, NetworkPolicy};

    use super::*;

    fn meta(namespace: &str, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(name.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn state() -> ObservedState {
        ObservedState::new("n".to_owned(), PluginCapabilities::all(), true)
    }

    fn node(text: &str) -> AgentEvent {
        AgentEvent::Node(Event::Applied(serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn objects_missing_from_a_relist_are_removed() {
        let mut state = state();
        for name in ["a", "b"] {
            let (mut namespace, mut pod) = (Namespace::default(), Pod::default());
            let mut policy = NetworkPolicy::default();
            namespace.metadata.name = Some(name.to_owned());
            pod.metadata = meta(name, "p");
            policy.metadata = meta(name, "q");
            state.apply_event(AgentEvent::Namespace(Event::Applied(Box::new(namespace))));
            state.apply_event(AgentEvent::Pod(Event::Applied(Box::new(pod))));
            state.apply_event(AgentEvent::Policy(Event::Applied(Box::new(policy))));
        }
        let names = |name: &str| {
            HashSet::from([
                NamespacedName::new("b", name),
                NamespacedName::new("c", name),
            ])
        };
        let namespaces = HashSet::from(["b".to_owned(), "c".to_owned()]);
        assert_eq!(
            state.unsynced_resources().as_deref(),
            Some("namespaces, network policies, pods, the node")
        );
        state.apply_event(AgentEvent::Namespace(Event::Replaced(namespaces)));
        state.apply_event(AgentEvent::Pod(Event::Replaced(names("p"))));
        state.apply_event(AgentEvent::Policy(Event::Replaced(names("q"))));
        assert_eq!(state.unsynced_resources().as_deref(), Some("the node"));
        state.apply_event(AgentEvent::Node(Event::Replaced(HashSet::new())));
        assert_eq!(state.unsynced_resources(), None);
        let engine = &state.engine;
        let pods: Vec<String> = engine.pods().map(NamespacedName::to_string).collect();
        let policies: Vec<String> = engine.policies().map(NamespacedName::to_string).collect();
        let namespaces: Vec<&str> = engine.namespaces().collect();
        assert_eq!(
            (pods, policies),
            (vec!["b/p".to_owned()], vec!["b/q".to_owned()])
        );
        assert_eq!(namespaces, ["b"]);
    }

    #[test]
    fn changed_pods_of_this_node_that_policies_select_are_reported() {
        let mut state = state();
        let policy = r#"{"metadata": {"namespace": "a", "name": "q", "uid": "q"},
            "spec": {"minVersion": "1.3", "podSelector": {"matchLabels": {"app": "x"}}, "policyTypes": ["Ingress"]}}"#;
        let policy = serde_json::from_str(policy).unwrap();
        state.apply_event(AgentEvent::Policy(Event::Applied(policy)));
        let mut check = |version: u64, node: &str, app: &str, address: &str, is_reported: bool| {
            let pod = serde_json::json!({
                "metadata": {
                    "namespace": "a", "name": "p", "labels": {"app": app}, "resourceVersion": version.to_string(),
                },
                "spec": {"nodeName": node},
                "status": {"phase": "Running", "podIP": address},
            });
            let pod = serde_json::from_value(pod).unwrap();
            state.apply_event(AgentEvent::Pod(Event::Applied(pod)));
            assert_eq!(state.pods_version(), version);
            assert_eq!(state.take_changed_targets(), is_reported, "{version}");
            assert!(!state.take_changed_targets());
        };
        check(1, "n", "y", "10.0.0.1", false);
        check(2, "n", "x", "10.0.0.1", true);
        check(3, "n", "x", "10.0.0.1", false);
        check(4, "n", "x", "10.0.0.2", true);
        check(5, "other", "x", "10.0.0.2", false);
        check(6, "n", "x", "", false);
    }

    #[test]
    fn the_reported_version_of_pods_advances_at_the_end_of_a_list() {
        let mut state = state();
        let policy = serde_json::json!({
            "metadata": {"namespace": "a", "name": "q", "uid": "q"},
            "spec": {"minVersion": "1.3", "podSelector": {}, "policyTypes": ["Ingress"]},
        });
        let policy = serde_json::from_value(policy).unwrap();
        state.apply_event(AgentEvent::Policy(Event::Applied(policy)));
        let apply = |state: &mut ObservedState, name: &str, version: u64| {
            let pod = serde_json::json!({
                "metadata": {"namespace": "a", "name": name, "resourceVersion": version.to_string()},
                "spec": {"nodeName": "n"},
                "status": {"phase": "Running", "podIP": format!("10.0.0.{version}")},
            });
            let pod = serde_json::from_value(pod).unwrap();
            state.apply_event(AgentEvent::Pod(Event::Applied(pod)));
        };
        let listed = |names: &[&str]| {
            let names = names.iter().map(|name| NamespacedName::new("a", *name));
            AgentEvent::Pod(Event::Replaced(names.collect()))
        };
        state.apply_event(AgentEvent::PodListStart);
        apply(&mut state, "x", 5);
        assert_eq!(
            (state.pods_version(), state.take_changed_targets()),
            (0, false)
        );
        state.apply_event(listed(&["x"]));
        assert_eq!(
            (state.pods_version(), state.take_changed_targets()),
            (5, true)
        );
        apply(&mut state, "x", 6);
        assert_eq!(
            (state.pods_version(), state.take_changed_targets()),
            (6, true)
        );
        // After a gap, 9 is listed before the change with the version 8, and the list fails once.
        for _ in 0..2 {
            state.apply_event(AgentEvent::PodListStart);
            apply(&mut state, "w", 9);
            assert_eq!(
                (state.pods_version(), state.take_changed_targets()),
                (6, false)
            );
        }
        apply(&mut state, "y", 8);
        state.apply_event(listed(&["w", "y"]));
        assert_eq!(
            (state.pods_version(), state.take_changed_targets()),
            (9, true)
        );
        // A server that was restored from a backup.
        state.apply_event(AgentEvent::PodListStart);
        apply(&mut state, "w", 3);
        state.apply_event(listed(&["w"]));
        assert_eq!(state.pods_version(), 3);
    }

    #[test]
    fn pod_cidrs_are_kept_after_the_node_is_deleted() {
        let mut state = state();
        state.apply_event(AgentEvent::Node(Event::Deleted("n".to_owned())));
        assert_eq!(state.node, NodeObjectState::NeverSeen);
        state.apply_event(node(
            r#"{"metadata": {"uid": "u"}, "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}}"#,
        ));
        assert_eq!(state.node, NodeObjectState::Exists("u".to_owned()));
        let held = PodCidrRanges::from_cidrs(["10.1.0.0/24", "fd00::/64"]);
        assert_eq!(state.pod_cidr_ranges, held);
        state.apply_event(AgentEvent::Node(Event::Replaced(HashSet::new())));
        assert_eq!(
            (&state.node, &state.pod_cidr_ranges),
            (&NodeObjectState::Deleted, &held)
        );
        state.apply_event(node(r#"{"metadata": {"uid": "v"}}"#));
        assert_eq!(state.node, NodeObjectState::Exists("v".to_owned()));
        assert!(state.pod_cidr_ranges.is_empty());
    }

    #[test]
    fn pod_cidrs_are_ignored_if_disabled() {
        let mut state = ObservedState::new("n".to_owned(), PluginCapabilities::all(), false);
        state.apply_event(node(
            r#"{"metadata": {}, "spec": {"podCIDR": "10.1.0.0/24"}}"#,
        ));
        assert!(state.pod_cidr_ranges.is_empty());
    }
}
