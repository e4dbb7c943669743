//! Whatever happens, nobody waits who could have a place, and nothing is left of questions that were asked.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::{Value, json};

use super::run::{Run, pod_in};
use crate::cluster::{Cluster, Domain, PodId, Tally};
use crate::cycle::{Decision, Search, Shuffle};
use crate::engine::{Change, Outcome, Preemption};
use crate::model::Pod;
use crate::preemption::{Finding, Preemptor, Ranks};

/// Everything that is counted, in an order of its own.
#[derive(Debug, PartialEq, Default)]
struct Digest {
    pods: BTreeMap<PodId, String>,
    nodes: BTreeMap<String, String>,
}

fn sorted(tally: &Tally) -> Vec<(Domain, i64)> {
    let mut all: Vec<_> = tally.iter().collect();
    all.sort();
    all
}

fn digest(cluster: &Cluster) -> Digest {
    let mut digest = Digest::default();
    for (id, slot) in cluster.pods().iter() {
        let terms = slot.terms();
        let preferred = terms.preferred.iter().map(|(term, _)| term);
        let all = terms.affinity.iter().chain(&terms.affinity_each);
        let all = all.chain(&terms.anti_affinity).chain(&terms.spread);
        let counts: Vec<_> = all
            .chain(preferred)
            .map(|term| {
                let slot = cluster.term(*term);
                let tallies = [
                    &slot.picked,
                    &slot.repelling,
                    &slot.attached,
                    &slot.preferring,
                ];
                tallies.map(sorted)
            })
            .collect();
        let text = format!("{:?} {:?} {counts:?}", slot.place(), slot.picked_by());
        digest.pods.insert(id, text);
    }
    for (_, slot) in cluster.nodes().iter() {
        let mut pods = slot.pods().to_vec();
        pods.sort();
        let text = format!(
            "{:?} {} {} {pods:?}",
            slot.requested, slot.assumed_milli_cpu, slot.assumed_memory
        );
        digest.nodes.insert(slot.name.to_string(), text);
    }
    digest
}

/// What the server has of a pod.
#[derive(Clone)]
struct Known {
    namespace: &'static str,
    labels: Value,
    cpu: u32,
    spec: Value,
    is_leaving: bool,
}

impl Known {
    fn pod(&self, name: &str) -> Pod {
        let mut pod = pod_in(
            self.namespace,
            name,
            self.labels.clone(),
            self.cpu,
            self.spec.clone(),
        );
        pod.is_terminating = self.is_leaving;
        pod.is_preempted = self.is_leaving;
        pod
    }
}

struct World {
    run: Run,
    chance: Shuffle,
    pods: HashMap<String, Known>,
    names: u32,
    /// Pods that have a node, with the server still to say so.
    binding: Vec<(String, String)>,
}

const NAMESPACES: [&str; 3] = ["default", "one", "two"];
const APPS: [&str; 3] = ["a", "b", "c"];

