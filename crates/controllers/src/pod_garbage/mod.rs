//! Pods that nobody else will ever delete: their node is gone, or they never had one, or there are too many.
//!
//! Of pods in order nothing is kept. What may be garbage is a key in a queue, and is looked at anew before it is
//! deleted: a node that this process has not heard of has some time to appear.

mod finished;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, TryStreamExt};
use kube::api::ListParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use self::finished::{Finished, FinishedPods, is_finished};
use crate::pods;
use crate::queue::{Done, Queue};
use crate::views::{Node, Pod, PodKey, Ready};
use crate::{Context, Error};
use rhumb_client::error::found;
use rhumb_client::watching::watch;

/// Nodes and pods that are worked on at the same time.
const WORKERS: usize = 4;
/// Pods that are deleted at the same time for one reason.
const AT_ONCE: usize = 8;
/// Between two looks at pods that have finished while there are too many.
const SURPLUS_PAUSE: Duration = Duration::from_secs(20);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// What may be garbage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Suspect {
    PodsOf(String),
    Pod(PodKey),
    Surplus,
}

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let shared = Arc::new(Shared {
        client: context.client,
        state: Mutex::new(State::new(
            context.options.node_quarantine,
            context.options.terminated_pods_max,
        )),
    });
    let queue = Queue::new();
    let suspect = |suspects: Vec<(Suspect, Duration)>| {
        for (suspect, pause) in suspects {
            queue.add_after(suspect, pause);
        }
    };
    let nodes: Api<Node> = Api::all(context.reader.clone());
    let (is_read, mut has_read) = tokio::sync::watch::channel(false);
    let nodes = watch(nodes, Config::default(), |event| {
        if matches!(event, Event::InitDone) {
            is_read.send_replace(true);
        }
        suspect(shared.state().note_node(event));
    });
    let pods: Api<Pod> = Api::all(context.reader);
    let pods = async {
        // Which nodes are not there is known when all nodes are.
        let _ = has_read.wait_for(|&is_read| is_read).await;
        watch(pods, Config::default(), |event| {
            suspect(shared.state().note_pod(event));
        })
        .await
    };
    let work = queue.work(WORKERS, |suspect| check(shared.clone(), suspect));
    tokio::select! {
        watched = nodes => watched,
        watched = pods => watched,
        worked = work => worked,
    }
}

struct Shared {
    client: Client,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is remembered of nodes and pods.
struct State {
    /// How long a node may be unknown before its pods go.
    quarantine: Duration,
    /// Whether each node is out of service.
    nodes: HashMap<String, bool>,
    /// What a list that is being read has not shown yet.
    unlisted: HashSet<String>,
    /// Names of nodes that are not there, and will be looked at.
    quarantined: HashSet<String>,
    finished: FinishedPods,
    is_surplus_known: bool,
}

impl State {
    fn new(quarantine: Duration, finished_max: usize) -> State {
        State {
            quarantine,
            nodes: HashMap::new(),
            unlisted: HashSet::new(),
            quarantined: HashSet::new(),
            finished: FinishedPods::new(finished_max),
            is_surplus_known: false,
        }
    }

    /// What is to be looked at, and when.
    fn note_node(&mut self, event: Event<Node>) -> Vec<(Suspect, Duration)> {
        match event {
            Event::Apply(node) | Event::InitApply(node) => {
                let name = node.name_any();
                self.unlisted.remove(&name);
                let is_out = is_out_of_service(&node);
                let was_out = self.nodes.insert(name.clone(), is_out);
                if is_out && was_out != Some(true) {
                    return vec![(Suspect::PodsOf(name), Duration::ZERO)];
                }
                Vec::new()
            }
            Event::Delete(node) => self.node_gone(node.name_any()),
            Event::Init => {
                self.unlisted = self.nodes.keys().cloned().collect();
                Vec::new()
            }
            Event::InitDone => {
                let gone = std::mem::take(&mut self.unlisted).into_iter();
                gone.flat_map(|name| self.node_gone(name)).collect()
            }
        }
    }

    fn node_gone(&mut self, name: String) -> Vec<(Suspect, Duration)> {
        self.nodes.remove(&name);
        self.quarantine(name)
    }

    fn quarantine(&mut self, name: String) -> Vec<(Suspect, Duration)> {
        if self.quarantined.insert(name.clone()) {
            return vec![(Suspect::PodsOf(name), self.quarantine)];
        }
        Vec::new()
    }

