//! Pod garbage collector (upstream's `PodGCController`): deletes pods whose node is gone or out of service, terminating
//! pods that were never scheduled, and finished pods beyond a limit.
//!
//! Nothing is kept for other pods. A candidate is a key in the work queue and is read again before it is deleted. A
//! missing node has a quarantine period in which it may appear.

mod finished;

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, TryStreamExt};
use kube::api::ListParams;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use self::finished::{FinishedPod, FinishedPods, is_finished};
use crate::partial_objects::{Node, NodeReadiness, Pod, PodKey};
use crate::pod_writes;
use crate::{ControllerContext, Error};
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Candidates that are processed concurrently.
const WORKERS: usize = 4;
/// Pods of one candidate that are deleted concurrently.
const CONCURRENCY: usize = 8;
/// Delay between deletions of finished pods while there are more than the limit.
const SURPLUS_PAUSE: Duration = Duration::from_secs(20);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What may be garbage; key of the work queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum GarbageCandidate {
    PodsOf(String),
    Pod(PodKey),
    Surplus,
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let shared = Arc::new(PodGarbageCollector {
        client: context.client,
        state: Mutex::new(PodGarbageState::new(
            context.options.node_quarantine,
            context.options.terminated_pods_max,
        )),
    });
    let queue = WorkQueue::new();
    let suspect = |candidates: Vec<(GarbageCandidate, Duration)>| {
        for (suspect, pause) in candidates {
            queue.add_after(suspect, pause);
        }
    };
    let nodes: Api<Node> = Api::all(context.reader.clone());
    let (is_read, mut has_read) = tokio::sync::watch::channel(false);
    let nodes = watch(nodes, Config::default(), Node::name_any, |event| {
        if matches!(event, Event::Replaced(_)) {
            is_read.send_replace(true);
        }
        suspect(shared.state().handle_node_event(event));
    });
    let pods: Api<Pod> = Api::all(context.reader);
    let pods = async {
        // Missing nodes are known only after the nodes have been listed.
        let _ = has_read.wait_for(|&is_read| is_read).await;
        watch(pods, Config::default(), Pod::key, |event| {
            suspect(shared.state().handle_pod_event(event));
        })
        .await
    };
    let work = queue.run_workers(WORKERS, |suspect| {
        process_candidate(shared.clone(), suspect)
    });
    tokio::select! {
        watched = nodes => watched,
        watched = pods => watched,
        worked = work => worked,
    }
}

struct PodGarbageCollector {
    client: Client,
    state: Mutex<PodGarbageState>,
}

impl PodGarbageCollector {
    fn state(&self) -> MutexGuard<'_, PodGarbageState> {
        self.state.lock()
    }
}

/// State derived from node and pod events.
struct PodGarbageState {
    /// How long a node must be missing before its pods are deleted.
    quarantine: Duration,
    /// Whether each node is out of service.
    nodes: HashMap<String, bool>,
    /// Missing nodes that are queued already.
    quarantined: HashSet<String>,
    finished: FinishedPods,
    is_surplus_known: bool,
}

impl PodGarbageState {
    fn new(quarantine: Duration, finished_max: usize) -> PodGarbageState {
        PodGarbageState {
            quarantine,
            nodes: HashMap::new(),
            quarantined: HashSet::new(),
            finished: FinishedPods::new(finished_max),
            is_surplus_known: false,
        }
    }

    /// Returns candidates to queue, each with a delay.
    fn handle_node_event(
        &mut self,
        event: Event<Node, String>,
    ) -> Vec<(GarbageCandidate, Duration)> {
        match event {
            Event::Applied(node) => {
                let name = node.name_any();
                let is_out = is_out_of_service(&node);
                let was_out = self.nodes.insert(name.clone(), is_out);
                if is_out && was_out != Some(true) {
                    return vec![(GarbageCandidate::PodsOf(name), Duration::ZERO)];
                }
                Vec::new()
            }
            Event::Deleted(name) => self.handle_node_deletion(name),
            Event::Replaced(names) => {
                let gone = self.nodes.keys().filter(|name| !names.contains(*name));
                let gone: Vec<String> = gone.cloned().collect();
                gone.into_iter()
                    .flat_map(|name| self.handle_node_deletion(name))
                    .collect()
            }
        }
    }

    fn handle_node_deletion(&mut self, name: String) -> Vec<(GarbageCandidate, Duration)> {
        self.nodes.remove(&name);
        self.quarantine(name)
    }

    fn quarantine(&mut self, name: String) -> Vec<(GarbageCandidate, Duration)> {
        if self.quarantined.insert(name.clone()) {
            return vec![(GarbageCandidate::PodsOf(name), self.quarantine)];
        }
        Vec::new()
    }

