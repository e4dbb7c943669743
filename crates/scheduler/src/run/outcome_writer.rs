//! Writes scheduling outcomes to the API server (bindings, pod statuses, preemptions) and reports the results to the
//! scheduling thread (upstream: binding cycle, `handleSchedulingFailure`).

use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::event_recorder::SchedulingEventRecorder;
use super::in_flight::InFlightWrites;
use super::inbox::SchedulerInbox;
use super::leader_client::{
    BindingResult, CurrentPodState, LeaderClient, RequestError, timestamp_now,
};
use super::recorded_event::RecordedEvent;
use super::status_writes::{LastWrittenStatus, PodStatusWrites, WriteTicket};
use crate::engine::{NominationUpdate, PodScheduledReason, SchedulerEvent, SchedulingOutcome};
use crate::metrics::{AttemptResult, Metrics};
use crate::model::Pod;

/// Concurrent writes other than bindings; low, so that bindings get most of the server's capacity.
const CONCURRENT_WRITES_MAX: usize = 32;
/// Concurrent preemptions per preemptor, as upstream.
const CONCURRENT_PREEMPTIONS_MAX: usize = 16;
/// Attempts to write a status that is modified concurrently.
const ATTEMPTS_MAX: usize = 3;

/// A scheduling outcome, and when its cycle began.
#[derive(Debug)]
pub(super) struct FinishedCycle {
    pub(super) outcome: SchedulingOutcome,
    pub(super) started: Instant,
}

#[derive(Debug)]
pub(super) struct OutcomeWriter {
    pub(super) client: LeaderClient,
    pub(super) inbox: Arc<SchedulerInbox>,
    pub(super) status_writes: Arc<PodStatusWrites>,
    pub(super) in_flight: Arc<InFlightWrites>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) event_recorder: SchedulingEventRecorder,
    pub(super) write_permits: Semaphore,
}

/// The status to write for a pod that remains pending.
#[derive(Debug)]
struct PendingPodStatus {
    pod: Arc<Pod>,
    reason: PodScheduledReason,
    message: String,
    nominated: NominationUpdate,
}

impl OutcomeWriter {
    pub(super) fn new(
        client: LeaderClient,
        inbox: Arc<SchedulerInbox>,
        status_writes: Arc<PodStatusWrites>,
        in_flight: Arc<InFlightWrites>,
        metrics: Arc<Metrics>,
        event_recorder: SchedulingEventRecorder,
    ) -> OutcomeWriter {
        OutcomeWriter {
            client,
            inbox,
            status_writes,
            in_flight,
            metrics,
            event_recorder,
            write_permits: Semaphore::new(CONCURRENT_WRITES_MAX),
        }
    }

    /// Spawns a task per outcome. Dropping this future aborts the tasks.
    pub(super) async fn run(self: Arc<Self>, mut outcomes: mpsc::UnboundedReceiver<FinishedCycle>) {
        let mut work = JoinSet::new();
        while let Some(outcomes) = outcomes.recv().await {
            while work.try_join_next().is_some() {}
            self.spawn_write(outcomes, &mut work);
        }
    }

    /// Takes the write ticket before spawning, because tasks start in any order.
    fn spawn_write(
        self: &Arc<Self>,
        FinishedCycle { outcome, started }: FinishedCycle,
        work: &mut JoinSet<()>,
    ) {
        let writer = self.clone();
        match outcome {
            SchedulingOutcome::Bind {
                pod,
                node,
                attempts,
                since_enqueued: waited,
                since_first_attempt,
                ..
            } => {
                let ticket = self.status_writes.supersede(&pod.uid);
                work.spawn(async move {
                    if writer.bind(&pod, node, started, ticket).await {
                        let elapsed = started.elapsed();
                        let (waited, since_first_attempt) =
                            (waited + elapsed, since_first_attempt + elapsed);
                        writer
                            .metrics
                            .note_bound(attempts, waited, since_first_attempt);
                    }
                });
            }
            SchedulingOutcome::Unscheduled {
                pod,
                reason,
                message,
                nominated,
                victims,
                ..
            } => {
                let ticket = self.status_writes.ticket(&pod.uid);
                let status = PendingPodStatus {
                    pod: pod.clone(),
                    reason,
                    message,
                    nominated,
                };
                work.spawn(async move {
                    writer.write_pending_status(status, &ticket).await;
                    writer.preempt_victims(&pod, victims).await;
                    writer.end_write();
                });
            }
            SchedulingOutcome::NominationCleared { pod } => {
                let ticket = self.status_writes.ticket(&pod.uid);
                work.spawn(async move {
                    writer.clear_nomination(&pod, &ticket).await;
                    writer.end_write();
                });
            }
        }
    }

