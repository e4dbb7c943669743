//! The task that looks after all simulated nodes.
//!
//! ```text
//!   watch on nodes ──► Nodes ──► work ──► requests, a few at a time ──► what came of them
//!   watch on pods  ──► Pods  ──►  ▲                                          │
//!   timers ──────────────────────►└──────────────────────────────────────────┘
//! ```

mod fleet;
mod notes;
mod pods;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::Error;
use rhumb_client::watching::events;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use self::fleet::{Nodes, Registered, Task};
use self::pods::Pods;
use crate::fleet::Fleet;
use crate::names::SIMULATED;
use crate::requests::Server;
use crate::timers::Timers;
use crate::wire;

/// Requests about nodes, and about pods, at the same time. Each has its own, so that many pods silence no node.
const NODE_JOBS_MAX: usize = 32;
const POD_JOBS_MAX: usize = 64;
const EVENT_JOBS_MAX: usize = 4;
/// Events that wait to be told; of more, some are not.
const EVENTS_MAX: usize = 1000;
/// Failures in a row of a node or a pod after which people are told: a server that starts again is back before.
const FAILURES_QUIET: u32 = 4;

/// Between a failure of everything and the next start.
const PAUSE: Duration = Duration::from_secs(1);

/// The uid of a pod.
type Uid = Arc<str>;

/// Something that a node is to do.
#[derive(Debug, Clone, Copy)]
struct Work {
    node: usize,
    task: Task,
    /// Which registration of the node it is for. What is left of an earlier one means nothing.
    epoch: u32,
}

/// A node of an earlier run that is too many.
#[derive(Debug)]
struct Surplus {
    name: String,
    uid: String,
    failures: u32,
}

impl Surplus {
    fn new(name: String, uid: String) -> Surplus {
        Surplus {
            name,
            uid,
            failures: 0,
        }
    }
}

/// What a timer is for.
#[derive(Debug)]
enum Due {
    Node(Work),
    Surplus(Surplus),
    /// Only if that is still when the pod's next state is due.
    Pod(Uid, Timestamp),
}

/// What a request came to.
enum Done {
    Node(Work, Result<Registered, Error>),
    Removed(Surplus, Result<(), Error>),
    Pod(Uid, Result<(), Error>),
    Told,
}

/// Everything that both halves need: what is to be done now, and later.
struct Desk {
    server: Server,
    timers: Timers<Due>,
    node_work: VecDeque<Work>,
    surplus: VecDeque<Surplus>,
    pod_work: VecDeque<Uid>,
    events: VecDeque<notes::Note>,
}

impl Desk {
    fn new(client: Client) -> Desk {
        Desk {
            server: Server::new(client),
            timers: Timers::new(),
            node_work: VecDeque::new(),
            surplus: VecDeque::new(),
            pod_work: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    fn remove_later(&mut self, mut node: Surplus, error: &Error) {
        node.failures = node.failures.saturating_add(1);
        if node.failures == FAILURES_QUIET + 1 {
            tracing::warn!(node = node.name, %error, "a simulated node is not removed; it is tried again");
        }
        let at = Instant::now() + pause(node.failures);
        self.timers.add(at, Due::Surplus(node));
    }
}

/// Looks after the nodes of a fleet until `stop`. It may be dropped at any await, and started again anywhere.
pub async fn run(client: Client, fleet: Fleet, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = keep(client.clone(), fleet.clone()) => {}
        }
        tracing::error!("simulated nodes failed, and are started again");
        sleep(PAUSE).await;
    }
}

/// Ends only when something is broken that nobody thought of.
async fn keep(client: Client, fleet: Fleet) {
    let nodes: Api<wire::Node> = Api::all(client.clone());
    let pods: Api<wire::Pod> = Api::all(client.clone());
    let of_nodes = Config::default().labels(&format!("{SIMULATED}=true"));
    let of_pods = Config::default().fields("spec.nodeName!=");
    let mut engine = Engine {
        nodes: Nodes::new(fleet),
        pods: Pods::default(),
        desk: Desk::new(client),
        jobs: JoinSet::new(),
        node_jobs: 0,
        pod_jobs: 0,
        event_jobs: 0,
    };
    let nodes = pin!(events(nodes, of_nodes));
    let pods = pin!(events(pods, of_pods));
    engine.keep(nodes, pods).await;
}

