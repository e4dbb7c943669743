//! Runs the scheduler against an API server while this process holds the leader lease: watch events go to the
//! scheduling thread, its outcomes are written to the server. Entry point: [`run`].
//!
//! ```text
//!  watches ──► inbox ──► scheduling loop (one thread) ──► outcome writer (one task per outcome) ──► bindings, statuses
//!                ▲                                            │
//!                └───────────── binding results ──────────────┘──► event recorder (low priority)
//! ```

mod decode;
mod event_recorder;
mod event_series;
mod fence;
mod health;
mod in_flight;
mod inbox;
mod leader_client;
mod outcome_writer;
mod recorded_event;
mod scheduling_loop;
mod status_writes;
#[cfg(test)]
mod tests;
mod watches;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use rhumb_client::leader::{
    LeaderElectionConfig, LeaderElector, LeadershipDeadline, LeadershipLoss, LeadershipTerm,
    PreviousHolder,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub use health::SchedulerHealth;

use self::scheduling_loop::SchedulingLoop;
use crate::engine::{PendingPodCounts, SchedulerCore, SchedulerEvent};
use crate::metrics::Metrics;
use crate::model::Pod;
use event_recorder::SchedulingEventRecorder;
use in_flight::InFlightWrites;
use inbox::SchedulerInbox;
use leader_client::LeaderClient;
use outcome_writer::OutcomeWriter;
use status_writes::PodStatusWrites;

/// Delay before a restart after a failure.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// How long to wait for in-flight writes at shutdown.
const DRAIN_MAX: Duration = Duration::from_secs(5);
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What [`run`] needs.
#[derive(Clone)]
pub struct RunOptions {
    /// `None` schedules without leader election.
    pub election: Option<LeaderElectionConfig>,
    /// The `schedulerName`s of all profiles.
    pub scheduler_names: HashSet<Box<str>>,
    /// Names this process in events, after the name of the scheduler.
    pub host_name: Box<str>,
    /// Creates an empty scheduler core, once per leadership term.
    pub engine: Arc<dyn Fn() -> SchedulerCore + Send + Sync>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<SchedulerHealth>,
}

impl fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunOptions")
            .field("election", &self.election)
            .field("scheduler_names", &self.scheduler_names)
            .finish_non_exhaustive()
    }
}

/// Schedules whenever this process is leader, until `stop`. The lease is then released, so that another process can
/// take over at once, but only if no write of this process is in flight any more.
pub async fn run(client: Client, options: RunOptions, stop: CancellationToken) {
    let elector = options
        .election
        .clone()
        .map(|election| LeaderElector::new(client.clone(), election));
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return,
            term = acquire_lease(elector.as_ref()) => term,
        };
        tracing::info!("acquired the scheduler lease; scheduling starts");
        let served = tokio::select! {
            end = schedule_while_leading(&client, &options, &term, &stop) => end,
            lost = renew_lease(elector.as_ref(), &term.deadline) => LeadershipEnd::LeaseLost(lost),
        };
        match served {
            LeadershipEnd::Stopped { is_all_settled } => {
                if let Some(elector) = elector.filter(|_| is_all_settled) {
                    elector.release().await;
                }
                return;
            }
            LeadershipEnd::LeaseLost(LeadershipLoss::HeldByOther) => {
                tracing::warn!("lost the scheduler lease to another process; scheduling stops");
            }
            LeadershipEnd::LeaseLost(LeadershipLoss::RenewDeadline) => {
                tracing::warn!("failed to renew the scheduler lease in time; scheduling stops");
            }
            LeadershipEnd::Failed => {
                tracing::error!("scheduler failed; restarting");
                sleep(RESTART_DELAY).await;
            }
        }
    }
}

/// How a leadership term ended.
enum LeadershipEnd {
    /// Shutdown was requested.
    Stopped {
        /// No write is in flight any more.
        is_all_settled: bool,
    },
    LeaseLost(LeadershipLoss),
    Failed,
}

async fn acquire_lease(elector: Option<&LeaderElector>) -> LeadershipTerm {
    match elector {
        Some(elector) => elector.acquire().await,
        // Without a lease the previous leader is unknown.
        None => LeadershipTerm {
            deadline: LeadershipDeadline::without_lease(),
            previous_holder: PreviousHolder::OtherOrUnknown,
        },
    }
}

