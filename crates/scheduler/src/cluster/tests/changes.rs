//! Random changes, one after the other.

use std::collections::BTreeMap;

use serde_json::Value;

use super::happened::Happened;
use super::state::State;
use crate::cluster::{Cluster, PodId};
use crate::tests::agreement;
use crate::tests::random::{
    Dice, Extent, NAMESPACES, World, namespace, node, pod, read_labels, read_node, read_pod, seeds,
};

const NODES: usize = 6;
const PODS: usize = 20;

/// What the server has, what the scheduler assumes, and what was kept of it from change to change.
pub(super) struct Run {
    dice: Dice,
    extent: Extent,
    world: World,
    assumed: BTreeMap<String, String>,
    pub(super) cluster: Cluster,
    /// What happened by the last change.
    pub(super) happened: Vec<Happened>,
}

#[test]
fn after_any_changes_all_counts_are_those_of_a_fresh_build() {
    for seed in seeds(40) {
        let mut run = Run::new(seed, Extent::Everything);
        for step in 0..150 {
            run.change();
            if step % 10 == 0 {
                let when = format!("seed {seed}, step {step}");
                State::of(&mut run.cluster).assert_is(&run.fresh(), &when);
            }
        }
    }
}

#[test]
fn after_any_changes_the_oracle_agrees() {
    for seed in seeds(20) {
        let profile = agreement::usual();
        let mut run = Run::new(seed, Extent::Everything);
        for step in 0..20 {
            for _ in 0..10 {
                run.change();
            }
            run.cluster.prepare();
            let when = format!("seed {seed}, step {step}");
            agreement::agree(&profile, &run.world_as_assumed(), &run.cluster, &when);
        }
    }
}

#[test]
fn nothing_is_left_when_everything_is_gone() {
    for seed in seeds(40) {
        let mut run = Run::new(seed, Extent::Everything);
        for _ in 0..150 {
            run.change();
        }
        let mut steps = vec![0, 1, 2];
        while !steps.is_empty() {
            match steps.swap_remove(run.dice.below(steps.len())) {
                0 => run.remove_all_pods(),
                1 => run.remove_all_nodes(),
                _ => run.remove_all_namespaces(),
            }
        }
        let nothing = State::of(&mut Cluster::default());
        State::of(&mut run.cluster).assert_is(&nothing, &format!("seed {seed}"));
    }
}

impl Run {
    pub(super) fn new(seed: u64, extent: Extent) -> Run {
        Run {
            dice: Dice::new(seed),
            extent,
            world: World::default(),
            assumed: BTreeMap::new(),
            cluster: Cluster::default(),
            happened: Vec::new(),
        }
    }

    /// What the server has, and what the scheduler assumes that it will have.
    pub(super) fn pending(&self) -> Vec<String> {
        let world = self.world_as_assumed();
        world.pending().map(|(uid, _)| uid.clone()).collect()
    }

    fn fresh(&self) -> State {
        let mut cluster = self.world.build();
        for (uid, node) in &self.assumed {
            let pod = cluster.pods().find(uid).expect("a pod");
            let node = cluster.nodes.ensure(node);
            cluster.assume(pod, node);
        }
        State::of(&mut cluster)
    }

    /// As if the server knew already.
    fn world_as_assumed(&self) -> World {
        let mut world = self.world.clone();
        for (uid, node) in &self.assumed {
            let pod = world.pods.get_mut(uid).expect("a pod");
            pod["spec"]["nodeName"] = node.as_str().into();
        }
        world
    }

    pub(super) fn change(&mut self) {
        self.happened.clear();
        match self.dice.below(20) {
            0..=4 => self.add_pod(),
            5..=6 => self.change_pod(),
            7 => self.bind(),
            8..=9 => self.assume(),
            10 => self.forget(),
            11 => self.finish(),
            12 => self.remove_pod(),
            13..=15 => self.set_node(),
            16 => self.remove_node(),
            17 => self.suppose(),
            18 => self.set_namespace(),
            _ => self.remove_namespace(),
        }
    }

    fn any_node(&mut self) -> String {
        format!("node-{}", self.dice.below(NODES))
    }

    fn any_pod(&mut self) -> Option<(String, PodId)> {
        let known = self.world.pods.keys();
        let known: Vec<String> = known.cloned().collect();
        if known.is_empty() {
            return None;
        }
        let uid = known[self.dice.below(known.len())].clone();
        let id = self.cluster.pods().find(&uid)?;
        Some((uid, id))
    }

    fn tell(&mut self, pod: Value) {
        let change = self.cluster.set_pod(read_pod(&pod));
        self.happened = Happened::to_pod(change, &self.cluster);
        self.world.insert_pod(pod);
    }

