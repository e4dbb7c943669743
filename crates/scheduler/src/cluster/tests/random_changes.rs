//! Applies random changes to a [`ClusterState`] and compares it with one that is rebuilt from scratch.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::owned_events::OwnedClusterEvent;
use super::state_dump::ClusterStateDump;
use crate::cluster::{ClusterState, PodId};
use crate::tests::oracle_agreement;
use crate::tests::random::{
    ClusterObjects, JsonChoices, NAMESPACES, PodFeatures, SeededRng, namespace, node, pod,
    read_labels, read_node, read_pod, seeds,
};

const NODES: usize = 6;
const PODS: usize = 20;

/// The objects on the API server, the assumed pods, and the cluster state that is updated incrementally.
pub(super) struct RandomClusterHarness {
    rng: SeededRng,
    extent: PodFeatures,
    objects: ClusterObjects,
    assumed: BTreeMap<String, String>,
    pub(super) cluster: ClusterState,
    /// The events that the last change caused.
    pub(super) last_events: Vec<OwnedClusterEvent>,
}

#[test]
fn incremental_state_equals_a_rebuild_after_random_changes() {
    for seed in seeds(40) {
        let mut run = RandomClusterHarness::new(seed, PodFeatures::All);
        for step in 0..150 {
            run.apply_random_change();
            if step % 10 == 0 {
                let when = format!("seed {seed}, step {step}");
                ClusterStateDump::of(&mut run.cluster).assert_equals(&run.rebuilt_dump(), &when);
            }
        }
    }
}

#[test]
fn incremental_state_agrees_with_the_oracle_after_random_changes() {
    for seed in seeds(20) {
        let profile = oracle_agreement::default_profile();
        let mut run = RandomClusterHarness::new(seed, PodFeatures::All);
        for step in 0..20 {
            for _ in 0..10 {
                run.apply_random_change();
            }
            run.cluster.refresh_node_order();
            let when = format!("seed {seed}, step {step}");
            oracle_agreement::assert_agreement(
                &profile,
                &run.objects_as_assumed(),
                &run.cluster,
                &when,
            );
        }
    }
}

#[test]
fn state_is_empty_after_removing_all_objects() {
    for seed in seeds(40) {
        let mut run = RandomClusterHarness::new(seed, PodFeatures::All);
        for _ in 0..150 {
            run.apply_random_change();
        }
        let mut steps = vec![0, 1, 2];
        while !steps.is_empty() {
            match steps.swap_remove(run.rng.below(steps.len())) {
                0 => run.remove_all_pods(),
                1 => run.remove_all_nodes(),
                _ => run.remove_all_namespaces(),
            }
        }
        let nothing = ClusterStateDump::of(&mut ClusterState::default());
        ClusterStateDump::of(&mut run.cluster).assert_equals(&nothing, &format!("seed {seed}"));
    }
}

#[test]
fn sums_beyond_i64_are_correct_after_a_removal() {
    let immense = |uid: &str| {
        read_pod(&json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "one"},
            "spec": {"nodeName": "node-0", "containers": [
                {"resources": {"requests": {"memory": "9223372036854775807"}}},
            ]},
        }))
    };
    let mut cluster = ClusterState::default();
    for uid in ["p", "q"] {
        cluster.set_pod(immense(uid));
    }
    cluster.remove_pod("p");
    let mut fresh = ClusterState::default();
    fresh.set_pod(immense("q"));
    ClusterStateDump::of(&mut cluster)
        .assert_equals(&ClusterStateDump::of(&mut fresh), "one of two pods removed");
}

impl RandomClusterHarness {
    pub(super) fn new(seed: u64, extent: PodFeatures) -> RandomClusterHarness {
        RandomClusterHarness {
            rng: SeededRng::new(seed),
            extent,
            objects: ClusterObjects::default(),
            assumed: BTreeMap::new(),
            cluster: ClusterState::default(),
            last_events: Vec::new(),
        }
    }

