//! What was decided is told to the server, and what the server says to the thread that decides.

use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::in_flight::InFlight;
use super::lanes::{Lanes, Turn, Written};
use super::mailbox::Mailbox;
use super::requests::{Bound, Current, Failure, Server, now};
use super::telling::{Tale, Teller};
use crate::engine::{Change, Nominated, Outcome, Reason};
use crate::metrics::{Attempt, Metrics};
use crate::model::Pod;

/// What is written beside bindings leaves them the most of the server.
const WRITES_AT_ONCE_MAX: usize = 32;
/// As upstream: for each pod that needs room.
const EVICTIONS_AT_ONCE_MAX: usize = 16;
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
        }
    }

    /// Each decision is a task of its own. They end with whoever has this one.
    pub(super) async fn run(self: Arc<Self>, mut decided: mpsc::UnboundedReceiver<Decided>) {
        let mut work = JoinSet::new();
        while let Some(decided) = decided.recv().await {
            while work.try_join_next().is_some() {}
            self.begin(decided, &mut work);
        }
    }

    /// Turns are taken here: tasks begin in any order.
    fn begin(self: &Arc<Self>, Decided { outcome, begun }: Decided, work: &mut JoinSet<()>) {
        let writer = self.clone();
        match outcome {
            Outcome::Bind {
                pod,
                node,
                attempts,
                waited,
                tried_for,
                ..
            } => {
                let turn = self.lanes.overtake(&pod.uid);
                work.spawn(async move {
                    if writer.bind(&pod, node, begun, turn).await {
                        let more = begun.elapsed();
                        let (waited, tried_for) = (waited + more, tried_for + more);
                        writer.metrics.note_bound(attempts, waited, tried_for);
                    }
                });
            }
            Outcome::Pending {
                pod,
                reason,
                message,
                nominated,
                victims,
                ..
            } => {
                let turn = self.lanes.enter(&pod.uid);
                let waits = Waits {
                    pod: pod.clone(),
                    reason,
                    message,
                    nominated,
                };
                work.spawn(async move {
                    writer.say_why(waits, &turn).await;
                    writer.make_room(&pod, victims).await;
                    writer.end_write();
                });
            }
            Outcome::Displaced { pod } => {
                let turn = self.lanes.enter(&pod.uid);
                work.spawn(async move {
                    writer.take_back(&pod, &turn).await;
                    writer.end_write();
                });
            }
        }
    }

    fn end_write(&self) {
        self.in_flight.end_write();
        self.mailbox.wake();
    }

    /// Whether it is bound.
    async fn bind(
        &self,
        pod: &Arc<Pod>,
        node: Box<str>,
        begun: Instant,
        turn: Option<Turn>,
    ) -> bool {
        let bound = match turn {
            // What is being written about it comes first, and makes another version of it.
            Some(turn) => {
                let written = turn.written().await;
                let version = written.version(&pod.resource_version);
                self.ask(pod, version, &node).await
            }
            None => self.ask(pod, &pod.resource_version, &node).await,
        };
        let uid = pod.uid.clone();
        let (change, attempt) = match &bound {
            Bound::Yes => (Change::Bound { uid }, Some(Attempt::Scheduled)),
            Bound::No(problem) => {
                tracing::info!(pod = %pod.key, %node, problem, "not bound; it is tried again");
                (Change::NotBound { uid }, Some(Attempt::Error))
            }
            Bound::Refused(problem) => {
                tracing::warn!(pod = %pod.key, %node, problem, "not bound; it is tried again");
                let problem = format!("running Bind plugin \"DefaultBinder\": {problem}");
                // It counts when the engine says what came of it.
                (Change::BindingRefused { uid, problem }, None)
            }
            Bound::Unknown(_) | Bound::NotLeading => return false,
        };
        self.mailbox.answer(change);
        if let Some(attempt) = attempt {
            self.metrics
                .note_attempt(&pod.scheduler_name, attempt, begun.elapsed());
        }
        if bound == Bound::Yes {
            self.lanes.forget(&pod.uid);
            self.teller.tell(Tale::Scheduled {
                pod: pod.clone(),
                node,
            });
        }
        bound == Bound::Yes
    }

    /// Asks for a binding, and finds out what became of it, whatever that takes.
    async fn ask(&self, pod: &Pod, version: &str, node: &str) -> Bound {
        match self.server.bind(pod, version, node).await {
            Bound::Unknown(problem) => {
                self.in_flight.begin_settling();
                // There may be room for another.
                self.mailbox.wake();
                let bound = self.server.settle(pod, version, node, problem).await;
                self.in_flight.end_settling();
                bound
            }
            bound => {
                self.in_flight.end_binding();
                bound
            }
        }
    }

    /// Writes why a pod waits, unless it says so already.
    async fn say_why(&self, waits: Waits, turn: &Turn) {
        let Ok(_permit) = self.writes.acquire().await else {
            return;
        };
        let mut written = turn.written().await;
        if turn.is_outdated() {
            return;
        }
        let Some(status) = waits.status(&written) else {
            if written.is_empty() {
                self.lanes.leave(&waits.pod.uid, turn);
            }
            return;
        };
        match self.write_status(&waits.pod, &mut written, status).await {
            Ok(true) => {
                waits.note(&mut written);
                self.tell_why(&waits);
            }
            Ok(false) => self.lanes.leave(&waits.pod.uid, turn),
            Err(failure) => {
                tracing::info!(pod = %waits.pod.key, %failure, "why it waits cannot be written");
            }
        }
    }

    fn tell_why(&self, waits: &Waits) {
        self.teller.tell(Tale::Failed {
            pod: waits.pod.clone(),
            message: waits.message.clone(),
        });
    }

    /// On the version that is known, or on the one that it has by now. A pod that has a node, or is no more, is left
    /// alone: then it is `false`.
    async fn write_status(
        &self,
        pod: &Pod,
        written: &mut Written,
        status: Value,
    ) -> Result<bool, Failure> {
        let mut version = written.version(&pod.resource_version).to_owned();
        let mut attempts = 1;
        loop {
            let patch = json!({
                "metadata": {"uid": pod.uid, "resourceVersion": version},
                "status": status,
            });
            match self.server.patch_status(&pod.key, &patch).await {
                Ok(now) => {
                    // Otherwise somebody else's change is among those that the watch has still to tell.
                    if attempts == 1 {
                        written.became(&pod.resource_version, now.version);
                    }
                    return Ok(true);
                }
                Err(failure) if failure.is_not_found() => return Ok(false),
                Err(failure) if failure.is_conflict() && attempts < ATTEMPTS_MAX => {}
                Err(failure) => return Err(failure),
            }
            let current = self.server.look(&pod.key).await?;
            let is_ours =
                |now: &Current| now.uid == *pod.uid && now.node.is_empty() && !now.is_terminating;
            match current.filter(is_ours) {
                Some(current) => version = current.version,
                None => return Ok(false),
            }
            attempts += 1;
        }
    }

    /// Takes others away for a pod. If one of them cannot be, the pod is tried again.
    async fn make_room(&self, pod: &Arc<Pod>, victims: Vec<Arc<Pod>>) {
        let evicted: Vec<bool> = stream::iter(victims)
            .map(|victim| self.evict(victim, pod))
            .buffer_unordered(EVICTIONS_AT_ONCE_MAX)
            .collect()
            .await;
        if evicted.contains(&false) {
            let uid = pod.uid.clone();
            self.mailbox.answer(Change::NotEvicted { uid });
        }
    }

    /// Whether it is gone, or goes.
    async fn evict(&self, victim: Arc<Pod>, by: &Arc<Pod>) -> bool {
        let Ok(_permit) = self.writes.acquire().await else {
            return false;
        };
        match self.server.evict(&victim, &by.scheduler_name).await {
            Ok(()) => {
                let by = by.clone();
                self.teller.tell(Tale::Preempted { victim, by });
                true
            }
            Err(failure) => {
                tracing::warn!(pod = %victim.key, %failure, "it cannot be preempted");
                false
            }
        }
    }

    /// The place that was kept for a pod is another's now.
    async fn take_back(&self, pod: &Pod, turn: &Turn) {
        let Ok(_permit) = self.writes.acquire().await else {
            return;
        };
        let mut written = turn.written().await;
        if turn.is_outdated() {
            return;
        }
        let status = json!({"nominatedNodeName": null});
        match self.write_status(pod, &mut written, status).await {
            Ok(true) => written.nominated = Some(None),
            Ok(false) => self.lanes.leave(&pod.uid, turn),
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
        let shown = self.pod.not_scheduled.as_deref();
        let said = match &written.condition {
            Some((reason, message)) => Some((*reason, message.as_str())),
            None => shown.map(|shown| (&*shown.reason, &*shown.message)),
        };
        if said != Some((self.reason.as_str(), self.message.as_str())) {
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
            // It was not scheduled before either.
            if said.is_none() {
                condition["lastTransitionTime"] = Value::String(now());
            }
            status.insert("conditions".to_owned(), json!([condition]));
        }
        let shown = &self.pod.nominated_node_name;
        let nominated = written.nominated.as_ref().unwrap_or(shown).as_ref();
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
        written.condition = Some((self.reason.as_str(), self.message.clone()));
        match &self.nominated {
            Nominated::Unchanged => {}
            Nominated::Node(node) => written.nominated = Some(Some(node.clone())),
            Nominated::Nowhere => written.nominated = Some(None),
        }
    }
}
