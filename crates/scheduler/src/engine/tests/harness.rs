//! Test harness: a `SchedulerCore` with a manual clock.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cycle::Profile;
use crate::engine::{
    DefaultPreemptionArgs, Event, Namespace, NominationUpdate, ProfileSettings, SchedulerCore,
    SchedulerCoreSettings, SchedulerEvent, SchedulingOutcome,
};
use crate::model::{DisruptionBudget, Labels, Node, Pod};
use crate::plugins::testing;

use super::hint_counter::{self, HintCallCounter};

pub(super) struct SchedulerHarness {
    pub(super) engine: SchedulerCore,
    pub(super) now: Instant,
    /// The calls of queueing hints.
    pub(super) hint_calls: HintCallCounter,
}

impl SchedulerHarness {
    pub(super) fn new() -> SchedulerHarness {
        SchedulerHarness::with_settings(|_| {})
    }

    pub(super) fn with_settings(set: impl FnOnce(&mut SchedulerCoreSettings)) -> SchedulerHarness {
        let mut settings = SchedulerCoreSettings::new(vec![ProfileSettings {
            profile: Profile::with_default_plugins("s"),
            preemption: Some(DefaultPreemptionArgs::default()),
        }]);
        set(&mut settings);
        let hint_calls = HintCallCounter::default();
        for known in &mut settings.profiles {
            hint_counter::count_hint_calls(&mut known.profile, &hint_calls);
        }
        SchedulerHarness {
            engine: SchedulerCore::new(settings),
            now: Instant::now(),
            hint_calls,
        }
    }

    pub(super) fn apply(&mut self, change: SchedulerEvent) {
        self.engine.apply(change, self.now);
    }

    pub(super) fn advance_clock(&mut self, time: Duration) -> &mut SchedulerHarness {
        self.now += time;
        self
    }

    /// Adds or updates a node with this number of CPUs.
    pub(super) fn set_node(&mut self, name: &str, cpu: u32) {
        self.set_node_with(name, cpu, json!({}));
    }

    pub(super) fn set_node_with(&mut self, name: &str, cpu: u32, mut parts: Value) {
        parts["status"] =
            json!({"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"}});
        let node: Node = testing::node_with(name, parts);
        self.apply(SchedulerEvent::Node(Event::Applied(Box::new(node))));
    }

    pub(super) fn set_pod(&mut self, pod: Pod) {
        self.apply(SchedulerEvent::Pod(Event::Applied(Box::new(pod))));
    }

    pub(super) fn delete_pod(&mut self, pod: &str) {
        let uid = format!("default/{pod}").into();
        self.apply(SchedulerEvent::Pod(Event::Deleted(uid)));
    }

    pub(super) fn set_namespace(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels: Labels = labels.iter().copied().collect();
        let name = name.into();
        self.apply(SchedulerEvent::Namespace(Event::Applied(Namespace {
            name,
            labels,
        })));
    }

    pub(super) fn set_budget(&mut self, name: &str, app: &str, allowed: i32) {
        let budget = json!({
            "metadata": {"namespace": "default", "name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        });
        let budget = DisruptionBudget::from_json(budget.to_string().as_bytes()).unwrap();
        self.apply(SchedulerEvent::DisruptionBudget(Event::Applied(Box::new(
            budget,
        ))));
    }

    /// Takes all outcomes that are due now, formatted as one line each.
    pub(super) fn run_until_idle(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(outcome) = self.engine.next_outcome(self.now) {
            lines.push(format_outcome(outcome));
            assert!(lines.len() < 100_000, "outcomes do not end");
        }
        lines
    }

    /// As `run_until_idle`, but only the pod names, with `+` appended if the pod was scheduled.
    pub(super) fn attempted_pods(&mut self) -> Vec<String> {
        let lines = self.run_until_idle().into_iter();
        lines
            .map(|line| {
                let name = line.split(' ').next().unwrap_or_default();
                let suffix = if line.contains(" → ") { "+" } else { "" };
                format!("{name}{suffix}")
            })
            .collect()
    }

    pub(super) fn node_of(&self, pod: &str) -> Option<String> {
        let cluster = self.engine.cluster();
        let id = cluster.pods().find(&format!("default/{pod}"))?;
        let node_id = cluster.pods().get(id)?.node_id()?;
        cluster.nodes().name(node_id).map(str::to_owned)
    }
}

fn format_outcome(outcome: SchedulingOutcome) -> String {
    match outcome {
        SchedulingOutcome::Bind { pod, node, .. } => format!("{} → {node}", pod.key.name),
        SchedulingOutcome::NominationCleared { pod } => format!("{} displaced", pod.key.name),
        SchedulingOutcome::Unscheduled {
            pod,
            reason,
            message,
            nominated,
            victims,
            ..
        } => {
            let mut line = format!("{} {}: {message}", pod.key.name, reason.as_str());
            match nominated {
                NominationUpdate::Unchanged => {}
                NominationUpdate::Set(node) => line.push_str(&format!(" nominated {node}")),
                NominationUpdate::Clear => line.push_str(" nominated nowhere"),
            }
            if !victims.is_empty() {
                let names: Vec<&str> = victims.iter().map(|pod| &*pod.key.name).collect();
                line.push_str(&format!(" victims {}", names.join(",")));
            }
            line
        }
    }
}

/// A pod of the profile with this CPU request and parts of a spec.
pub(super) fn pod(name: &str, cpu: u32, spec: Value) -> Pod {
    labelled_pod(name, json!({"app": name}), cpu, spec)
}

pub(super) fn labelled_pod(name: &str, labels: Value, cpu: u32, spec: Value) -> Pod {
    pod_in("default", name, labels, cpu, spec)
}

pub(super) fn pod_in(namespace: &str, name: &str, labels: Value, cpu: u32, mut spec: Value) -> Pod {
    spec["schedulerName"] = json!("s");
    spec["containers"] = testing::requests(json!({"cpu": cpu.to_string()}));
    testing::pod_in(namespace, name, labels, spec)
}