    /// The uids of all pods that are neither bound nor assumed.
    pub(super) fn pending(&self) -> Vec<String> {
        let objects = self.objects_as_assumed();
        objects.pending().map(|(uid, _)| uid.clone()).collect()
    }

    fn rebuilt_dump(&self) -> ClusterStateDump {
        let mut cluster = self.objects.build_cluster();
        for (uid, node) in &self.assumed {
            let pod = cluster.pods().find(uid).expect("assumed pod is known");
            let node = cluster.nodes.get_or_insert(node);
            cluster.assume(pod, node);
        }
        ClusterStateDump::of(&mut cluster)
    }

    /// The objects as if all assumed pods were bound.
    fn objects_as_assumed(&self) -> ClusterObjects {
        let mut objects = self.objects.clone();
        for (uid, node) in &self.assumed {
            let pod = objects.pods.get_mut(uid).expect("assumed pod exists");
            pod["spec"]["nodeName"] = node.as_str().into();
        }
        objects
    }

    pub(super) fn apply_random_change(&mut self) {
        self.last_events.clear();
        match self.rng.below(20) {
            0..=4 => self.add_pod(),
            5..=6 => self.change_pod(),
            7 => self.bind(),
            8..=9 => self.assume(),
            10 => self.forget(),
            11 => self.terminate_pod(),
            12 => self.remove_pod(),
            13..=15 => self.set_node(),
            16 => self.remove_node(),
            17 => self.move_temporarily(),
            18 => self.set_namespace(),
            _ => self.remove_namespace(),
        }
    }

    fn any_node(&mut self) -> String {
        format!("node-{}", self.rng.below(NODES))
    }

    fn any_pod(&mut self) -> Option<(String, PodId)> {
        let known = self.objects.pods.keys();
        let known: Vec<String> = known.cloned().collect();
        if known.is_empty() {
            return None;
        }
        let uid = known[self.rng.below(known.len())].clone();
        let id = self.cluster.pods().find(&uid)?;
        Some((uid, id))
    }

    fn apply_pod(&mut self, pod: Value) {
        let change = self.cluster.set_pod(read_pod(&pod));
        self.last_events = OwnedClusterEvent::from_upsert(change, &self.cluster);
        self.objects.insert_pod(pod);
    }

    /// Adds a pod, or updates one with the same uid to another spec.
    fn add_pod(&mut self) {
        let number = self.rng.below(PODS);
        let mut pod = pod(&mut self.rng, number, NAMESPACES.len(), self.extent);
        let uid = pod["metadata"]["uid"]
            .as_str()
            .expect("pod has a uid")
            .to_owned();
        match self.objects.pods.get(&uid) {
            Some(known) if known["status"]["phase"] != "Pending" => return,
            Some(known) => {
                pod["metadata"]["namespace"] = known["metadata"]["namespace"].clone();
                pod["spec"]["nodeName"] = known["spec"]["nodeName"].clone();
            }
            None if self.rng.percent(50) => pod["spec"]["nodeName"] = self.any_node().into(),
            None => {}
        }
        self.apply_pod(pod);
    }

    /// Changes the labels, the deletion timestamp, or only the resource version.
    fn change_pod(&mut self) {
        let Some((uid, _)) = self.any_pod() else {
            return;
        };
        let mut changed = self.objects.pods[&uid].clone();
        match self.rng.below(3) {
            0 => {
                changed["metadata"]["labels"] =
                    self.rng
                        .random_labels(&["app", "tier"], &["a", "b", "c"], 60);
            }
            1 => changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            _ => changed["metadata"]["resourceVersion"] = "7".into(),
        }
        self.apply_pod(changed);
    }

    /// Binds a pod to the node it is assumed on, or to another one.
    fn bind(&mut self) {
        let Some((uid, _)) = self.any_pod() else {
            return;
        };
        let mut bound = self.objects.pods[&uid].clone();
        if !bound["spec"]["nodeName"].is_null() {
            return;
        }
        let node = match self.assumed.remove(&uid) {
            Some(assumed) if self.rng.percent(80) => assumed,
            _ => self.any_node(),
        };
        bound["spec"]["nodeName"] = node.into();
        self.apply_pod(bound);
    }