async fn renew_lease(
    elector: Option<&LeaderElector>,
    deadline: &LeadershipDeadline,
) -> LeadershipLoss {
    match elector {
        Some(elector) => elector.renew_until_lost(deadline).await,
        None => std::future::pending().await,
    }
}

async fn schedule_while_leading(
    client: &Client,
    options: &RunOptions,
    term: &LeadershipTerm,
    stop: &CancellationToken,
) -> LeadershipEnd {
    let server = LeaderClient::new(client.clone(), term.deadline.clone());
    let _leading = options.health.begin_startup();
    let mut held = Vec::new();
    if term.previous_holder != PreviousHolder::Released {
        let fenced = tokio::select! {
            () = stop.cancelled() => return LeadershipEnd::Stopped { is_all_settled: false },
            fenced = fence::fence_pending_pods(&server, &options.scheduler_names) => fenced,
        };
        held = match fenced {
            Some(held) => held,
            // The lease was lost: the renewal future ends this term.
            None => return std::future::pending().await,
        };
    }
    let mut running = match RunningScheduler::start(client, server, options, held) {
        Ok(running) => running,
        Err(error) => {
            tracing::error!(%error, "failed to start the scheduling thread");
            return LeadershipEnd::Failed;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        _ = &mut running.thread_exited => return LeadershipEnd::Failed,
    }
    LeadershipEnd::Stopped {
        is_all_settled: running.drain().await,
    }
}

/// The threads and tasks of a leadership term. Dropping it stops them.
struct RunningScheduler {
    inbox: Arc<SchedulerInbox>,
    in_flight: Arc<InFlightWrites>,
    /// Completes when the scheduling thread exits.
    thread_exited: oneshot::Receiver<()>,
    _work: JoinSet<()>,
}

impl RunningScheduler {
    fn start(
        client: &Client,
        server: LeaderClient,
        options: &RunOptions,
        held: Vec<Pod>,
    ) -> std::io::Result<RunningScheduler> {
        let inbox = Arc::new(SchedulerInbox::new(watches::LIST_COUNT));
        let uids = held.iter().map(|pod| pod.uid.clone());
        inbox.send_result(SchedulerEvent::HoldPods(uids.collect()));
        let in_flight = Arc::<InFlightWrites>::default();
        let status_writes = Arc::<PodStatusWrites>::default();
        let metrics = options.metrics.clone();
        let (outcomes, to_write) = mpsc::unbounded_channel();
        let (exit_guard, thread_exited) = oneshot::channel();
        let make_engine = options.engine.clone();
        let health = options.health.clone();
        let parts = (inbox.clone(), in_flight.clone(), metrics.clone());
        std::thread::Builder::new()
            .name("scheduler".to_owned())
            .spawn(move || {
                let (inbox, in_flight, metrics) = parts;
                SchedulingLoop {
                    engine: make_engine(),
                    inbox,
                    outcomes,
                    in_flight,
                    metrics: metrics.clone(),
                    health,
                }
                .run();
                // The pods are now pending in the next leader's queues.
                metrics.note_pending(&PendingPodCounts::default());
                // A panic drops it as well.
                drop(exit_guard);
            })?;
        let event_recorder = SchedulingEventRecorder::start(
            server.clone(),
            options.host_name.clone(),
            in_flight.clone(),
            metrics.clone(),
        );
        let writer = OutcomeWriter::new(
            server.clone(),
            inbox.clone(),
            status_writes.clone(),
            in_flight.clone(),
            metrics,
            event_recorder,
        );
        let mut work = JoinSet::new();
        work.spawn(fence::retry_fencing(server, inbox.clone(), held));
        work.spawn(Arc::new(writer).run(to_write));
        watches::spawn_watches(client, &inbox, &status_writes, &mut work);
        Ok(RunningScheduler {
            inbox,
            in_flight,
            thread_exited,
            _work: work,
        })
    }

    /// Stops scheduling and waits for in-flight writes. True if all of them finished.
    async fn drain(&self) -> bool {
        self.inbox.stop_scheduling();
        let settled = async {
            while !(self.inbox.has_stopped() && self.in_flight.is_idle()) {
                sleep(DRAIN_POLL_INTERVAL).await;
            }
        };
        timeout(DRAIN_MAX, settled).await.is_ok()
    }
}

impl Drop for RunningScheduler {
    fn drop(&mut self) {
        self.inbox.close();
    }
}
