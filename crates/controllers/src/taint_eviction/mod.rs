//! Taint eviction controller: deletes pods from nodes whose NoExecute taints they do not tolerate, at once or after
//! their `tolerationSeconds`.
//!
//! Pods are watched only on tainted nodes, with one watch per node, so untainted clusters cost nothing.

mod eviction_schedule;
mod tolerations;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ObjectReference, Taint, Toleration};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch::{self as signal};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::eviction_schedule::{EvictionSchedule, ScheduleChange};
use self::tolerations::EvictionDecision;
use crate::partial_objects::{Node, Pod, PodKey};
use crate::pod_writes;
use crate::{ControllerContext, Error};
use rhumb_client::error::none_if_not_found;
use rhumb_client::events::EventRecorder;
use rhumb_client::informer::{self, Event};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Pods that are evicted concurrently.
const WORKERS: usize = 8;
const COMPONENT: &str = "taint-eviction-controller";
const REASON: &str = "TaintManagerEviction";

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let shared = Arc::new(TaintEvictionController {
        recorder: EventRecorder::new(context.client.clone(), COMPONENT),
        client: context.client,
        reader: context.reader.clone(),
        queue: WorkQueue::new(),
        schedule: Mutex::new(EvictionSchedule::default()),
    });
    let mut watchers = TaintedNodeWatchers {
        shared: shared.clone(),
        watchers: HashMap::new(),
        tasks: JoinSet::new(),
    };
    let nodes = watchers.watch_nodes(Api::all(context.reader));
    let work = shared
        .queue
        .run_workers(WORKERS, |pod| evict(shared.clone(), pod));
    tokio::select! {
        kept = nodes => kept,
        worked = work => worked,
    }
}

struct TaintEvictionController {
    client: Client,
    reader: Client,
    recorder: EventRecorder,
    queue: WorkQueue<PodKey>,
    schedule: Mutex<EvictionSchedule>,
}

type NoExecuteTaints = Arc<[Taint]>;

/// One pod watch task per tainted node.
struct TaintedNodeWatchers {
    shared: Arc<TaintEvictionController>,
    /// Sends taint changes to the task of each node; dropping the sender ends the task.
    watchers: HashMap<String, signal::Sender<NoExecuteTaints>>,
    tasks: JoinSet<Result<(), Error>>,
}

impl TaintedNodeWatchers {
    /// Watches nodes and keeps one task per tainted node. A failed task ends the controller, which is then restarted:
    /// otherwise the pods of that node would never be evicted.
    async fn watch_nodes(&mut self, nodes: Api<Node>) -> Result<(), Error> {
        let mut events = pin!(informer::events(nodes, Config::default(), Node::name_any));
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.handle_event(event),
                    None => return Ok(()),
                },
                Some(ended) = self.tasks.join_next() => {
                    ended.map_err(|panic| Error::Other(panic.to_string()))??;
                }
            }
        }
    }

    fn handle_event(&mut self, event: Event<Node, String>) {
        match event {
            Event::Applied(node) => self.set(&node.name_any(), taints(&node)),
            Event::Deleted(name) => self.remove(&name),
            Event::Replaced(listed) => {
                let gone = self.watchers.keys().filter(|name| !listed.contains(*name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    self.remove(&name);
                }
            }
        }
    }

    fn set(&mut self, node: &str, taints: NoExecuteTaints) {
        if taints.is_empty() {
            self.remove(node);
        } else if let Some(known) = self.watchers.get(node) {
            known.send_if_modified(|known| {
                let is_new = *known != taints;
                *known = taints;
                is_new
            });
        } else {
            let (sender, receiver) = signal::channel(taints);
            let guard = watch_tainted_node(self.shared.clone(), node.to_owned(), receiver);
            self.tasks.spawn(guard);
            self.watchers.insert(node.to_owned(), sender);
        }
    }

    fn remove(&mut self, node: &str) {
        if self.watchers.remove(node).is_some() {
            let stay = self.shared.schedule().cancel_node(node);
            stay.iter()
                .for_each(|pod| self.shared.record_cancellation_event(pod));
        }
    }
}

fn taints(node: &Node) -> NoExecuteTaints {
    let taints = node.spec.taints.iter();
    let evicting = taints.filter(|taint| taint.effect == "NoExecute");
    evicting.cloned().collect()
}

/// The fields of a pod on a tainted node that decide about its eviction.
struct BoundPod {
    uid: Option<String>,
    tolerations: Vec<Toleration>,
}