    fn note_pod(&mut self, event: Event<Pod>) -> Vec<(Suspect, Duration)> {
        let pod = match event {
            Event::Apply(pod) | Event::InitApply(pod) => pod,
            Event::Delete(pod) => {
                self.finished.gone(&pod);
                return Vec::new();
            }
            Event::Init => {
                self.finished.clear();
                return Vec::new();
            }
            Event::InitDone => return Vec::new(),
        };
        let mut suspects = Vec::new();
        self.finished.seen(&pod);
        if !self.is_surplus_known && self.finished.surplus().next().is_some() {
            self.is_surplus_known = true;
            suspects.push((Suspect::Surplus, Duration::ZERO));
        }
        let node = pod.spec.node_name.as_str();
        let is_out = self.nodes.get(node).copied();
        if pod.is_terminating() && (node.is_empty() || is_out == Some(true)) {
            suspects.push((Suspect::Pod(pod.key()), Duration::ZERO));
        }
        if !node.is_empty() && is_out.is_none() {
            suspects.extend(self.quarantine(node.to_owned()));
        }
        suspects
    }
}

fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.taints.iter();
    node.ready() != Ready::True && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

async fn check(shared: Arc<Shared>, suspect: Suspect) -> Result<Done, Error> {
    match suspect {
        Suspect::PodsOf(node) => check_node(&shared, &node).await,
        Suspect::Pod(key) => check_pod(&shared, &key).await,
        Suspect::Surplus => check_surplus(&shared).await,
    }
}

async fn check_node(shared: &Shared, name: &str) -> Result<Done, Error> {
    // Not later: a pod that comes to the node after its pods were listed is looked at in its own time.
    shared.state().quarantined.remove(name);
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let node = found(nodes.get(name).await)?;
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
            .try_for_each_concurrent(AT_ONCE, |pod| async move {
                let why = is_orphan.then_some("PodGC: node no longer exists");
                delete(&shared.client, &pod, why).await
            })
            .await?;
    }
    Ok(Done::Yes)
}

async fn check_pod(shared: &Shared, key: &PodKey) -> Result<Done, Error> {
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
    // The account may list pods, not get one.
    let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let Some(pod) = pods.list(&named).await?.items.pop() else {
        return Ok(Done::Yes);
    };
    if !pod.is_terminating() || is_deleted(&pod) {
        return Ok(Done::Yes);
    }
    let node = pod.spec.node_name.as_str();
    let is_garbage = if node.is_empty() {
        true
    } else {
        let nodes: Api<Node> = Api::all(shared.client.clone());
        let node = found(nodes.get(node).await)?;
        node.is_some_and(|node| is_out_of_service(&node))
    };
    if is_garbage {
        delete(&shared.client, &pod, None).await?;
    }
    Ok(Done::Yes)
}

/// Whether nothing is left to do but to wait for finalizers.
fn is_deleted(pod: &Pod) -> bool {
    is_finished(pod) && pod.metadata.deletion_grace_period_seconds == Some(0)
}

async fn check_surplus(shared: &Shared) -> Result<Done, Error> {
    let surplus: Vec<Finished> = shared.state().finished.surplus().cloned().collect();
    tracing::debug!(pods = surplus.len(), "pods that have finished are deleted");
    stream::iter(surplus.into_iter().map(Ok))
        .try_for_each_concurrent(AT_ONCE, |pod| async move {
            let key = pod.key();
            pods::delete(&shared.client, &key, pod.uid, Some(0))
                .await
                .map(drop)
        })
        .await?;
    let mut state = shared.state();
    // Those that are gone are told of a little later.
    let is_left = state.finished.surplus().next().is_some();
    state.is_surplus_known = is_left;
    Ok(if is_left {
        Done::Again(SURPLUS_PAUSE)
    } else {
        Done::Yes
    })
}

/// Ends a pod for good. One that has not finished has failed: nobody is there who could say so otherwise.
async fn delete(client: &Client, pod: &Pod, why: Option<&str>) -> Result<(), Error> {
    if !is_finished(pod) && !pods::patch_status(client, pod, &failed(pod, why)).await? {
        return Ok(());
    }
    pods::delete(client, &pod.key(), pod.metadata.uid.clone(), Some(0))
        .await
        .map(drop)
}

/// The status of a pod that has failed.
fn failed(pod: &Pod, why: Option<&str>) -> Value {
    let mut status = json!({
        "phase": "Failed",
        "observedGeneration": pod.metadata.generation,
    });
    if let Some(why) = why {
        status["conditions"] = json!([pod.disruption("DeletionByPodGC", why)]);
    }
    status
}

#[cfg(test)]
mod tests;
