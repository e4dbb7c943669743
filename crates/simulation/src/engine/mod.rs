//! The task that drives all simulated nodes and pods. Entry point: [`run`].
//!
//! ```text
//!   watch on nodes ──► nodes ──► queues ──► requests, limited concurrency ──► results
//!   watch on pods  ──► pods  ──►   ▲                                             │
//!   timers ───────────────────────►└─────────────────────────────────────────────┘
//! ```

mod pod_events;
mod simulated_nodes;
mod simulated_pods;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use rhumb_client::Error;
use rhumb_client::informer::{self, Event};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use self::simulated_nodes::{NodeKey, NodeRequest, NodeRequestOutcome, SimulatedNodes};
use self::simulated_pods::SimulatedPods;
use crate::api_client::ApiClient;
use crate::delay_queue::DelayQueue;
use crate::names::SIMULATED;
use crate::node_pools::NodePools;
use crate::partial_objects;

/// Concurrent requests about nodes and about pods. The limits are separate, so that many pods cannot delay heartbeats.
const NODE_JOBS_MAX: usize = 32;
const POD_JOBS_MAX: usize = 64;
const EVENT_JOBS_MAX: usize = 4;
/// Maximum number of queued events; further ones are dropped.
const EVENTS_MAX: usize = 1000;
/// Consecutive failures of a node or pod before a warning is logged; a restart of the server causes fewer.
const FAILURES_QUIET: u32 = 4;

/// Delay before the engine is restarted after a failure.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The uid of a pod.
type PodUid = Arc<str>;

/// A queued task of a node.
#[derive(Debug, Clone, Copy)]
struct NodeWork {
    node: usize,
    task: NodeRequest,
    /// The registration of the node that it belongs to; tasks of earlier registrations are dropped.
    epoch: u32,
}

/// A simulated node of an earlier run that is no longer wanted.
#[derive(Debug)]
struct SurplusNode {
    name: String,
    uid: String,
    failures: u32,
}

impl SurplusNode {
    fn new(name: String, uid: String) -> SurplusNode {
        SurplusNode {
            name,
            uid,
            failures: 0,
        }
    }
}

/// What to do when a timer fires.
#[derive(Debug)]
enum DelayedWork {
    Node(NodeWork),
    Surplus(SurplusNode),
    /// Valid only if the pod's timer still has this deadline.
    Pod(PodUid, Timestamp),
}

/// Result of a finished request.
enum RequestResult {
    Node(NodeWork, Result<NodeRequestOutcome, Error>),
    Removed(SurplusNode, Result<(), Error>),
    Pod(PodUid, Result<(), Error>),
    EventCreated,
}

/// Work queues and timers shared by nodes and pods.
struct WorkQueues {
    server: ApiClient,
    timers: DelayQueue<DelayedWork>,
    node_work: VecDeque<NodeWork>,
    surplus: VecDeque<SurplusNode>,
    pod_work: VecDeque<PodUid>,
    events: VecDeque<pod_events::InvalidAnnotationEvent>,
}

impl WorkQueues {
    fn new(client: Client) -> WorkQueues {
        WorkQueues {
            server: ApiClient::new(client),
            timers: DelayQueue::new(),
            node_work: VecDeque::new(),
            surplus: VecDeque::new(),
            pod_work: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn remove_later(&mut self, mut node: SurplusNode, error: &Error) {
        node.failures = node.failures.saturating_add(1);
        if node.failures == FAILURES_QUIET + 1 {
            tracing::warn!(node = node.name, %error, "failed to remove surplus simulated node; retrying");
        }
        let at = Instant::now() + pause(node.failures);
        self.timers.add(at, DelayedWork::Surplus(node));
    }
}

/// Simulates the nodes of these pools until `stop`. Safe to drop at any await point and to restart in another process.
pub async fn run(client: Client, node_pools: NodePools, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = run_until_failure(client.clone(), node_pools.clone()) => {}
        }
        tracing::error!("simulation engine failed; restarting in 1s");
        sleep(RESTART_DELAY).await;
    }
}

