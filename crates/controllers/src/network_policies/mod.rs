//! What became of network policies: their status says whether they are supported, in force, and of any effect.
//!
//! ```text
//!   reports ──► agents ──────────┐
//!   nodes   ──►                  ├──► which policies ──► queue ──► look: conditions ──► one write, if any changed
//!   policies, namespaces, pods ──► engine ──┘
//! ```
//!
//! Agents report what they have applied, one object a node; here it becomes one status a policy. A policy is written at
//! most once a second, and only what changed; the first time when agents had a moment to report. What agents report of
//! other nodes than there are is deleted; what they reported before their node was started anew counts for nothing.
//!
//! Where nobody can report, as the kind is not served, nothing else is watched; where there are no policies, pods are
//! not.

mod agents;
mod conditions;
mod node;
mod standing;
mod state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::error::found;
use rhumb_client::watching::watch;
use rhumb_netpol::report::NetworkPolicyNode;
use rhumb_netpol::{Name, Namespace, NetworkPolicy, Pod};
use tokio::sync::watch::{self as signal};
use tokio::task::coop;
use tokio::time::Instant;

use self::node::Node;
use self::state::{Due, Key, Look, State};
use crate::queue::{Done, Queue};
use crate::{Context, Error};

/// Policies that are written at the same time.
const WORKERS: usize = 8;

/// How much there is to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Reports,
    Policies,
    Pods,
}

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let shared = Arc::new(Shared {
        client: context.client,
        state: Mutex::new(State::new(context.options.node_quarantine)),
        queue: Queue::new(),
        has_complained: AtomicBool::new(false),
    });
    let (stage, _) = signal::channel(Stage::Reports);
    let reports: Api<NetworkPolicyNode> = Api::all(context.reader.clone());
    let reports = watch(reports, Config::default(), |event| {
        if matches!(event, Event::InitDone) {
            raise(&stage, Stage::Policies);
        }
        shared.add(shared.state().note_report(event));
    });
    let nodes: Api<Node> = Api::all(context.reader.clone());
    let nodes = watch(nodes, Config::default(), |event| {
        shared.add(shared.state().note_node(event));
    });
    let policies: Api<NetworkPolicy> = Api::all(context.reader.clone());
    let policies = watch(policies, Config::default(), |event| {
        if matches!(event, Event::Apply(_) | Event::InitApply(_)) {
            raise(&stage, Stage::Pods);
        }
        shared.add(shared.state().note_policy(event, Instant::now()));
    });
    let namespaces: Api<Namespace> = Api::all(context.reader.clone());
    let namespaces = watch(namespaces, Config::default(), |event| {
        shared.add(shared.state().note_namespace(event));
    });
    let pods: Api<Pod> = Api::all(context.reader);
    let pods = watch(pods, Config::default(), |event| {
        shared.add(shared.state().note_pod(event));
    });
    let work = shared.queue.work(WORKERS, |key| work(shared.clone(), key));
    tokio::select! {
        watched = reports => watched,
        watched = begin(&stage, Stage::Policies, nodes) => watched,
        watched = begin(&stage, Stage::Policies, policies) => watched,
        watched = begin(&stage, Stage::Pods, namespaces) => watched,
        watched = begin(&stage, Stage::Pods, pods) => watched,
        worked = work => worked,
    }
}

fn raise(stage: &signal::Sender<Stage>, to: Stage) {
    stage.send_if_modified(|stage| {
        let is_higher = *stage < to;
        *stage = to.max(*stage);
        is_higher
    });
}

/// Begins once the stage is reached.
async fn begin(
    stage: &signal::Sender<Stage>,
    at: Stage,
    watched: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let _ = stage.subscribe().wait_for(|stage| *stage >= at).await;
    watched.await
}

struct Shared {
    client: Client,
    state: Mutex<State>,
    queue: Queue<Key>,
    /// Whether people were told that the server keeps no status.
    has_complained: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, due: Due) {
        for (key, pause) in due {
            if pause.is_zero() {
                self.queue.add(key);
            } else {
                self.queue.add_after(key, pause);
            }
        }
    }
}

async fn work(shared: Arc<Shared>, key: Key) -> Result<Done, Error> {
    // Most looks find nothing to write and wait for nobody: others are to have their turn too.
    coop::consume_budget().await;
    match key {
        Key::Policy(name) => look(&shared, &name).await,
        Key::Policies => Ok(look_at_all(&shared)),
        Key::Stray(node) => delete_stray(&shared, &node).await,
    }
}

fn look_at_all(shared: &Shared) -> Done {
    let swept = shared.state().sweep(Instant::now());
    match swept {
        Ok(names) => {
            let keys = names.into_iter().map(Key::Policy);
            keys.for_each(|key| shared.queue.add(key));
            Done::Yes
        }
        Err(pause) => Done::Again(pause),
    }
}

/// Brings the status of a policy up to date.
async fn look(shared: &Shared, name: &Name) -> Result<Done, Error> {
    let look = shared.state().look(name, Instant::now());
    let write = match look {
        Look::Nothing => return Ok(Done::Yes),
        Look::Later(pause) => return Ok(Done::Again(pause)),
        Look::Write(write) => write,
    };
    let policies: Api<NetworkPolicy> = Api::namespaced(shared.client.clone(), &name.namespace);
    let now = Timestamp::now().strftime("%FT%TZ").to_string();
    let patch = Patch::Strategic(write.patch(&now));
    let params = PatchParams::default();
    let patched = policies.patch_status(&name.name, &params, &patch).await;
    let Some(answer) = found(patched)? else {
        return Ok(Done::Yes);
    };
    let at = Instant::now();
    let Some(pause) = shared.state().wrote(name, &write, &answer, at) else {
        return Ok(Done::Yes);
    };
    if !shared.has_complained.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            policy = %name,
            "the server does not keep what is written into the status of network policies, as when its feature gate \
             NetworkPolicyVersioning is off; it is tried again, each policy after a minute at the earliest"
        );
    }
    Ok(Done::Again(pause))
}

/// Deletes a report, unless there is a node of its name, or the agent has just spoken.
async fn delete_stray(shared: &Shared, node: &str) -> Result<Done, Error> {
    let Some(stray) = shared.state().stray(node) else {
        return Ok(Done::Yes);
    };
    // The watch may be behind.
    let nodes: Api<Node> = Api::all(shared.client.clone());
    if found(nodes.get(node).await)?.is_some() {
        return Ok(Done::Yes);
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: stray.uid,
            resource_version: stray.version,
        }),
        ..DeleteParams::default()
    };
    let reports: Api<NetworkPolicyNode> = Api::all(shared.client.clone());
    match found(reports.delete(node, &params).await) {
        // What the agent has said meanwhile is shown by the watch.
        Err(error) if error.is_conflict() => {}
        deleted => {
            if deleted?.is_some() {
                tracing::info!(node, "its report is deleted, as the node is not there");
            }
        }
    }
    Ok(Done::Yes)
}

#[cfg(test)]
mod tests;
