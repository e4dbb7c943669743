//! How a pod is summed up in a line.

use rhumb_meta::Timestamp;
use serde_json::{Value, json};

use crate::Object;
use crate::printers::part::Part;
use crate::printers::{AGE, NAME, age, human, is_being_deleted, name};
use crate::table::{Column, Completed, Printer};

pub(super) const POD: Printer = Printer::new(
    &[
        NAME,
        Column::text("Ready", "How many containers are ready, of how many."),
        Column::text("Status", "What the pod's containers are up to."),
        Column::text(
            "Restarts",
            "How often containers were started again, and when last.",
        ),
        AGE,
        Column::text("IP", "The address of the pod.").wide(),
        Column::text("Node", "The node it is bound to.").wide(),
        Column::text("Nominated Node", "The node on which room is made for it.").wide(),
        Column::text("Readiness Gates", "How many of its gates are open.").wide(),
    ],
    cells,
)
.completing(completed);

fn cells(object: &Object, now: Timestamp) -> Vec<Value> {
    let pod = Part::Root(object);
    let summary = Summary::of(pod);
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

fn completed(object: &Object) -> Option<Completed> {
    match Part::Root(object).at("status.phase").str() {
        "Succeeded" => Some(Completed {
            reason: "Succeeded",
            message: "The pod has completed successfully.",
        }),
        "Failed" => Some(Completed {
            reason: "Failed",
            message: "The pod failed.",
        }),
        _ => None,
    }
}

fn readiness_gates(pod: Part<'_>) -> String {
    let gates = pod.at("spec.readinessGates");
    if gates.len() == 0 {
        return "<none>".to_string();
    }
    let open = gates
        .items()
        .filter(|gate| is_true(pod, gate.key("conditionType").str()))
        .count();
    format!("{open}/{}", gates.len())
}

/// Whether the first condition of this type is true.
fn is_true(pod: Part<'_>, condition: &str) -> bool {
    pod.at("status.conditions")
        .condition(condition)
        .is_some_and(|condition| condition.key("status").str() == "True")
}

/// How often containers were restarted, and when last.
#[derive(Debug, Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: Part<'_>) {
        self.count += container.key("restartCount").int();
        let finished = container.at("lastState.terminated.finishedAt").str();
        self.last = self.last.max(human::parse(finished));
    }

    fn text(self, now: Timestamp) -> String {
        match (self.count, self.last) {
            (0, _) | (_, None) => self.count.to_string(),
            (count, Some(last)) => {
                let ago = human::duration(human::seconds_between(last, now));
                format!("{count} ({ago} ago)")
            }
        }
    }
}

struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: Part<'_>) -> Summary {
        let sidecars = pod
            .at("spec.initContainers")
            .items()
            .filter(|container| is_always_restarted(*container))
            .count();
        let mut summary = Summary {
            reason: phase_or_reason(pod),
            ready: 0,
            containers: pod.at("spec.containers").len() + sidecars,
            restarts: Restarts::default(),
        };
        let (initializing, of_sidecars) = summary.look_at_init_containers(pod);
        if !initializing || is_true(pod, "Initialized") {
            // Once the pod runs, what its init containers went through is of no interest any more.
            summary.restarts = of_sidecars;
            summary.look_at_containers(pod);
        }
        summary.look_at_deletion(pod);
        summary
    }

    /// Whether one of them is not done yet, and the restarts of those that go on running.
    fn look_at_init_containers(&mut self, pod: Part<'_>) -> (bool, Restarts) {
        let mut of_sidecars = Restarts::default();
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
            self.reason = format!("Init:{}", init_state(container, index, declared.len()));
            return (true, of_sidecars);
        }
        (false, of_sidecars)
    }

    fn look_at_containers(&mut self, pod: Part<'_>) {
        let mut is_running = false;
        let mut failure = None;
        for container in pod.at("status.containerStatuses").items().rev() {
            self.restarts.add(container);
            let waiting_for = container.at("state.waiting.reason").str();
            let terminated = container.at("state.terminated");
            if !waiting_for.is_empty() {
                self.reason = waiting_for.to_string();
            } else if terminated.exists() {
                self.reason = how_it_ended(terminated);
                if terminated.key("exitCode").int() != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.key("ready").is_true() && container.at("state.running").exists() {
                is_running = true;
                self.ready += 1;
            }
        }
        // A pod is not completed while some of its containers run, nor when one of them failed.
        if self.reason == "Completed" {
            if is_running && is_true_anywhere(pod, "Ready") {
                self.reason = "Running".to_string();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if is_running {
                self.reason = "NotReady".to_string();
            }
        }
    }

    fn look_at_deletion(&mut self, pod: Part<'_>) {
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

fn phase_or_reason(pod: Part<'_>) -> String {
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

/// Whether any condition of this type is true: the list may have more than one of a type.
fn is_true_anywhere(pod: Part<'_>, kind: &str) -> bool {
    pod.at("status.conditions").items().any(|condition| {
        condition.key("type").str() == kind && condition.key("status").str() == "True"
    })
}

fn is_always_restarted(container: Part<'_>) -> bool {
    container.key("restartPolicy").str() == "Always"
}

fn init_state(container: Part<'_>, index: usize, all: usize) -> String {
    let terminated = container.at("state.terminated");
    if terminated.exists() {
        return how_it_ended(terminated);
    }
    match container.at("state.waiting.reason").str() {
        "" | "PodInitializing" => format!("{index}/{all}"),
        reason => reason.to_string(),
    }
}

fn how_it_ended(terminated: Part<'_>) -> String {
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
