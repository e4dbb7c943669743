//! What was decided is told to the server, and what the server says to the thread that decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::in_flight::InFlight;
use super::lanes::{Lanes, Written};
use super::mailbox::Mailbox;
use super::requests::{Bound, Current, Failure, Server, now};
use super::telling::{Tale, Teller};
use crate::engine::{Change, Nominated, Outcome, Reason};
use crate::metrics::{Attempt, Metrics};
use crate::model::Pod;

/// What is written beside bindings leaves them the most of the server.
const WRITES_AT_ONCE_MAX: usize = 32;
/// How often a status is written again that somebody else wrote at the same time.
const ATTEMPTS_MAX: usize = 3;

/// What was decided, and when that began.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) outcome: Outcome,
    pub(super) begun: Instant,
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) server: Server,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) lanes: Arc<Lanes>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) teller: Teller,
    pub(super) writes: Semaphore,
    pub(super) numbers: AtomicU64,
}

/// What a pod that waits is to say.
#[derive(Debug)]
struct Waits {
    pod: Arc<Pod>,
    reason: Reason,
    message: String,
    nominated: Nominated,
}

impl Writer {
    pub(super) fn new(
        server: Server,
        mailbox: Arc<Mailbox>,
        lanes: Arc<Lanes>,
        in_flight: Arc<InFlight>,
        metrics: Arc<Metrics>,
        teller: Teller,
    ) -> Writer {
        Writer {
            server,
            mailbox,
            lanes,
            in_flight,
            metrics,
            teller,
            writes: Semaphore::new(WRITES_AT_ONCE_MAX),
            numbers: AtomicU64::new(0),
        }
    }

    /// Each decision is a task of its own. They end with whoever has this one.
    pub(super) async fn run(self: Arc<Self>, mut decided: mpsc::UnboundedReceiver<Decided>) {
        let mut work = JoinSet::new();
        while let Some(Decided { outcome, begun }) = decided.recv().await {
            while work.try_join_next().is_some() {}
            let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
            let writer = self.clone();
            work.spawn(async move { writer.write(outcome, begun, number).await });
        }
    }

    async fn write(&self, outcome: Outcome, begun: Instant, number: u64) {
        match outcome {
            Outcome::Bind {
                pod,
                node,
                attempts,
                waited,
                ..
            } => {
                if self.bind(&pod, node, begun).await {
                    self.metrics.note_bound(attempts, waited + begun.elapsed());
                }
            }
            Outcome::Pending {
                pod,
                reason,
                message,
                nominated,
                victims,
                ..
            } => {
                let waits = Waits {
                    pod: pod.clone(),
                    reason,
                    message,
                    nominated,
                };
                self.say_why(waits, number).await;
                self.make_room(&pod, &victims).await;
                self.end_write();
            }
            Outcome::Displaced { pod } => {
                self.take_back(&pod, number).await;
                self.end_write();
            }
        }
    }

    fn end_write(&self) {
        self.in_flight.end_write();
        self.mailbox.wake();
    }

    /// Whether it is bound.
    async fn bind(&self, pod: &Arc<Pod>, node: Box<str>, begun: Instant) -> bool {
        let bound = match self.lanes.find(&pod.uid) {
            // What is being written about it comes first, and makes another version of it.
            Some(lane) => {
                let written = lane.written.lock().await;
                let version = written.version(&pod.resource_version);
                self.server.bind(pod, version, &node).await
            }
            None => self.server.bind(pod, &pod.resource_version, &node).await,
        };
        self.in_flight.end_binding();
        let uid = pod.uid.clone();
        let (change, attempt) = match &bound {
            Bound::Yes => (Change::Bound { uid }, Attempt::Scheduled),
            Bound::No(problem) => {
                tracing::info!(pod = %pod.key, %node, problem, "not bound; it is tried again");
                (Change::NotBound { uid }, Attempt::Error)
            }
            Bound::NotLeading => return false,
        };
        self.mailbox.answer(change);
        self.metrics
            .note_attempt(&pod.scheduler_name, attempt, begun.elapsed());
        if bound == Bound::Yes {
            self.lanes.forget(&pod.uid);
            self.teller.tell(Tale::Scheduled {
                pod: pod.clone(),
                node,
            });
        }
        bound == Bound::Yes
    }

