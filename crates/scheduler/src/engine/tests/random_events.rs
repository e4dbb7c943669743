//! Applies random events and checks after each that no unschedulable pod could be scheduled or could preempt, and that
//! what-if evaluations leave the cluster state unchanged.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{SchedulerHarness, pod_in};
use crate::cluster::{ClusterState, DomainCounts, PodId, TopologyDomainId};
use crate::cycle::{NodeSearch, ScheduleResult, SplitMix64Rng};
use crate::engine::{DefaultPreemptionArgs, Event, SchedulerEvent, SchedulingOutcome};
use crate::model::Pod;
use crate::preemption::{PodPriorityCounts, PreemptionEvaluator, PreemptionResult};

/// All counts of a cluster state in a comparable form.
#[derive(Debug, PartialEq, Default)]
struct ClusterStateDigest {
    pods: BTreeMap<PodId, String>,
    nodes: BTreeMap<String, String>,
}

fn sorted(counts: &DomainCounts) -> Vec<(TopologyDomainId, i64)> {
    let mut all: Vec<_> = counts.iter().collect();
    all.sort();
    all
}

fn digest(cluster: &ClusterState) -> ClusterStateDigest {
    let mut digest = ClusterStateDigest::default();
    for (id, slot) in cluster.pods().iter() {
        let terms = slot.terms();
        let preferred = terms.preferred.iter().map(|(term, _)| term);
        let all = terms.affinity.iter().chain(&terms.affinity_single);
        let all = all.chain(&terms.anti_affinity).chain(&terms.spread);
        let counts: Vec<_> = all
            .chain(preferred)
            .map(|term| {
                let slot = cluster.term_counts(*term);
                let all_counts = [
                    &slot.matching_pods,
                    &slot.anti_affinity_owners,
                    &slot.affinity_owners,
                    &slot.preference_weights,
                ];
                all_counts.map(sorted)
            })
            .collect();
        let text = format!("{:?} {:?} {counts:?}", slot.node_id(), slot.matched_by());
        digest.pods.insert(id, text);
    }
    for (_, slot) in cluster.nodes().iter() {
        let mut pods = slot.pods().to_vec();
        pods.sort();
        let text = format!(
            "{:?} {} {} {pods:?}",
            slot.requested, slot.non_zero_milli_cpu, slot.non_zero_memory
        );
        digest.nodes.insert(slot.name.to_string(), text);
    }
    digest
}

/// A pod on the simulated API server.
#[derive(Clone)]
struct SimulatedPod {
    namespace: &'static str,
    labels: Value,
    cpu: u32,
    spec: Value,
    is_preempted: bool,
}

impl SimulatedPod {
    fn pod(&self, name: &str) -> Pod {
        let mut pod = pod_in(
            self.namespace,
            name,
            self.labels.clone(),
            self.cpu,
            self.spec.clone(),
        );
        pod.is_terminating = self.is_preempted;
        pod.is_preempted = self.is_preempted;
        pod
    }
}

/// A simulated API server with a scheduler core.
struct RandomSchedulingSimulation {
    harness: SchedulerHarness,
    rng: SplitMix64Rng,
    pods: HashMap<String, SimulatedPod>,
    next_name: u32,
    /// Names of assumed pods with their nodes, whose binding is not confirmed yet.
    binding: Vec<(String, String)>,
}

const NAMESPACES: [&str; 3] = ["default", "one", "two"];
const APPS: [&str; 3] = ["a", "b", "c"];