    fn handle_pod_event(&mut self, event: Event<Pod, PodKey>) -> Vec<(GarbageCandidate, Duration)> {
        let pod = match event {
            Event::Applied(pod) => pod,
            Event::Deleted(key) => {
                self.finished.remove(&key);
                return Vec::new();
            }
            Event::Replaced(keys) => {
                self.finished.retain(|key| keys.contains(key));
                return Vec::new();
            }
        };
        let mut candidates = Vec::new();
        self.finished.add(&pod);
        if !self.is_surplus_known && self.finished.surplus().next().is_some() {
            self.is_surplus_known = true;
            candidates.push((GarbageCandidate::Surplus, Duration::ZERO));
        }
        let node = pod.spec.node_name.as_str();
        let is_out = self.nodes.get(node).copied();
        if pod.is_terminating() && (node.is_empty() || is_out == Some(true)) {
            candidates.push((GarbageCandidate::Pod(pod.key()), Duration::ZERO));
        }
        if !node.is_empty() && is_out.is_none() {
            candidates.extend(self.quarantine(node.to_owned()));
        }
        candidates
    }
}

fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.taints.iter();
    node.ready() != NodeReadiness::True && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

async fn process_candidate(
    shared: Arc<PodGarbageCollector>,
    suspect: GarbageCandidate,
) -> Result<ReconcileAction, Error> {
    match suspect {
        GarbageCandidate::PodsOf(node) => check_node(&shared, &node).await,
        GarbageCandidate::Pod(key) => check_pod(&shared, &key).await,
        GarbageCandidate::Surplus => check_surplus(&shared).await,
    }
}

async fn check_node(shared: &PodGarbageCollector, name: &str) -> Result<ReconcileAction, Error> {
    // Before the list below, so that a pod that appears after it queues the node again.
    shared.state().quarantined.remove(name);
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let node = none_if_not_found(nodes.get(name).await)?;
    let is_orphan = node.is_none();
    if is_orphan || node.is_some_and(|node| is_out_of_service(&node)) {
        let pods: Api<Pod> = Api::all(shared.client.clone());
        let of_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods = pods.list(&of_node).await?;
        let garbage = pods
            .items
            .into_iter()
            .filter(|pod| is_orphan || pod.is_terminating());
        stream::iter(garbage.map(Ok))
            .try_for_each_concurrent(CONCURRENCY, |pod| async move {
                let reason = is_orphan.then_some("PodGC: node no longer exists");
                delete(&shared.client, &pod, reason).await
            })
            .await?;
    }
    Ok(ReconcileAction::AwaitChange)
}

async fn check_pod(shared: &PodGarbageCollector, key: &PodKey) -> Result<ReconcileAction, Error> {
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
    // The service account may list pods but not get them.
    let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let Some(pod) = pods.list(&named).await?.items.pop() else {
        return Ok(ReconcileAction::AwaitChange);
    };
    if !pod.is_terminating() || is_deleted(&pod) {
        return Ok(ReconcileAction::AwaitChange);
    }
    let node = pod.spec.node_name.as_str();
    let is_garbage = if node.is_empty() {
        true
    } else {
        let nodes: Api<Node> = Api::all(shared.client.clone());
        let node = none_if_not_found(nodes.get(node).await)?;
        node.is_some_and(|node| is_out_of_service(&node))
    };
    if is_garbage {
        delete(&shared.client, &pod, None).await?;
    }
    Ok(ReconcileAction::AwaitChange)
}

/// Whether the pod has finished and waits only for its finalizers.
fn is_deleted(pod: &Pod) -> bool {
    is_finished(pod) && pod.metadata.deletion_grace_period_seconds == Some(0)
}

async fn check_surplus(shared: &PodGarbageCollector) -> Result<ReconcileAction, Error> {
    let surplus: Vec<FinishedPod> = shared.state().finished.surplus().cloned().collect();
    tracing::debug!(
        pods = surplus.len(),
        "deleting finished pods beyond the limit"
    );
    stream::iter(surplus.into_iter().map(Ok))
        .try_for_each_concurrent(CONCURRENCY, |pod| async move {
            let key = pod.key();
            pod_writes::delete(&shared.client, &key, pod.uid, Some(0))
                .await
                .map(drop)
        })
        .await?;
    let mut state = shared.state();
    // The watch reports the deletions a little later.
    let is_left = state.finished.surplus().next().is_some();
    state.is_surplus_known = is_left;
    Ok(if is_left {
        ReconcileAction::RequeueAfter(SURPLUS_PAUSE)
    } else {
        ReconcileAction::AwaitChange
    })
}

/// Deletes a pod without a grace period. Sets the phase of an unfinished one to `Failed` first: no kubelet will.
async fn delete(client: &Client, pod: &Pod, reason: Option<&str>) -> Result<(), Error> {
    if !is_finished(pod)
        && !pod_writes::patch_status(client, pod, &failed_status(pod, reason)).await?
    {
        return Ok(());
    }
    pod_writes::delete(client, &pod.key(), pod.metadata.uid.clone(), Some(0))
        .await
        .map(drop)
}

/// Status patch for a pod that is deleted before it finished.
fn failed_status(pod: &Pod, reason: Option<&str>) -> Value {
    let mut status = json!({
        "phase": "Failed",
        "observedGeneration": pod.metadata.generation,
    });
    if let Some(reason) = reason {
        status["conditions"] = json!([pod.disruption("DeletionByPodGC", reason)]);
    }
    status
}

#[cfg(test)]
mod tests;