struct Engine {
    nodes: Nodes,
    pods: Pods,
    desk: Desk,
    jobs: JoinSet<Done>,
    node_jobs: usize,
    pod_jobs: usize,
    event_jobs: usize,
}

impl Engine {
    async fn keep(
        &mut self,
        mut nodes: impl Stream<Item = Event<wire::Node>> + Unpin,
        mut pods: impl Stream<Item = Event<wire::Pod>> + Unpin,
    ) {
        loop {
            self.begin_jobs();
            let next = self.desk.timers.next();
            let far = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                Some(done) = self.jobs.join_next() => {
                    // Of a job that panicked nobody knows what it was for.
                    let Ok(done) = done else { return };
                    self.done(done);
                }
                () = sleep_until(next.unwrap_or(far)) => self.due(),
                Some(event) = nodes.next() => self.nodes.note(event, &mut self.desk),
                Some(event) = pods.next() => {
                    self.pods.note(event, &mut self.nodes, &mut self.desk);
                }
                else => return,
            }
        }
    }

    fn due(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.desk.timers.take(now) {
            match due {
                Due::Node(work) => self.desk.node_work.push_back(work),
                Due::Surplus(node) => self.desk.surplus.push_back(node),
                Due::Pod(uid, at) => self.pods.due(&uid, at, &mut self.nodes, &mut self.desk),
            }
        }
    }

    fn begin_jobs(&mut self) {
        while self.node_jobs < NODE_JOBS_MAX
            && let Some(node) = self.desk.surplus.pop_front()
        {
            let server = self.desk.server.clone();
            self.node_jobs += 1;
            self.jobs.spawn(async move {
                let removed = fleet::remove(&server, &node).await;
                Done::Removed(node, removed)
            });
        }
        while self.node_jobs < NODE_JOBS_MAX
            && let Some(work) = self.desk.node_work.pop_front()
        {
            if let Some(job) = self.nodes.job(work, &self.desk.server) {
                self.node_jobs += 1;
                self.jobs.spawn(async move { Done::Node(work, job.await) });
            }
        }
        while self.pod_jobs < POD_JOBS_MAX
            && let Some(uid) = self.desk.pod_work.pop_front()
        {
            if let Some(job) = self.pods.job(&uid, &mut self.nodes, &mut self.desk) {
                self.pod_jobs += 1;
                self.jobs.spawn(async move { Done::Pod(uid, job.await) });
            }
        }
        while self.event_jobs < EVENT_JOBS_MAX
            && let Some(note) = self.desk.events.pop_front()
        {
            let server = self.desk.server.clone();
            self.event_jobs += 1;
            self.jobs.spawn(async move {
                note.tell(&server).await;
                Done::Told
            });
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Node(work, result) => {
                self.node_jobs -= 1;
                let held = self.nodes.done(work, result, &mut self.desk);
                self.pods.resume(held, &mut self.nodes, &mut self.desk);
            }
            Done::Removed(node, result) => {
                self.node_jobs -= 1;
                if let Err(error) = result {
                    self.desk.remove_later(node, &error);
                }
            }
            Done::Pod(uid, result) => {
                self.pod_jobs -= 1;
                self.pods
                    .done(&uid, result, &mut self.nodes, &mut self.desk);
            }
            Done::Told => self.event_jobs -= 1,
        }
    }
}

/// Between a failure and the next attempt: longer and longer.
fn pause(failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures.min(10));
    Duration::from_millis(100)
        .saturating_mul(factor)
        .min(Duration::from_secs(10))
}