impl RandomSchedulingSimulation {
    fn new(seed: u64) -> RandomSchedulingSimulation {
        RandomSchedulingSimulation {
            harness: SchedulerHarness::new(),
            rng: SplitMix64Rng::new(seed),
            pods: HashMap::new(),
            next_name: 0,
            binding: Vec::new(),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn one_in(&mut self, one_in: usize) -> bool {
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
        if self.one_in(2) {
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
            if self.one_in(3) {
                let term = self.term();
                spec["affinity"][kind] =
                    json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
            }
        }
        if self.one_in(5) {
            spec["nodeSelector"] = json!({"zone": self.one_of(&["0", "1"])});
        }
        if self.one_in(4) {
            spec["tolerations"] = json!([{"key": "k", "operator": "Exists"}]);
        }
        if self.one_in(4) {
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": self.one_of(&["zone", "host"]), "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": self.one_of(&APPS)}},
            }]);
        }
        if self.one_in(10) {
            spec["preemptionPolicy"] = json!("Never");
        }
        spec
    }

    fn apply_random_event(&mut self) {
        match self.below(20) {
            0..=6 => self.add_pod(),
            7..=9 => self.remove_pod(),
            10 | 11 => self.relabel_pod(),
            12..=14 => self.set_node(),
            15 => self.remove_node(),
            16 | 17 => self.set_namespace(),
            18 => self.resolve_binding(),
            _ => {
                let app = self.one_of(&APPS);
                let allowed = self.one_of(&[0, 1, 2]);
                self.harness.set_budget(app, app, allowed);
            }
        }
        self.harness.advance_clock(Duration::from_millis(100));
    }

    fn add_pod(&mut self) {
        self.next_name += 1;
        let name = format!("p{}", self.next_name);
        // Some are equivalent to others.
        let like = self.some_pod().filter(|_| self.rng.below(3) == 0);
        if let Some(mut known) = like.map(|like| self.pods[&like].clone()) {
            known.is_preempted = false;
            if let Some(spec) = known.spec.as_object_mut() {
                spec.remove("nodeName");
            }
            return self.apply_pod(&name, known);
        }
        let known = SimulatedPod {
            namespace: self.one_of(&NAMESPACES),
            labels: json!({"app": self.one_of(&APPS)}),
            cpu: self.one_of(&[0, 1, 2, 3, 4]),
            spec: self.spec(),
            is_preempted: false,
        };
        self.apply_pod(&name, known);
    }

    fn apply_pod(&mut self, name: &str, known: SimulatedPod) {
        self.harness.set_pod(known.pod(name));
        self.pods.insert(name.to_owned(), known);
    }

    fn remove_pod(&mut self) {
        if let Some(name) = self.some_pod() {
            let known = self.pods.remove(&name).unwrap();
            self.binding.retain(|(pod, _)| *pod != name);
            let uid = format!("{}/{name}", known.namespace).into();
            self.harness.apply(SchedulerEvent::Pod(Event::Deleted(uid)));
        }
    }

    fn relabel_pod(&mut self) {
        if let Some(name) = self.some_pod() {
            let mut known = self.pods[&name].clone();
            known.labels = json!({"app": self.one_of(&APPS)});
            self.apply_pod(&name, known);
        }
    }

    fn set_node(&mut self) {
        let name = format!("n{}", self.below(5));
        let mut parts = json!({"labels": {"host": name}, "spec": {}});
        if !self.one_in(5) {
            parts["labels"]["zone"] = json!(self.one_of(&["0", "1"]));
        }
        if self.one_in(5) {
            parts["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        }
        if self.one_in(8) {
            parts["spec"]["unschedulable"] = json!(true);
        }
        let cpu = self.one_of(&[1, 4, 8]);
        self.harness.set_node_with(&name, cpu, parts);
    }

    fn remove_node(&mut self) {
        let name = format!("n{}", self.below(5)).into();
        self.harness
            .apply(SchedulerEvent::Node(Event::Deleted(name)));
    }

    fn set_namespace(&mut self) {
        let name = self.one_of(&NAMESPACES);
        let labels = self.one_of(&[&[][..], &[("team", "x")], &[("team", "y")]]);
        self.harness.set_namespace(name, labels);
    }

    /// Confirms or fails the binding of an assumed pod.
    fn resolve_binding(&mut self) {
        if self.binding.is_empty() {
            return;
        }
        let index = self.below(self.binding.len());
        let (name, node) = self.binding.swap_remove(index);
        let mut known = self.pods[&name].clone();
        let uid = format!("{}/{name}", known.namespace).into();
        if self.one_in(3) {
            if self.one_in(2) {
                known.labels = json!({"app": self.one_of(&APPS)});
                self.apply_pod(&name, known);
            }
            self.harness.apply(SchedulerEvent::BindingConflict { uid });
        } else {
            self.harness.apply(SchedulerEvent::BindingSucceeded { uid });
            known.spec["nodeName"] = json!(node);
            self.apply_pod(&name, known);
        }
    }

    fn drain_outcomes(&mut self) {
        let mut decided = 0;
        while let Some(outcome) = self.harness.engine.next_outcome(self.harness.now) {
            decided += 1;
            assert!(decided < 10_000, "outcomes do not end");
            match outcome {
                SchedulingOutcome::Bind { pod, node, .. } => {
                    self.binding
                        .push((pod.key.name.to_string(), node.to_string()));
                }
                SchedulingOutcome::Unscheduled { victims, .. } => {
                    for victim in victims {
                        let mut known = self.pods[&*victim.key.name].clone();
                        known.is_preempted = true;
                        self.apply_pod(&victim.key.name.clone(), known);
                    }
                }
                SchedulingOutcome::NominationCleared { .. } => {}
            }
        }
    }

    /// All unschedulable pods that are not nominated.
    fn unschedulable_pods(&self) -> Vec<PodId> {
        let engine = &self.harness.engine;
        let pods = engine.cluster.pods().iter().map(|(id, _)| id);
        pods.filter(|id| engine.queue.is_unschedulable(*id) && engine.nominator.get(*id).is_none())
            .collect()
    }

    /// The priority counts, computed from scratch.
    fn recounted_priorities(&self) -> PodPriorityCounts {
        let mut priority_counts = PodPriorityCounts::default();
        for (_, slot) in self.harness.engine.cluster.pods().iter() {
            if let Some(node_id) = slot.node_id() {
                priority_counts.add_pod(node_id, slot.pod.priority);
            }
        }
        priority_counts
    }

    fn check_invariants(&mut self, what: &str) {
        let old_digest = digest(self.harness.engine.cluster());
        let priority_counts = self.recounted_priorities();
        assert_eq!(
            self.harness.engine.priority_counts, priority_counts,
            "{what}"
        );
        for id in self.unschedulable_pods() {
            let engine = &mut self.harness.engine;
            engine.cluster.refresh_node_order();
            let profile = &engine.profiles[0].profile;
            let nominations = &engine.nominator;
            let mut search = NodeSearch::default();
            let decision = profile.schedule_with_nominated_pods(
                nominations,
                &mut engine.cluster,
                id,
                &mut search,
            );
            let ScheduleResult::Unschedulable(diagnosis) = decision else {
                panic!("{what}: {:?} is schedulable", engine.pod(id));
            };
            let preemptor = PreemptionEvaluator {
                profile,
                args: DefaultPreemptionArgs::default(),
                nominator: nominations,
                disruption_budgets: &engine.disruption_budgets,
                priority_counts: &priority_counts,
            };
            let shuffle = &mut search.shuffle;
            let found = preemptor.evaluate(
                &mut engine.cluster,
                id,
                &diagnosis,
                shuffle,
                self.harness.now,
            );
            assert!(
                !matches!(found, PreemptionResult::Victims(_)),
                "{what}: {:?} could preempt: {found:?}",
                engine.pod(id)
            );
        }
        assert_eq!(digest(self.harness.engine.cluster()), old_digest, "{what}");
    }
}

#[test]
fn unschedulable_pods_do_not_fit_and_cycles_leave_no_state_behind() {
    let mut waited = 0;
    for seed in 0..20 {
        let mut simulation = RandomSchedulingSimulation::new(seed);
        for step in 0..120 {
            simulation.apply_random_event();
            simulation.drain_outcomes();
            simulation.check_invariants(&format!("seed {seed}, step {step}"));
            waited += simulation.unschedulable_pods().len();
        }
    }
    assert!(waited > 3_000, "only {waited} unschedulable pods");
}
