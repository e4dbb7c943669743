//! A pod as observed by its simulated node, and its lifecycle stage.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::partial_objects::{Condition, ContainerStateTerminated, PodSpec, PodStatus};
use crate::pod_behavior::PodBehavior;

/// Lifecycle stage of a pod. Times are from the object, in whole seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodStage {
    /// The node has not written its status yet.
    New,
    /// The node has accepted it; no container has started.
    Starting {
        since: Timestamp,
    },
    Running {
        since: Timestamp,
        restarts: u32,
        is_ready: bool,
    },
    /// All containers have exited and will be restarted.
    BackingOff {
        since: Timestamp,
        restarts: u32,
    },
    Finished,
    /// Terminating; its containers may still run.
    Stopping {
        since: Timestamp,
        grace: Duration,
    },
    /// Terminating, and its containers have stopped.
    Stopped {
        is_confirmed: bool,
    },
}

impl PodStage {
    /// When the stage began, if the object has that time.
    fn since(&self) -> Option<Timestamp> {
        match *self {
            PodStage::Starting { since }
            | PodStage::Running { since, .. }
            | PodStage::BackingOff { since, .. }
            | PodStage::Stopping { since, .. } => Some(since),
            PodStage::New | PodStage::Finished | PodStage::Stopped { .. } => None,
        }
    }

    /// Whether both are the same stage with the same start time, ignoring other fields.
    fn is_same_time(&self, other: &PodStage) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.since() == other.since()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ObservedPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) generation: Option<i64>,
    pub(crate) script: PodBehavior,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
    /// Time of the deletion, and the grace period.
    pub(crate) deletion: Option<(Timestamp, Duration)>,
}

impl ObservedPod {
    /// Returns the pod and the problems of its annotations.
    pub(crate) fn read(pod: crate::partial_objects::Pod) -> (ObservedPod, Vec<String>) {
        let metadata = pod.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let (script, problems) = PodBehavior::read(&annotations);
        let deletion = metadata.deletion_timestamp.map(|end| {
            let seconds = metadata.deletion_grace_period_seconds.unwrap_or_default();
            let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            (end.0.checked_sub(grace).unwrap_or(Timestamp::MIN), grace)
        });
        let facts = ObservedPod {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation,
            script,
            spec: pod.spec,
            status: pod.status,
            deletion,
        };
        (facts, problems)
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub(crate) fn stage(&self) -> PodStage {
        match self.deletion {
            Some((_, grace)) if self.is_finished() => PodStage::Stopped {
                is_confirmed: grace.is_zero(),
            },
            Some((since, grace)) => PodStage::Stopping { since, grace },
            None if self.is_finished() => PodStage::Finished,
            None => self.stage_alive(),
        }
    }

    fn stage_alive(&self) -> PodStage {
        let Some(stage_started_at) = &self.status.start_time else {
            return PodStage::New;
        };
        let statuses = &self.status.container_statuses;
        let restarts = statuses.iter().map(|own| own.restart_count).max();
        let restarts = u32::try_from(restarts.unwrap_or_default()).unwrap_or_default();
        if let Some(since) = self.running_since() {
            return PodStage::Running {
                since,
                restarts,
                is_ready: statuses.iter().all(|own| own.ready),
            };
        }
        match self.last_end().and_then(|end| end.finished_at.as_ref()) {
            Some(end) => PodStage::BackingOff {
                since: end.0,
                restarts,
            },
            None => PodStage::Starting {
                since: stage_started_at.0,
            },
        }
    }

    pub(crate) fn running_since(&self) -> Option<Timestamp> {
        let statuses = self.status.container_statuses.iter();
        let started = statuses.filter_map(|own| own.state.running.as_ref()?.started_at.as_ref());
        started.map(|time| time.0).max()
    }

    /// The most recent termination of a container.
    pub(crate) fn last_end(&self) -> Option<&ContainerStateTerminated> {
        let mut statuses = self.status.container_statuses.iter();
        statuses.find_map(|own| {
            let now = own.state.terminated.as_ref();
            now.or(own.last_state.terminated.as_ref())
        })
    }

    pub(crate) fn condition(&self, type_: &str) -> Option<&Condition> {
        let mut conditions = self.status.conditions.iter();
        conditions.find(|own| own.type_ == type_)
    }

    pub(crate) fn is_true(&self, type_: &str) -> bool {
        self.condition(type_)
            .is_some_and(|own| own.status == "True")
    }

    /// Whether all conditions named by its readiness gates are true.
    pub(crate) fn gates_are_open(&self) -> bool {
        let mut gates = self.spec.readiness_gates.iter();
        gates.all(|gate| self.is_true(&gate.condition_type))
    }
}

/// Maximum difference between an event and its time in the object, which is rounded to whole seconds.
const ROUNDED_MAX: Duration = Duration::from_secs(2);

/// When a pod was first observed in its stage. This is more precise than the object's whole seconds, unless the
/// observation came much later, as after a restart of this process.
#[derive(Debug, Clone)]
pub(crate) struct StageObservation {
    stage: PodStage,
    at: Timestamp,
}

impl StageObservation {
    pub(crate) fn new(stage: PodStage, at: Timestamp) -> StageObservation {
        StageObservation { stage, at }
    }

    pub(crate) fn update(&mut self, stage: PodStage, now: Timestamp) {
        let is_same = self.stage.is_same_time(&stage);
        self.stage = stage;
        if !is_same {
            self.at = now;
        }
    }

    pub(crate) fn stage(&self) -> &PodStage {
        &self.stage
    }

    pub(crate) fn stage_started_at(&self) -> Timestamp {
        match self.stage.since() {
            Some(since) if self.at.duration_since(since).unsigned_abs() > ROUNDED_MAX => since,
            _ => self.at,
        }
    }
}