    /// A new pod, or one that says something else than before under the same uid.
    fn add_pod(&mut self) {
        let number = self.dice.below(PODS);
        let mut pod = pod(&mut self.dice, number, NAMESPACES.len(), self.extent);
        let uid = pod["metadata"]["uid"].as_str().expect("a uid").to_owned();
        match self.world.pods.get(&uid) {
            Some(known) if known["status"]["phase"] != "Pending" => return,
            Some(known) => {
                pod["metadata"]["namespace"] = known["metadata"]["namespace"].clone();
                pod["spec"]["nodeName"] = known["spec"]["nodeName"].clone();
            }
            None if self.dice.chance(50) => pod["spec"]["nodeName"] = self.any_node().into(),
            None => {}
        }
        self.tell(pod);
    }

    /// Other labels; or nothing new at all.
    fn change_pod(&mut self) {
        let Some((uid, _)) = self.any_pod() else {
            return;
        };
        let mut changed = self.world.pods[&uid].clone();
        match self.dice.below(3) {
            0 => {
                changed["metadata"]["labels"] =
                    self.dice.labels(&["app", "tier"], &["a", "b", "c"], 60);
            }
            1 => changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            _ => changed["metadata"]["resourceVersion"] = "7".into(),
        }
        self.tell(changed);
    }

    /// The server says where a pod is: where it was assumed to be, or elsewhere.
    fn bind(&mut self) {
        let Some((uid, _)) = self.any_pod() else {
            return;
        };
        let mut bound = self.world.pods[&uid].clone();
        if !bound["spec"]["nodeName"].is_null() {
            return;
        }
        let node = match self.assumed.remove(&uid) {
            Some(assumed) if self.dice.chance(80) => assumed,
            _ => self.any_node(),
        };
        bound["spec"]["nodeName"] = node.into();
        self.tell(bound);
    }

    fn assume(&mut self) {
        let (Some((uid, id)), name) = (self.any_pod(), self.any_node()) else {
            return;
        };
        let is_free = self.world.pods[&uid]["spec"]["nodeName"].is_null();
        if let Some(node) = self.cluster.nodes().find(&name)
            && is_free
        {
            self.cluster.assume(id, node);
            self.happened = vec![Happened::PodPlaced(id)];
            self.assumed.insert(uid, name);
        }
    }

    fn forget(&mut self) {
        if let Some((uid, id)) = self.any_pod() {
            self.happened = Happened::to_forgotten(id, &self.cluster);
            self.cluster.forget(id);
            self.assumed.remove(&uid);
        }
    }

    fn finish(&mut self) {
        if let Some((uid, _)) = self.any_pod() {
            let mut ended = self.world.pods[&uid].clone();
            ended["status"]["phase"] = self.dice.one_of(&["Succeeded", "Failed"]).into();
            self.assumed.remove(&uid);
            self.tell(ended);
        }
    }

    fn remove_pod(&mut self) {
        let known: Vec<String> = self.world.pods.keys().cloned().collect();
        if !known.is_empty() {
            let uid = &known[self.dice.below(known.len())];
            let departed = self.cluster.remove_pod(uid);
            self.happened = departed.map(Happened::PodLeft).into_iter().collect();
            self.world.pods.remove(uid);
            self.assumed.remove(uid);
        }
    }

    fn set_node(&mut self) {
        let name = self.any_node();
        let node = node(&mut self.dice, &name);
        let (id, before) = self.cluster.set_node(read_node(&node));
        self.happened = vec![match before {
            Some(before) => Happened::NodeChanged(id, before),
            None => Happened::NodeAdded(id),
        }];
        self.world.nodes.insert(name, node);
    }

    fn remove_node(&mut self) {
        let name = self.any_node();
        let before = self.cluster.remove_node(&name);
        self.happened = before.map(Happened::NodeLeft).into_iter().collect();
        self.world.nodes.remove(&name);
    }

    /// What is supposed is put back.
    fn suppose(&mut self) {
        let (Some((_, id)), name) = (self.any_pod(), self.any_node()) else {
            return;
        };
        let other = self.cluster.nodes().find(&name);
        let other = other.filter(|_| self.dice.chance(50));
        let before = self.cluster.suppose(id, other);
        self.cluster.suppose(id, before);
    }

    fn set_namespace(&mut self) {
        let name = self.dice.one_of(&NAMESPACES);
        let namespace = namespace(&mut self.dice, name);
        let pickers = self.cluster.set_namespace(name, read_labels(&namespace));
        self.happened = vec![Happened::Relabelled(name, pickers)];
        self.world.namespaces.insert(name.to_owned(), namespace);
    }

    fn remove_namespace(&mut self) {
        let name = self.dice.one_of(&NAMESPACES);
        let pickers = self.cluster.remove_namespace(name);
        self.happened = vec![Happened::Relabelled(name, pickers)];
        self.world.namespaces.remove(name);
    }

    fn remove_all_pods(&mut self) {
        for uid in std::mem::take(&mut self.world.pods).keys() {
            self.cluster.remove_pod(uid);
        }
    }

    fn remove_all_nodes(&mut self) {
        for name in std::mem::take(&mut self.world.nodes).keys() {
            self.cluster.remove_node(name);
        }
    }

    fn remove_all_namespaces(&mut self) {
        for name in std::mem::take(&mut self.world.namespaces).keys() {
            self.cluster.remove_namespace(name);
        }
    }
}