    fn assume(&mut self) {
        let (Some((uid, id)), name) = (self.any_pod(), self.any_node()) else {
            return;
        };
        let is_free = self.objects.pods[&uid]["spec"]["nodeName"].is_null();
        if let Some(node) = self.cluster.nodes().find(&name)
            && is_free
        {
            self.cluster.assume(id, node);
            self.last_events = vec![OwnedClusterEvent::AssignedPodAdded(id)];
            self.assumed.insert(uid, name);
        }
    }

    fn forget(&mut self) {
        if let Some((uid, id)) = self.any_pod() {
            self.last_events = OwnedClusterEvent::from_forgotten(id, &self.cluster);
            self.cluster.forget(id);
            self.assumed.remove(&uid);
        }
    }

    fn terminate_pod(&mut self) {
        if let Some((uid, _)) = self.any_pod() {
            let mut ended = self.objects.pods[&uid].clone();
            ended["status"]["phase"] = self.rng.choose(&["Succeeded", "Failed"]).into();
            self.assumed.remove(&uid);
            self.apply_pod(ended);
        }
    }

    fn remove_pod(&mut self) {
        let known: Vec<String> = self.objects.pods.keys().cloned().collect();
        if !known.is_empty() {
            let uid = &known[self.rng.below(known.len())];
            let removed = self.cluster.remove_pod(uid);
            self.last_events = removed
                .map(OwnedClusterEvent::AssignedPodDeleted)
                .into_iter()
                .collect();
            self.objects.pods.remove(uid);
            self.assumed.remove(uid);
        }
    }

    fn set_node(&mut self) {
        let name = self.any_node();
        let node = node(&mut self.rng, &name);
        let (id, old) = self.cluster.set_node(read_node(&node));
        self.last_events = vec![match old {
            Some(old) => OwnedClusterEvent::NodeUpdated(id, old),
            None => OwnedClusterEvent::NodeAdded(id),
        }];
        self.objects.nodes.insert(name, node);
    }

    fn remove_node(&mut self) {
        let name = self.any_node();
        let old = self.cluster.remove_node(&name);
        self.last_events = old
            .map(OwnedClusterEvent::NodeDeleted)
            .into_iter()
            .collect();
        self.objects.nodes.remove(&name);
    }

    /// Moves a pod temporarily, and back.
    fn move_temporarily(&mut self) {
        let (Some((_, id)), name) = (self.any_pod(), self.any_node()) else {
            return;
        };
        let other = self.cluster.nodes().find(&name);
        let other = other.filter(|_| self.rng.percent(50));
        let old = self.cluster.move_temporarily(id, other);
        self.cluster.move_temporarily(id, old);
    }

    fn set_namespace(&mut self) {
        let name = self.rng.choose(&NAMESPACES);
        let namespace = namespace(&mut self.rng, name);
        let matchers = self.cluster.set_namespace(name, read_labels(&namespace));
        self.last_events = vec![OwnedClusterEvent::NamespaceRelabelled(name, matchers)];
        self.objects.namespaces.insert(name.to_owned(), namespace);
    }

    fn remove_namespace(&mut self) {
        let name = self.rng.choose(&NAMESPACES);
        let matchers = self.cluster.remove_namespace(name);
        self.last_events = vec![OwnedClusterEvent::NamespaceRelabelled(name, matchers)];
        self.objects.namespaces.remove(name);
    }

    fn remove_all_pods(&mut self) {
        for uid in std::mem::take(&mut self.objects.pods).keys() {
            self.cluster.remove_pod(uid);
        }
    }

    fn remove_all_nodes(&mut self) {
        for name in std::mem::take(&mut self.objects.nodes).keys() {
            self.cluster.remove_node(name);
        }
    }

    fn remove_all_namespaces(&mut self) {
        for name in std::mem::take(&mut self.objects.namespaces).keys() {
            self.cluster.remove_namespace(name);
        }
    }
}
