//! Pods leave nodes whose NoExecute taints they do not tolerate, at once or when their time is over.
//!
//! Only the pods of tainted nodes are watched, each node's by itself: where no node is tainted, pods cost nothing.

mod plans;
mod tolerations;

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, Taint, Toleration};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch::{self as signal};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::plans::{Change, Plans};
use self::tolerations::Fate;
use crate::pods;
use crate::queue::{Done, Queue};
use crate::views::{Node, Pod, PodKey};
use crate::{Context, Error};
use rhumb_client::error::found;
use rhumb_client::events::Recorder;

/// Pods that are evicted at the same time.
const WORKERS: usize = 8;
const COMPONENT: &str = "taint-eviction-controller";
const REASON: &str = "TaintManagerEviction";

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let shared = Arc::new(Shared {
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        client: context.client,
        reader: context.reader.clone(),
        queue: Queue::new(),
        plans: Mutex::new(Plans::default()),
    });
    let mut guards = Guards {
        shared: shared.clone(),
        guards: HashMap::new(),
        tasks: JoinSet::new(),
        listed: HashSet::new(),
    };
    let nodes = guards.keep(Api::all(context.reader));
    let work = shared.queue.work(WORKERS, |pod| evict(shared.clone(), pod));
    tokio::select! {
        kept = nodes => kept,
        worked = work => worked,
    }
}

struct Shared {
    client: Client,
    reader: Client,
    recorder: Recorder,
    queue: Queue<PodKey>,
    plans: Mutex<Plans>,
}

type Taints = Arc<[Taint]>;

/// One task for each tainted node.
struct Guards {
    shared: Arc<Shared>,
    /// A guard ends when nobody can tell it of taints any more.
    guards: HashMap<String, signal::Sender<Taints>>,
    tasks: JoinSet<Result<(), Error>>,
    /// What a list that is being read has shown so far.
    listed: HashSet<String>,
}

impl Guards {
    /// Has each tainted node guarded. A guard that fails ends all, so that all are started anew: without it, pods of
    /// its node would never go.
    async fn keep(&mut self, nodes: Api<Node>) -> Result<(), Error> {
        let mut events = pin!(watcher(nodes, Config::default()).default_backoff());
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.note(event),
                    Some(Err(error)) => tracing::debug!(%error, "watched anew"),
                    None => return Ok(()),
                },
                Some(ended) = self.tasks.join_next() => {
                    ended.map_err(|panic| Error::Other(panic.to_string()))??;
                }
            }
        }
    }

    fn note(&mut self, event: Event<Node>) {
        match event {
            Event::Apply(node) => self.set(&node.name_any(), taints(&node)),
            Event::InitApply(node) => {
                let name = node.name_any();
                self.set(&name, taints(&node));
                self.listed.insert(name);
            }
            Event::Delete(node) => self.remove(&node.name_any()),
            Event::Init => self.listed.clear(),
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.guards.keys().filter(|name| !listed.contains(*name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    self.remove(&name);
                }
            }
        }
    }

    fn set(&mut self, node: &str, taints: Taints) {
        if taints.is_empty() {
            self.remove(node);
        } else if let Some(known) = self.guards.get(node) {
            known.send_if_modified(|known| {
                let is_new = *known != taints;
                *known = taints;
                is_new
            });
        } else {
            let (sender, receiver) = signal::channel(taints);
            let guard = guard(self.shared.clone(), node.to_owned(), receiver);
            self.tasks.spawn(guard);
            self.guards.insert(node.to_owned(), sender);
        }
    }

    fn remove(&mut self, node: &str) {
        if self.guards.remove(node).is_some() {
            let stay = self.shared.plans().cancel_node(node);
            stay.iter().for_each(|pod| self.shared.tell_stays(pod));
        }
    }
}

fn taints(node: &Node) -> Taints {
    let taints = node.spec.taints.iter();
    let evicting = taints.filter(|taint| taint.effect == "NoExecute");
    evicting.cloned().collect()
}

/// A pod on a tainted node.
struct Bound {
    uid: Option<String>,
    tolerations: Vec<Toleration>,
}