/// Returns only on an unexpected failure: a request task panicked or a watch ended.
async fn run_until_failure(client: Client, node_pools: NodePools) {
    let nodes: Api<partial_objects::Node> = Api::all(client.clone());
    let pods: Api<partial_objects::Pod> = Api::all(client.clone());
    let of_nodes = Config::default().labels(&format!("{SIMULATED}=true"));
    let of_pods = Config::default().fields("spec.nodeName!=");
    let mut engine = SimulationEngine {
        nodes: SimulatedNodes::new(node_pools),
        pods: SimulatedPods::default(),
        queues: WorkQueues::new(client),
        jobs: JoinSet::new(),
        node_jobs: 0,
        pod_jobs: 0,
        event_jobs: 0,
    };
    let nodes = pin!(informer::events(nodes, of_nodes, NodeKey::of));
    let pods = pin!(informer::events(pods, of_pods, simulated_pods::uid_of));
    engine.run(nodes, pods).await;
}

struct SimulationEngine {
    nodes: SimulatedNodes,
    pods: SimulatedPods,
    queues: WorkQueues,
    jobs: JoinSet<RequestResult>,
    node_jobs: usize,
    pod_jobs: usize,
    event_jobs: usize,
}

impl SimulationEngine {
    async fn run(
        &mut self,
        mut nodes: impl Stream<Item = Event<partial_objects::Node, NodeKey>> + Unpin,
        mut pods: impl Stream<Item = Event<partial_objects::Pod, PodUid>> + Unpin,
    ) {
        loop {
            self.begin_jobs();
            let next = self.queues.timers.next();
            let far = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                Some(done) = self.jobs.join_next() => {
                    // The task panicked: it is unknown what it was for, so restart the engine.
                    let Ok(done) = done else { return };
                    self.on_request_done(done);
                }
                () = sleep_until(next.unwrap_or(far)) => self.enqueue_due_work(),
                Some(event) = nodes.next() => self.nodes.note(event, &mut self.queues),
                Some(event) = pods.next() => {
                    self.pods.note(event, &mut self.nodes, &mut self.queues);
                }
                else => return,
            }
        }
    }

    fn enqueue_due_work(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.queues.timers.take(now) {
            match due {
                DelayedWork::Node(work) => self.queues.node_work.push_back(work),
                DelayedWork::Surplus(node) => self.queues.surplus.push_back(node),
                DelayedWork::Pod(uid, at) => {
                    self.pods
                        .on_timer(&uid, at, &mut self.nodes, &mut self.queues);
                }
            }
        }
    }

    fn begin_jobs(&mut self) {
        while self.node_jobs < NODE_JOBS_MAX
            && let Some(node) = self.queues.surplus.pop_front()
        {
            let server = self.queues.server.clone();
            self.node_jobs += 1;
            self.jobs.spawn(async move {
                let removed = simulated_nodes::remove(&server, &node).await;
                RequestResult::Removed(node, removed)
            });
        }
        while self.node_jobs < NODE_JOBS_MAX
            && let Some(work) = self.queues.node_work.pop_front()
        {
            if let Some(job) = self.nodes.job(work, &self.queues.server) {
                self.node_jobs += 1;
                self.jobs
                    .spawn(async move { RequestResult::Node(work, job.await) });
            }
        }
        while self.pod_jobs < POD_JOBS_MAX
            && let Some(uid) = self.queues.pod_work.pop_front()
        {
            if let Some(job) = self.pods.job(&uid, &mut self.nodes, &mut self.queues) {
                self.pod_jobs += 1;
                self.jobs
                    .spawn(async move { RequestResult::Pod(uid, job.await) });
            }
        }
        while self.event_jobs < EVENT_JOBS_MAX
            && let Some(event) = self.queues.events.pop_front()
        {
            let server = self.queues.server.clone();
            self.event_jobs += 1;
            self.jobs.spawn(async move {
                event.create(&server).await;
                RequestResult::EventCreated
            });
        }
    }

    fn on_request_done(&mut self, result: RequestResult) {
        match result {
            RequestResult::Node(work, result) => {
                self.node_jobs -= 1;
                let waiting_pods = self.nodes.on_task_done(work, result, &mut self.queues);
                self.pods
                    .resume(waiting_pods, &mut self.nodes, &mut self.queues);
            }
            RequestResult::Removed(node, result) => {
                self.node_jobs -= 1;
                if let Err(error) = result {
                    self.queues.remove_later(node, &error);
                }
            }
            RequestResult::Pod(uid, result) => {
                self.pod_jobs -= 1;
                self.pods
                    .on_status_patched(&uid, result, &mut self.nodes, &mut self.queues);
            }
            RequestResult::EventCreated => self.event_jobs -= 1,
        }
    }
}

/// Exponential backoff after a number of consecutive failures.
fn pause(failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.min(10));
    Duration::from_millis(100)
        .saturating_mul(factor)
        .min(Duration::from_secs(10))
}