impl World {
    fn new(seed: u64) -> World {
        World {
            run: Run::new(),
            chance: Shuffle::new(seed),
            pods: HashMap::new(),
            names: 0,
            binding: Vec::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.chance.below(bound as u64)).unwrap()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn sometimes(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn some_pod(&mut self) -> Option<String> {
        let mut names: Vec<String> = self.pods.keys().cloned().collect();
        names.sort();
        let index = self.below(names.len().max(1));
        names.get(index).cloned()
    }

    fn term(&mut self) -> Value {
        let mut term = json!({
            "labelSelector": {"matchLabels": {"app": self.one_of(&APPS)}},
            "topologyKey": self.one_of(&["zone", "host"]),
        });
        if self.sometimes(2) {
            let selector = match self.below(3) {
                0 => json!({}),
                1 => json!({"matchLabels": {"team": "x"}}),
                _ => {
                    json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]})
                }
            };
            term["namespaceSelector"] = selector;
        }
        term
    }

    fn spec(&mut self) -> Value {
        let mut spec = json!({"priority": self.one_of(&[-1, 0, 10])});
        for kind in ["podAffinity", "podAntiAffinity"] {
            if self.sometimes(3) {
                let term = self.term();
                spec["affinity"][kind] =
                    json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
            }
        }
        if self.sometimes(5) {
            spec["nodeSelector"] = json!({"zone": self.one_of(&["0", "1"])});
        }
        if self.sometimes(4) {
            spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        }
        if self.sometimes(4) {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": self.one_of(&["zone", "host"]), "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": self.one_of(&APPS)}},
            }]);
        }
        if self.sometimes(10) {
            spec["preemptionPolicy"] = json!("Never");
        }
        spec
    }

    fn step(&mut self) {
        match self.below(20) {
            0..=6 => self.add_pod(),
            7..=9 => self.remove_pod(),
            10 | 11 => self.relabel_pod(),
            12..=14 => self.set_node(),
            15 => self.remove_node(),
            16 | 17 => self.set_namespace(),
            18 => self.say_bound(),
            _ => {
                let app = self.one_of(&APPS);
                let allowed = self.one_of(&[0, 1, 2]);
                self.run.budget(app, app, allowed);
            }
        }
        self.run.after(Duration::from_millis(100));
    }

    fn add_pod(&mut self) {
        self.names += 1;
        let name = format!("p{}", self.names);
        // Some are like others.
        let like = self.some_pod().filter(|_| self.chance.below(3) == 0);
        if let Some(mut known) = like.map(|like| self.pods[&like].clone()) {
            known.is_leaving = false;
            if let Some(spec) = known.spec.as_object_mut() {
                spec.remove("nodeName");
            }
            return self.tell(&name, known);
        }
        let known = Known {
            namespace: self.one_of(&NAMESPACES),
            labels: json!({"app": self.one_of(&APPS)}),
            cpu: self.one_of(&[0, 1, 2, 3, 4]),
            spec: self.spec(),
            is_leaving: false,
        };
        self.tell(&name, known);
    }

    fn tell(&mut self, name: &str, known: Known) {
        self.run.pod(known.pod(name));
        self.pods.insert(name.to_owned(), known);
    }

    fn remove_pod(&mut self) {
        if let Some(name) = self.some_pod() {
            let known = self.pods.remove(&name).unwrap();
            self.binding.retain(|(pod, _)| *pod != name);
            let uid = format!("{}/{name}", known.namespace).into();
            self.run.apply(Change::PodGone { uid });
        }
    }

    fn relabel_pod(&mut self) {
        if let Some(name) = self.some_pod() {
            let mut known = self.pods[&name].clone();
            known.labels = json!({"app": self.one_of(&APPS)});
            self.tell(&name, known);
        }
    }

    fn set_node(&mut self) {
        let name = format!("n{}", self.below(5));
        let mut parts = json!({"labels": {"host": name}, "spec": {}});
        if !self.sometimes(5) {
            parts["labels"]["zone"] = json!(self.one_of(&["0", "1"]));
        }
        if self.sometimes(5) {
            parts["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        }
        if self.sometimes(8) {
            parts["spec"]["unschedulable"] = json!(true);
        }
        let cpu = self.one_of(&[1, 4, 8]);
        self.run.node_with(&name, cpu, parts);
    }

    fn remove_node(&mut self) {
        let name = format!("n{}", self.below(5)).into();
        self.run.apply(Change::NodeGone { name });
    }

    fn set_namespace(&mut self) {
        let name = self.one_of(&NAMESPACES);
        let labels = self.one_of(&[&[][..], &[("team", "x")], &[("team", "y")]]);
        self.run.namespace(name, labels);
    }

    /// The server answers about one that is on its way.
    fn say_bound(&mut self) {
        if self.binding.is_empty() {
            return;
        }
        let index = self.below(self.binding.len());
        let (name, node) = self.binding.swap_remove(index);
        let mut known = self.pods[&name].clone();
        let uid = format!("{}/{name}", known.namespace).into();
        if self.sometimes(3) {
            if self.sometimes(2) {
                known.labels = json!({"app": self.one_of(&APPS)});
                self.tell(&name, known);
            }
            self.run.apply(Change::NotBound { uid });
        } else {
            self.run.apply(Change::Bound { uid });
            known.spec["nodeName"] = json!(node);
            self.tell(&name, known);
        }
    }

    fn decide(&mut self) {
        let mut decided = 0;
        while let Some(outcome) = self.run.engine.next(self.run.now) {
            decided += 1;
            assert!(decided < 10_000, "it does not end");
            match outcome {
                Outcome::Bind { pod, node, .. } => {
                    self.binding
                        .push((pod.key.name.to_string(), node.to_string()));
                }
                Outcome::Pending { victims, .. } => {
                    for victim in victims {
                        let mut known = self.pods[&*victim.key.name].clone();
                        known.is_leaving = true;
                        self.tell(&victim.key.name.clone(), known);
                    }
                }
                Outcome::Displaced { .. } => {}
            }
        }
    }

    /// All who wait for something to happen, and have no place that is kept for them.
    fn asleep(&self) -> Vec<PodId> {
        let engine = &self.run.engine;
        let pods = engine.cluster.pods().iter().map(|(id, _)| id);
        pods.filter(|id| engine.queue.is_asleep(*id) && engine.nominations.get(*id).is_none())
            .collect()
    }

    /// Counted anew.
    fn ranks(&self) -> Ranks {
        let mut ranks = Ranks::default();
        for (_, slot) in self.run.engine.cluster.pods().iter() {
            if let Some(place) = slot.place() {
                ranks.put(place, slot.facts.priority);
            }
        }
        ranks
    }

    fn check(&mut self, what: &str) {
        let before = digest(self.run.engine.cluster());
        let ranks = self.ranks();
        assert_eq!(self.run.engine.ranks, ranks, "{what}");
        for id in self.asleep() {
            let engine = &mut self.run.engine;
            engine.cluster.prepare();
            let profile = &engine.profiles[0].profile;
            let nominations = &engine.nominations;
            let mut search = Search::default();
            let decision = profile.decide_beside(nominations, &mut engine.cluster, id, &mut search);
            let Decision::Nowhere(diagnosis) = decision else {
                panic!("{what}: {:?} could have a place", engine.facts(id));
            };
            let preemptor = Preemptor {
                profile,
                settings: Preemption::default(),
                nominations,
                budgets: &engine.budgets,
                ranks: &ranks,
            };
            let shuffle = &mut search.shuffle;
            let found =
                preemptor.preempt(&mut engine.cluster, id, &diagnosis, shuffle, self.run.now);
            assert!(
                !matches!(found, Finding::Victims(_)),
                "{what}: {:?} could have others leave: {found:?}",
                engine.facts(id)
            );
        }
        assert_eq!(digest(self.run.engine.cluster()), before, "{what}");
    }
}

#[test]
fn nobody_waits_in_vain_and_questions_leave_no_trace() {
    let mut waited = 0;
    for seed in 0..20 {
        let mut world = World::new(seed);
        for step in 0..120 {
            world.step();
            world.decide();
            world.check(&format!("seed {seed}, step {step}"));
            waited += world.asleep().len();
        }
    }
    assert!(waited > 3_000, "only {waited} waited");
}