/// Decides about the pods of one node, for as long as it is tainted.
async fn guard(
    shared: Arc<Shared>,
    node: String,
    mut taints: signal::Receiver<Taints>,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::all(shared.reader.clone());
    let of_node = Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(watcher(pods, of_node).default_backoff());
    let mut pods: HashMap<PodKey, Bound> = HashMap::new();
    let mut before: HashMap<PodKey, Bound> = HashMap::new();
    loop {
        tokio::select! {
            // Nothing is decided by taints that are no longer there.
            biased;
            changed = taints.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let taints = taints.borrow_and_update().clone();
                for (key, pod) in &pods {
                    shared.decide(key, &node, pod, &taints);
                }
            }
            event = events.next() => match event {
                Some(Ok(Event::Apply(pod) | Event::InitApply(pod))) => {
                    let key = pod.key();
                    before.remove(&key);
                    if pod.is_terminating() {
                        pods.remove(&key);
                        shared.plans().cancel(&key);
                        continue;
                    }
                    let bound = Bound { uid: pod.metadata.uid, tolerations: pod.spec.tolerations };
                    let taints = taints.borrow().clone();
                    shared.decide(&key, &node, &bound, &taints);
                    pods.insert(key, bound);
                }
                Some(Ok(Event::Delete(pod))) => {
                    let key = pod.key();
                    pods.remove(&key);
                    shared.plans().cancel(&key);
                }
                Some(Ok(Event::Init)) => before = std::mem::take(&mut pods),
                Some(Ok(Event::InitDone)) => {
                    for key in std::mem::take(&mut before).into_keys() {
                        shared.plans().cancel(&key);
                    }
                }
                Some(Err(error)) => tracing::debug!(%error, "watched anew"),
                None => return Err(Error::Other(format!("the pods of node {node} are not watched"))),
            }
        }
    }
}

impl Shared {
    fn plans(&self) -> MutexGuard<'_, Plans> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, key: &PodKey, node: &str, pod: &Bound, taints: &[Taint]) {
        let fate = tolerations::fate(&pod.tolerations, taints);
        let now = Instant::now();
        let change = self.plans().decide(key, node, pod.uid.as_ref(), fate, now);
        match change {
            Change::Nothing => {}
            Change::Goes(time) if time.is_zero() => self.queue.add(key.clone()),
            Change::Goes(time) => self.queue.add_after(key.clone(), time),
            Change::Stays => self.tell_stays(key),
        }
    }

    fn tell_goes(&self, pod: &PodKey) {
        self.tell(
            pod,
            format!("Marking for deletion Pod {}/{}", pod.namespace, pod.name),
        );
    }

    fn tell_stays(&self, pod: &PodKey) {
        self.tell(
            pod,
            format!("Cancelling deletion of Pod {}/{}", pod.namespace, pod.name),
        );
    }

    fn tell(&self, pod: &PodKey, message: String) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            ..ObjectReference::default()
        };
        self.recorder.note(about, "Normal", REASON, message);
    }
}

/// Deletes a pod if it is still to go.
async fn evict(shared: Arc<Shared>, key: PodKey) -> Result<Done, Error> {
    let Some(plan) = shared.plans().get(&key) else {
        return Ok(Done::Yes);
    };
    let left = plan.due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        return Ok(Done::Again(left));
    }
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
    let pod = found(pods.get(&key.name).await)?;
    // What this controller itself wrote to the pod may have made it suspect again.
    let is_meant = |pod: &Pod| {
        pod.metadata.uid == plan.uid && pod.spec.node_name == plan.node && !pod.is_terminating()
    };
    if let Some(pod) = pod.filter(is_meant) {
        // What was heard of the node may be old, and nobody brings a deleted pod back.
        let nodes: Api<Node> = Api::all(shared.client.clone());
        let node = found(nodes.get(&plan.node).await)?.unwrap_or_default();
        if tolerations::fate(&pod.spec.tolerations, &taints(&node)) == Fate::Stays {
            shared.plans().done(&key, &plan);
            shared.tell_stays(&key);
            return Ok(Done::Yes);
        }
        mark(&shared.client, &pod).await?;
        if pods::delete(&shared.client, &key, plan.uid.clone(), None).await? {
            shared.tell_goes(&key);
        }
    }
    shared.plans().done(&key, &plan);
    Ok(Done::Yes)
}

/// Says why the pod goes, so that whoever owns it does not take it for a failure of its own.
async fn mark(client: &Client, pod: &Pod) -> Result<bool, Error> {
    let why = pod.disruption(
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    );
    pods::patch_status(client, pod, &json!({"conditions": [why]})).await
}

#[cfg(test)]
mod tests;