    fn end_write(&self) {
        self.in_flight.end_write();
        self.inbox.wake();
    }

    /// Returns whether the pod was bound.
    async fn bind(
        &self,
        pod: &Arc<Pod>,
        node: Box<str>,
        started: Instant,
        ticket: Option<WriteTicket>,
    ) -> bool {
        let result = match ticket {
            // A status write in progress changes the resourceVersion, so wait for it.
            Some(ticket) => {
                let written = ticket.lock_written().await;
                let version = written.version(&pod.resource_version);
                self.bind_and_resolve(pod, version, &node).await
            }
            None => {
                self.bind_and_resolve(pod, &pod.resource_version, &node)
                    .await
            }
        };
        let uid = pod.uid.clone();
        let (event, attempt) = match &result {
            BindingResult::Bound => (
                SchedulerEvent::BindingSucceeded { uid },
                Some(AttemptResult::Scheduled),
            ),
            BindingResult::NotBound(error) => {
                tracing::info!(pod = %pod.key, %node, error, "failed to bind pod; retrying");
                (
                    SchedulerEvent::BindingConflict { uid },
                    Some(AttemptResult::Error),
                )
            }
            BindingResult::Rejected(error) => {
                tracing::warn!(pod = %pod.key, %node, error, "server rejected binding; retrying");
                let problem = format!("running Bind plugin \"DefaultBinder\": {error}");
                // The scheduling thread counts this attempt.
                (SchedulerEvent::BindingRejected { uid, problem }, None)
            }
            BindingResult::OutcomeUnknown(_) | BindingResult::NotLeading => return false,
        };
        self.inbox.send_result(event);
        if let Some(attempt) = attempt {
            self.metrics
                .note_attempt(&pod.scheduler_name, attempt, started.elapsed());
        }
        if result == BindingResult::Bound {
            self.status_writes.forget(&pod.uid);
            self.event_recorder.record(RecordedEvent::Scheduled {
                pod: pod.clone(),
                node,
            });
        }
        result == BindingResult::Bound
    }

    /// Binds a pod; resolves an unknown outcome, however long that takes.
    async fn bind_and_resolve(&self, pod: &Pod, version: &str, node: &str) -> BindingResult {
        match self.client.bind(pod, version, node).await {
            BindingResult::OutcomeUnknown(problem) => {
                self.in_flight.begin_resolving();
                // Another binding may start.
                self.inbox.wake();
                let result = self
                    .client
                    .resolve_binding(pod, version, node, problem)
                    .await;
                self.in_flight.end_resolving();
                result
            }
            result => {
                self.in_flight.end_binding();
                result
            }
        }
    }

    /// Writes why a pod is pending, unless its status already says so, and records the failure.
    async fn write_pending_status(&self, status: PendingPodStatus, ticket: &WriteTicket) {
        let Ok(_permit) = self.write_permits.acquire().await else {
            return;
        };
        let mut written = ticket.lock_written().await;
        if ticket.is_outdated() {
            return;
        }
        let Some(patch) = status.patch(&written) else {
            self.record_failure(&status);
            if written.is_empty() {
                self.status_writes.forget_if_latest(&status.pod.uid, ticket);
            }
            return;
        };
        match self.write_status(&status.pod, &mut written, patch).await {
            Ok(true) => {
                status.record_written(&mut written);
                self.record_failure(&status);
            }
            Ok(false) => self.status_writes.forget_if_latest(&status.pod.uid, ticket),
            Err(failure) => {
                tracing::info!(pod = %status.pod.key, error = %failure, "failed to write status of pending pod");
            }
        }
    }

    fn record_failure(&self, status: &PendingPodStatus) {
        self.event_recorder.record(RecordedEvent::Failed {
            pod: status.pod.clone(),
            message: status.message.clone(),
        });
    }

