//! The printer of pods (upstream: `printPod`).

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use crate::JsonObject;
use crate::printers::json_view::JsonView;
use crate::printers::{AGE, NAME, age, human_duration, is_being_deleted, name};
use crate::table::{RowCompletion, TableColumn, TablePrinter};

pub(super) const POD: TablePrinter = TablePrinter::new(
    &[
        NAME,
        TableColumn::text("Ready", "Ready containers / total containers."),
        TableColumn::text("Status", "Aggregate status of the pod's containers."),
        TableColumn::text(
            "Restarts",
            "Number of container restarts, and the time since the last.",
        ),
        AGE,
        TableColumn::text("IP", "The IP address of the pod.").wide(),
        TableColumn::text("Node", "The node it is bound to.").wide(),
        TableColumn::text(
            "Nominated Node",
            "The node nominated for the pod by preemption.",
        )
        .wide(),
        TableColumn::text("Readiness Gates", "Readiness gates that are true / total.").wide(),
    ],
    cells,
)
.with_completion(completion);

fn cells(object: &JsonObject, now: Timestamp) -> Vec<Value> {
    let pod = JsonView::Root(object);
    let summary = PodSummary::of(pod);
    let ip = pod
        .at("status.podIPs")
        .items()
        .next()
        .map_or("", |address| address.key("ip").str());
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.into(),
        summary.restarts.text(now).into(),
        age(pod, now),
        json!(if ip.is_empty() { "<none>" } else { ip }),
        json!(pod.at("spec.nodeName").str_or("<none>")),
        json!(pod.at("status.nominatedNodeName").str_or("<none>")),
        readiness_gates(pod).into(),
    ]
}

fn completion(object: &JsonObject) -> Option<RowCompletion> {
    match JsonView::Root(object).at("status.phase").str() {
        "Succeeded" => Some(RowCompletion {
            reason: "Succeeded",
            message: "The pod has completed successfully.",
        }),
        "Failed" => Some(RowCompletion {
            reason: "Failed",
            message: "The pod failed.",
        }),
        _ => None,
    }
}

fn readiness_gates(pod: JsonView<'_>) -> String {
    let gates = pod.at("spec.readinessGates");
    if gates.item_count() == 0 {
        return "<none>".to_string();
    }
    let passed = gates
        .items()
        .filter(|gate| is_condition_true(pod, gate.key("conditionType").str()))
        .count();
    format!("{passed}/{}", gates.item_count())
}

/// Whether the first condition of this type is true.
fn is_condition_true(pod: JsonView<'_>, condition: &str) -> bool {
    pod.at("status.conditions")
        .condition(condition)
        .is_some_and(|condition| condition.key("status").str() == "True")
}

/// The number of container restarts and the time of the last one.
#[derive(Debug, Clone, Copy, Default)]
struct RestartSummary {
    count: i64,
    last: Option<Timestamp>,
}

impl RestartSummary {
    fn add(&mut self, container: JsonView<'_>) {
        self.count += container.key("restartCount").int();
        let finished = container.at("lastState.terminated.finishedAt").str();
        self.last = self.last.max(human_duration::parse(finished));
    }

    fn text(self, now: Timestamp) -> String {
        match (self.count, self.last) {
            (0, _) | (_, None) => self.count.to_string(),
            (count, Some(last)) => {
                let ago = human_duration::duration(human_duration::seconds_between(last, now));
                format!("{count} ({ago} ago)")
            }
        }
    }
}

/// The values of the Ready, Status and Restarts columns.
struct PodSummary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: RestartSummary,
}

impl PodSummary {
    fn of(pod: JsonView<'_>) -> PodSummary {
        let sidecars = pod
            .at("spec.initContainers")
            .items()
            .filter(|container| is_always_restarted(*container))
            .count();
        let mut summary = PodSummary {
            reason: phase_or_reason(pod),
            ready: 0,
            containers: pod.at("spec.containers").item_count() + sidecars,
            restarts: RestartSummary::default(),
        };
        let (initializing, of_sidecars) = summary.summarize_init_containers(pod);
        if !initializing || is_condition_true(pod, "Initialized") {
            // Once the pod is initialized, restarts of its init containers (except sidecars) no longer count.
            summary.restarts = of_sidecars;
            summary.summarize_containers(pod);
        }
        summary.summarize_deletion(pod);
        summary
    }