    /// Writes why a pod waits, unless it says so already.
    async fn say_why(&self, waits: Waits, number: u64) {
        let lane = self.lanes.enter(&waits.pod.uid, number);
        let Ok(_permit) = self.writes.acquire().await else {
            return;
        };
        let mut written = lane.written.lock().await;
        if lane.is_outdated(number) {
            return;
        }
        if written.condition.is_none() {
            // The server says of some pods itself why they wait, and one that led before may have said it.
            let seen = self.server.look(&waits.pod.key).await;
            let seen = seen.ok().flatten().filter(|now| now.uid == *waits.pod.uid);
            written.condition = seen.and_then(|now| now.waits);
        }
        let Some(status) = waits.status(&written) else {
            return;
        };
        match self.write_status(&waits.pod, &mut written, status).await {
            Ok(()) => {
                waits.note(&mut written);
                self.tell_why(&waits);
            }
            // What is gone says nothing any more.
            Err(failure) if failure.is_not_found() => self.lanes.forget(&waits.pod.uid),
            Err(failure) => {
                tracing::info!(pod = %waits.pod.key, %failure, "why it waits cannot be written");
            }
        }
    }

    fn tell_why(&self, waits: &Waits) {
        // Who has gates knows why.
        if waits.reason != Reason::SchedulingGated {
            self.teller.tell(Tale::Failed {
                pod: waits.pod.clone(),
                message: waits.message.clone(),
            });
        }
    }

    /// On the version that is known, or on the one that it has by now: a pod that has a node is left alone.
    async fn write_status(
        &self,
        pod: &Pod,
        written: &mut Written,
        status: Value,
    ) -> Result<(), Failure> {
        let patch = |version: &str| {
            json!({
                "metadata": {"uid": pod.uid, "resourceVersion": version},
                "status": status,
            })
        };
        let known = written.version(&pod.resource_version).to_owned();
        let mut result = self.server.patch_status(&pod.key, &patch(&known)).await;
        if let Ok(Current { version, .. }) = result {
            written.became(&pod.resource_version, version);
            return Ok(());
        }
        for _ in 1..ATTEMPTS_MAX {
            match result {
                Err(failure) if failure.is_conflict() => {}
                other => return other.map(drop),
            }
            let current = self.server.look(&pod.key).await?;
            let is_ours =
                |now: &Current| now.uid == *pod.uid && now.node.is_empty() && !now.is_terminating;
            let Some(current) = current.filter(is_ours) else {
                return Ok(());
            };
            result = self
                .server
                .patch_status(&pod.key, &patch(&current.version))
                .await;
        }
        result.map(drop)
    }

    /// Takes others away for a pod. If one of them cannot be, the pod is tried again.
    async fn make_room(&self, pod: &Arc<Pod>, victims: &[Arc<Pod>]) {
        let mut failed = false;
        for victim in victims {
            match self.server.evict(victim, &pod.scheduler_name).await {
                Ok(()) => self.teller.tell(Tale::Preempted {
                    victim: victim.clone(),
                    by: pod.clone(),
                }),
                Err(Failure::NotLeading) => return,
                Err(failure) => {
                    tracing::warn!(pod = %victim.key, %failure, "it cannot be preempted");
                    failed = true;
                }
            }
        }
        if failed {
            let uid = pod.uid.clone();
            self.mailbox.answer(Change::NotEvicted { uid });
        }
    }

    /// The place that was kept for a pod is another's now.
    async fn take_back(&self, pod: &Pod, number: u64) {
        let lane = self.lanes.enter(&pod.uid, number);
        let mut written = lane.written.lock().await;
        if lane.is_outdated(number) {
            return;
        }
        let status = json!({"nominatedNodeName": null});
        match self.write_status(pod, &mut written, status).await {
            Ok(()) => written.nominated = None,
            Err(failure) => {
                tracing::info!(pod = %pod.key, %failure, "its nomination cannot be taken back");
            }
        }
    }
}

impl Waits {
    /// What is to be written; `None` if all of it is there.
    fn status(&self, written: &Written) -> Option<Value> {
        let mut status = Map::new();
        let is_same = matches!(&written.condition, Some((reason, message))
            if reason == self.reason.as_str() && *message == self.message);
        if !is_same {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": self.reason.as_str(),
                "message": self.message,
                "lastProbeTime": null,
            });
            if written.condition.is_none() {
                condition["lastTransitionTime"] = Value::String(now());
            }
            status.insert("conditions".to_owned(), json!([condition]));
        }
        let nominated = written.nominated.as_ref();
        let nominated = nominated.or(self.pod.nominated_node_name.as_ref());
        match &self.nominated {
            Nominated::Node(node) if nominated != Some(node) => {
                status.insert("nominatedNodeName".to_owned(), json!(node));
            }
            Nominated::Nowhere if nominated.is_some() => {
                status.insert("nominatedNodeName".to_owned(), Value::Null);
            }
            _ => {}
        }
        (!status.is_empty()).then_some(Value::Object(status))
    }

    fn note(&self, written: &mut Written) {
        written.condition = Some((self.reason.as_str().to_owned(), self.message.clone()));
        match &self.nominated {
            Nominated::Unchanged => {}
            Nominated::Node(node) => written.nominated = Some(node.clone()),
            Nominated::Nowhere => written.nominated = None,
        }
    }
}
