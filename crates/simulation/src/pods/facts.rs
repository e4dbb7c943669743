//! A pod as a simulated node sees it.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::script::Script;
use crate::wire::{Condition, PodSpec, PodStatus, Terminated};

/// Where a pod is in its life. Times are as the object has them, in whole seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The node has said nothing about it.
    New,
    /// The node has it, and no container has run.
    Starting {
        since: Timestamp,
    },
    Running {
        since: Timestamp,
        restarts: u32,
        is_ready: bool,
    },
    /// All containers have ended, and will run again.
    BackingOff {
        since: Timestamp,
        restarts: u32,
    },
    Finished,
    /// It is deleted, and its containers may still run.
    Stopping {
        since: Timestamp,
        grace: Duration,
    },
    /// It has stopped. Only its object is still there.
    Stopped {
        is_confirmed: bool,
    },
}

impl Stage {
    /// Since when the pod is in it, if the object says so.
    fn since(&self) -> Option<Timestamp> {
        match *self {
            Stage::Starting { since }
            | Stage::Running { since, .. }
            | Stage::BackingOff { since, .. }
            | Stage::Stopping { since, .. } => Some(since),
            Stage::New | Stage::Finished | Stage::Stopped { .. } => None,
        }
    }

    /// The same moment, but for what became of the pod in it.
    fn is_same_time(&self, other: &Stage) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && self.since() == other.since()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) generation: Option<i64>,
    pub(crate) script: Script,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
    /// When it was deleted, and how long it may take from there.
    pub(crate) deletion: Option<(Timestamp, Duration)>,
}

impl Facts {
    /// With what is wrong about its annotations.
    pub(crate) fn read(pod: crate::wire::Pod) -> (Facts, Vec<String>) {
        let metadata = pod.metadata;
        let annotations = metadata.annotations.unwrap_or_default();
        let (script, problems) = Script::read(&annotations);
        let deletion = metadata.deletion_timestamp.map(|end| {
            let seconds = metadata.deletion_grace_period_seconds.unwrap_or_default();
            let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            (end.0.checked_sub(grace).unwrap_or(Timestamp::MIN), grace)
        });
        let facts = Facts {
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

    pub(crate) fn stage(&self) -> Stage {
        match self.deletion {
            Some((_, grace)) if self.is_finished() => Stage::Stopped {
                is_confirmed: grace.is_zero(),
            },
            Some((since, grace)) => Stage::Stopping { since, grace },
            None if self.is_finished() => Stage::Finished,
            None => self.stage_alive(),
        }
    }

    fn stage_alive(&self) -> Stage {
        let Some(begun) = &self.status.start_time else {
            return Stage::New;
        };
        let statuses = &self.status.container_statuses;
        let restarts = statuses.iter().map(|own| own.restart_count).max();
        let restarts = u32::try_from(restarts.unwrap_or_default()).unwrap_or_default();
        if let Some(since) = self.running_since() {
            return Stage::Running {
                since,
                restarts,
                is_ready: statuses.iter().all(|own| own.ready),
            };
        }
        match self.last_end().and_then(|end| end.finished_at.as_ref()) {
            Some(end) => Stage::BackingOff {
                since: end.0,
                restarts,
            },
            None => Stage::Starting { since: begun.0 },
        }
    }

    pub(crate) fn running_since(&self) -> Option<Timestamp> {
        let statuses = self.status.container_statuses.iter();
        let started = statuses.filter_map(|own| own.state.running.as_ref()?.started_at.as_ref());
        started.map(|time| time.0).max()
    }

    /// How the containers ended when they last did.
    pub(crate) fn last_end(&self) -> Option<&Terminated> {
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

    /// Whether all that others have to say about its readiness is said.
    pub(crate) fn gates_are_open(&self) -> bool {
        let mut gates = self.spec.readiness_gates.iter();
        gates.all(|gate| self.is_true(&gate.condition_type))
    }
}

/// How far a moment may be after the whole second that an object has for it.
const ROUNDED_MAX: Duration = Duration::from_secs(2);

/// When a pod was first seen in its stage. Objects have whole seconds only, so that what was seen is the better
/// time, unless it was seen long after: by a process that was started in the middle.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    stage: Stage,
    at: Timestamp,
}

impl Sight {
    pub(crate) fn new(stage: Stage, at: Timestamp) -> Sight {
        Sight { stage, at }
    }

    pub(crate) fn update(&mut self, stage: Stage, now: Timestamp) {
        let is_same = self.stage.is_same_time(&stage);
        self.stage = stage;
        if !is_same {
            self.at = now;
        }
    }

    pub(crate) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(crate) fn begun(&self) -> Timestamp {
        match self.stage.since() {
            Some(since) if self.at.duration_since(since).unsigned_abs() > ROUNDED_MAX => since,
            _ => self.at,
        }
    }
}
