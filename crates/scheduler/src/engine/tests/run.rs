//! An engine with a clock that stands still until it is moved.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cycle::Profile;
use crate::engine::{Change, Engine, Nominated, Outcome, Preemption, ProfileSettings, Settings};
use crate::model::{Budget, Labels, Node, Pod};
use crate::plugins::testing;

use super::asked::{self, Asked};

pub(super) struct Run {
    pub(super) engine: Engine,
    pub(super) now: Instant,
    /// What the plugins are asked about those who wait.
    pub(super) asked: Asked,
}

impl Run {
    pub(super) fn new() -> Run {
        Run::with(|_| {})
    }

    pub(super) fn with(set: impl FnOnce(&mut Settings)) -> Run {
        let mut settings = Settings::new(vec![ProfileSettings {
            profile: Profile::usual("s"),
            preemption: Some(Preemption::default()),
        }]);
        set(&mut settings);
        let asked = Asked::default();
        for known in &mut settings.profiles {
            asked::count(&mut known.profile, &asked);
        }
        Run {
            engine: Engine::new(settings),
            now: Instant::now(),
            asked,
        }
    }

    pub(super) fn apply(&mut self, change: Change) {
        self.engine.apply(change, self.now);
    }

    pub(super) fn after(&mut self, time: Duration) -> &mut Run {
        self.now += time;
        self
    }

    /// A node with so many processors.
    pub(super) fn node(&mut self, name: &str, cpu: u32) {
        self.node_with(name, cpu, json!({}));
    }

    pub(super) fn node_with(&mut self, name: &str, cpu: u32, mut parts: Value) {
        parts["status"] =
            json!({"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"}});
        let node: Node = testing::node_with(name, parts);
        self.apply(Change::Node(Box::new(node)));
    }

    pub(super) fn pod(&mut self, pod: Pod) {
        self.apply(Change::Pod(Box::new(pod)));
    }

    pub(super) fn gone(&mut self, pod: &str) {
        let uid = format!("default/{pod}").into();
        self.apply(Change::PodGone { uid });
    }

    pub(super) fn namespace(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels: Labels = labels.iter().copied().collect();
        let name = name.into();
        self.apply(Change::Namespace { name, labels });
    }

    pub(super) fn budget(&mut self, name: &str, app: &str, allowed: i32) {
        let budget = json!({
            "metadata": {"namespace": "default", "name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        });
        let budget = Budget::from_json(budget.to_string().as_bytes()).unwrap();
        self.apply(Change::Budget(Box::new(budget)));
    }

    /// All that is decided at this moment, a line each.
    pub(super) fn go(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(outcome) = self.engine.next(self.now) {
            lines.push(line(outcome));
            assert!(lines.len() < 100_000, "it does not end");
        }
        lines
    }

    /// The same with the first word of each line: the name of the pod, and `+` if it got a node.
    pub(super) fn tried(&mut self) -> Vec<String> {
        let lines = self.go().into_iter();
        lines
            .map(|line| {
                let name = line.split(' ').next().unwrap_or_default();
                let got = if line.contains(" → ") { "+" } else { "" };
                format!("{name}{got}")
            })
            .collect()
    }

    pub(super) fn node_of(&self, pod: &str) -> Option<String> {
        let cluster = self.engine.cluster();
        let id = cluster.pods().find(&format!("default/{pod}"))?;
        let place = cluster.pods().get(id)?.place()?;
        cluster.nodes().name(place).map(str::to_owned)
    }
}

fn line(outcome: Outcome) -> String {
    match outcome {
        Outcome::Bind { pod, node, .. } => format!("{} → {node}", pod.key.name),
        Outcome::Displaced { pod } => format!("{} displaced", pod.key.name),
        Outcome::Pending {
            pod,
            reason,
            message,
            nominated,
            victims,
            ..
        } => {
            let mut line = format!("{} {}: {message}", pod.key.name, reason.as_str());
            match nominated {
                Nominated::Unchanged => {}
                Nominated::Node(node) => line.push_str(&format!(" nominated {node}")),
                Nominated::Nowhere => line.push_str(" nominated nowhere"),
            }
            if !victims.is_empty() {
                let names: Vec<&str> = victims.iter().map(|pod| &*pod.key.name).collect();
                line.push_str(&format!(" victims {}", names.join(",")));
            }
            line
        }
    }
}

/// A pod of the profile that wants so many processors, with parts of a spec.
pub(super) fn pod(name: &str, cpu: u32, spec: Value) -> Pod {
    labelled(name, json!({"app": name}), cpu, spec)
}

pub(super) fn labelled(name: &str, labels: Value, cpu: u32, spec: Value) -> Pod {
    pod_in("default", name, labels, cpu, spec)
}

pub(super) fn pod_in(namespace: &str, name: &str, labels: Value, cpu: u32, mut spec: Value) -> Pod {
    spec["schedulerName"] = json!("s");
    spec["containers"] = testing::requests(json!({"cpu": cpu.to_string()}));
    testing::pod_in(namespace, name, labels, spec)
}