    /// Patches a pod's status, on the known resourceVersion or, after a conflict, on the current one. False if the pod
    /// is assigned or deleted by now and was left alone.
    async fn write_status(
        &self,
        pod: &Pod,
        written: &mut LastWrittenStatus,
        status: Value,
    ) -> Result<bool, RequestError> {
        let mut version = written.version(&pod.resource_version).to_owned();
        let mut attempts = 1;
        loop {
            let patch = json!({
                "metadata": {"uid": pod.uid, "resourceVersion": version},
                "status": status,
            });
            match self.client.patch_status(&pod.key, &patch).await {
                Ok(updated) => {
                    // After a conflict, the new version includes a foreign change that the watch has yet to deliver.
                    if attempts == 1 {
                        written.record_version(&pod.resource_version, updated.version);
                    }
                    return Ok(true);
                }
                Err(failure) if failure.is_not_found() => return Ok(false),
                Err(failure) if failure.is_conflict() && attempts < ATTEMPTS_MAX => {}
                Err(failure) => return Err(failure),
            }
            let current = self.client.get_pod(&pod.key).await?;
            let is_pending = |current: &CurrentPodState| {
                current.uid == *pod.uid && current.node.is_empty() && !current.is_terminating
            };
            match current.filter(is_pending) {
                Some(current) => version = current.version,
                None => return Ok(false),
            }
            attempts += 1;
        }
    }

    /// Preempts the victims. If one cannot be preempted, the pod is scheduled again.
    async fn preempt_victims(&self, pod: &Arc<Pod>, victims: Vec<Arc<Pod>>) {
        let evicted: Vec<bool> = stream::iter(victims)
            .map(|victim| self.preempt_victim(victim, pod))
            .buffer_unordered(CONCURRENT_PREEMPTIONS_MAX)
            .collect()
            .await;
        if evicted.contains(&false) {
            let uid = pod.uid.clone();
            self.inbox
                .send_result(SchedulerEvent::PreemptionFailed { uid });
        }
    }

    /// Returns whether the victim is deleted or terminating.
    async fn preempt_victim(&self, victim: Arc<Pod>, by: &Arc<Pod>) -> bool {
        let Ok(_permit) = self.write_permits.acquire().await else {
            return false;
        };
        match self.client.preempt_pod(&victim, &by.scheduler_name).await {
            Ok(()) => {
                let by = by.clone();
                self.event_recorder
                    .record(RecordedEvent::Preempted { victim, by });
                true
            }
            Err(failure) => {
                tracing::warn!(pod = %victim.key, preemptor = %by.key, error = %failure, "failed to preempt pod");
                false
            }
        }
    }

    /// Clears `nominatedNodeName` of a pod that lost its nomination.
    async fn clear_nomination(&self, pod: &Pod, ticket: &WriteTicket) {
        let Ok(_permit) = self.write_permits.acquire().await else {
            return;
        };
        let mut written = ticket.lock_written().await;
        if ticket.is_outdated() {
            return;
        }
        let status = json!({"nominatedNodeName": null});
        match self.write_status(pod, &mut written, status).await {
            Ok(true) => written.nominated = Some(None),
            Ok(false) => self.status_writes.forget_if_latest(&pod.uid, ticket),
            Err(failure) => {
                tracing::info!(pod = %pod.key, error = %failure, "failed to clear nominated node of pod");
            }
        }
    }
}

impl PendingPodStatus {
    /// The status patch; `None` if the status is already up to date.
    fn patch(&self, written: &LastWrittenStatus) -> Option<Value> {
        let mut status = Map::new();
        let known = self.pod.unscheduled_condition.as_deref();
        let current = match &written.condition {
            Some((reason, message)) => Some((*reason, message.as_str())),
            None => known.map(|known| (&*known.reason, &*known.message)),
        };
        if current != Some((self.reason.as_str(), self.message.as_str())) {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": self.reason.as_str(),
                "message": self.message,
                "lastProbeTime": null,
            });
            if self.pod.generation > 0 {
                condition["observedGeneration"] = json!(self.pod.generation);
            }
            // If the condition was False before, this is no transition.
            if current.is_none() {
                condition["lastTransitionTime"] = Value::String(timestamp_now());
            }
            status.insert("conditions".to_owned(), json!([condition]));
        }
        let known = &self.pod.nominated_node_name;
        let nominated = written.nominated.as_ref().unwrap_or(known).as_ref();
        match &self.nominated {
            NominationUpdate::Set(node) if nominated != Some(node) => {
                status.insert("nominatedNodeName".to_owned(), json!(node));
            }
            NominationUpdate::Clear if nominated.is_some() => {
                status.insert("nominatedNodeName".to_owned(), Value::Null);
            }
            _ => {}
        }
        (!status.is_empty()).then_some(Value::Object(status))
    }

    fn record_written(&self, written: &mut LastWrittenStatus) {
        written.condition = Some((self.reason.as_str(), self.message.clone()));
        match &self.nominated {
            NominationUpdate::Unchanged => {}
            NominationUpdate::Set(node) => written.nominated = Some(Some(node.clone())),
            NominationUpdate::Clear => written.nominated = Some(None),
        }
    }
}