    /// Returns whether an init container has not completed yet, and the restarts of the sidecars.
    fn summarize_init_containers(&mut self, pod: JsonView<'_>) -> (bool, RestartSummary) {
        let mut of_sidecars = RestartSummary::default();
        let declared = pod.at("spec.initContainers");
        for (index, container) in pod.at("status.initContainerStatuses").items().enumerate() {
            self.restarts.add(container);
            let name = container.key("name").str();
            let is_sidecar = declared
                .items()
                .rfind(|declared| declared.key("name").str() == name)
                .is_some_and(is_always_restarted);
            if is_sidecar {
                of_sidecars.add(container);
            }
            let terminated = container.at("state.terminated");
            if terminated.exists() && terminated.key("exitCode").int() == 0 {
                continue;
            }
            if is_sidecar && container.key("started").is_true() {
                self.ready += usize::from(container.key("ready").is_true());
                continue;
            }
            self.reason = format!(
                "Init:{}",
                init_state(container, index, declared.item_count())
            );
            return (true, of_sidecars);
        }
        (false, of_sidecars)
    }

    fn summarize_containers(&mut self, pod: JsonView<'_>) {
        let mut is_running = false;
        let mut failure = None;
        for container in pod.at("status.containerStatuses").items().rev() {
            self.restarts.add(container);
            let waiting_for = container.at("state.waiting.reason").str();
            let terminated = container.at("state.terminated");
            if !waiting_for.is_empty() {
                self.reason = waiting_for.to_string();
            } else if terminated.exists() {
                self.reason = termination_reason(terminated);
                if terminated.key("exitCode").int() != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.key("ready").is_true() && container.at("state.running").exists() {
                is_running = true;
                self.ready += 1;
            }
        }
        // `Completed` does not apply while a container is running or if one failed.
        if self.reason == "Completed" {
            if is_running && has_true_condition(pod, "Ready") {
                self.reason = "Running".to_string();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if is_running {
                self.reason = "NotReady".to_string();
            }
        }
    }

    fn summarize_deletion(&mut self, pod: JsonView<'_>) {
        if !is_being_deleted(pod) {
            return;
        }
        if pod.at("status.reason").str() == "NodeLost" {
            self.reason = "Unknown".to_string();
        } else if !matches!(pod.at("status.phase").str(), "Failed" | "Succeeded") {
            self.reason = "Terminating".to_string();
        }
    }
}

fn phase_or_reason(pod: JsonView<'_>) -> String {
    let is_gated = pod.at("status.conditions").items().any(|condition| {
        condition.key("type").str() == "PodScheduled"
            && condition.key("reason").str() == "SchedulingGated"
    });
    if is_gated {
        return "SchedulingGated".to_string();
    }
    let phase = pod.at("status.phase").str();
    pod.at("status.reason").str_or(phase).to_string()
}

/// Whether any condition of this type is true; the list may contain several of a type.
fn has_true_condition(pod: JsonView<'_>, kind: &str) -> bool {
    pod.at("status.conditions").items().any(|condition| {
        condition.key("type").str() == kind && condition.key("status").str() == "True"
    })
}

fn is_always_restarted(container: JsonView<'_>) -> bool {
    container.key("restartPolicy").str() == "Always"
}

fn init_state(container: JsonView<'_>, index: usize, all: usize) -> String {
    let terminated = container.at("state.terminated");
    if terminated.exists() {
        return termination_reason(terminated);
    }
    match container.at("state.waiting.reason").str() {
        "" | "PodInitializing" => format!("{index}/{all}"),
        reason => reason.to_string(),
    }
}

fn termination_reason(terminated: JsonView<'_>) -> String {
    let reason = terminated.key("reason").str();
    let signal = terminated.key("signal").int();
    if !reason.is_empty() {
        reason.to_string()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", terminated.key("exitCode").int())
    }
}