/// Watches the pods of one tainted node and schedules their eviction, until the node is no longer tainted.
async fn watch_tainted_node(
    shared: Arc<TaintEvictionController>,
    node: String,
    mut taints: signal::Receiver<NoExecuteTaints>,
) -> Result<(), Error> {
    let pods: Api<Pod> = Api::all(shared.reader.clone());
    let of_node = Config::default().fields(&format!("spec.nodeName={node}"));
    let mut events = pin!(informer::events(pods, of_node, Pod::key));
    let mut pods: HashMap<PodKey, BoundPod> = HashMap::new();
    loop {
        tokio::select! {
            // Handle taint changes first, so that no decision uses outdated taints.
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
                Some(Event::Applied(pod)) => {
                    let key = pod.key();
                    if pod.is_terminating() {
                        pods.remove(&key);
                        shared.schedule().cancel(&key);
                        continue;
                    }
                    let bound = BoundPod { uid: pod.metadata.uid, tolerations: pod.spec.tolerations };
                    let taints = taints.borrow().clone();
                    shared.decide(&key, &node, &bound, &taints);
                    pods.insert(key, bound);
                }
                Some(Event::Deleted(key)) => {
                    pods.remove(&key);
                    shared.schedule().cancel(&key);
                }
                Some(Event::Replaced(listed)) => {
                    for (key, _) in pods.extract_if(|key, _| !listed.contains(key)) {
                        shared.schedule().cancel(&key);
                    }
                }
                None => return Err(Error::Other(format!("watch of the pods of node {node} ended"))),
            }
        }
    }
}

impl TaintEvictionController {
    fn schedule(&self) -> MutexGuard<'_, EvictionSchedule> {
        self.schedule.lock()
    }

    fn decide(&self, key: &PodKey, node: &str, pod: &BoundPod, taints: &[Taint]) {
        let decision = tolerations::decision(&pod.tolerations, taints);
        let now = Instant::now();
        let change = self
            .schedule()
            .decide(key, node, pod.uid.as_ref(), decision, now);
        match change {
            ScheduleChange::Nothing => {}
            ScheduleChange::Evict(time) if time.is_zero() => self.queue.add(key.clone()),
            ScheduleChange::Evict(time) => self.queue.add_after(key.clone(), time),
            ScheduleChange::Cancel => self.record_cancellation_event(key),
        }
    }

    fn record_deletion_event(&self, pod: &PodKey) {
        self.record_event(
            pod,
            format!("Marking for deletion Pod {}/{}", pod.namespace, pod.name),
        );
    }

    fn record_cancellation_event(&self, pod: &PodKey) {
        self.record_event(
            pod,
            format!("Cancelling deletion of Pod {}/{}", pod.namespace, pod.name),
        );
    }

    fn record_event(&self, pod: &PodKey, message: String) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            ..ObjectReference::default()
        };
        self.recorder.try_record(about, "Normal", REASON, message);
    }
}

/// Deletes a pod if its eviction is still scheduled and due.
async fn evict(
    shared: Arc<TaintEvictionController>,
    key: PodKey,
) -> Result<ReconcileAction, Error> {
    let Some(eviction) = shared.schedule().get(&key) else {
        return Ok(ReconcileAction::AwaitChange);
    };
    let left = eviction.due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        return Ok(ReconcileAction::RequeueAfter(left));
    }
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &key.namespace);
    let pod = none_if_not_found(pods.get(&key.name).await)?;
    // The pod event caused by this controller's own write may have queued the pod again.
    let is_meant = |pod: &Pod| {
        pod.metadata.uid == eviction.uid
            && pod.spec.node_name == eviction.node
            && !pod.is_terminating()
    };
    if let Some(pod) = pod.filter(is_meant) {
        // The watch may lag behind, and a deletion cannot be undone: read the node again.
        let nodes: Api<Node> = Api::all(shared.client.clone());
        let node = none_if_not_found(nodes.get(&eviction.node).await)?.unwrap_or_default();
        if tolerations::decision(&pod.spec.tolerations, &taints(&node)) == EvictionDecision::Cancel
        {
            shared.schedule().done(&key, &eviction);
            shared.record_cancellation_event(&key);
            return Ok(ReconcileAction::AwaitChange);
        }
        add_disruption_condition(&shared.client, &pod).await?;
        if pod_writes::delete(&shared.client, &key, eviction.uid.clone(), None).await? {
            shared.record_deletion_event(&key);
        }
    }
    shared.schedule().done(&key, &eviction);
    Ok(ReconcileAction::AwaitChange)
}

/// Sets the `DisruptionTarget` condition.
async fn add_disruption_condition(client: &Client, pod: &Pod) -> Result<bool, Error> {
    let why = pod.disruption(
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    );
    pod_writes::patch_status(client, pod, &json!({"conditions": [why]})).await
}

#[cfg(test)]
mod tests;
