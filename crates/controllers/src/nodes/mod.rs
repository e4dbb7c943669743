//! Nodes that fall silent: they are said to be unreachable, get no new pods, and after a while lose those they have.
//!
//! ```text
//!   leases ──► health: when each was heard of ──► look, every few seconds ──► queue ──► set_right: one node
//!   nodes  ──►         (no work for a renewal)                                 ▲        conditions, taints, pods
//!      └────────────── taints do not fit the conditions ──────────────────────┘
//! ```
//!
//! Taints that keep new pods away follow the conditions at once. Those that drive pods out wait for their turn
//! (`zones`), and for a look at all nodes: when none is ready, the fault is here.

mod conditions;
mod health;
mod pods;
mod taints;
mod zones;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::health::{Grace, Health};
use self::taints::Eviction;
use crate::queue::{Done, Queue};
use crate::views::{Node, Ready};
use crate::{Context, Error};
use rhumb_client::error::found;
use rhumb_client::events::Recorder;
use rhumb_client::watching::watch;

/// Nodes that are worked on at the same time.
const WORKERS: usize = 8;
const LEASES: &str = "kube-node-lease";
/// Between two looks at all nodes; a quarter of the time that a node may be silent, if that is less.
const LOOK: Duration = Duration::from_secs(5);
const COMPONENT: &str = "node-controller";

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let grace = Grace {
        monitor: context.options.node_monitor_grace_period,
        startup: context.options.node_startup_grace_period,
    };
    let shared = Arc::new(Shared {
        health: Mutex::new(Health::new(grace)),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        client: context.client,
    });
    let queue = Queue::new();
    let leases: Api<Lease> = Api::namespaced(context.reader.clone(), LEASES);
    let leases = watch(leases, Config::default(), |event| shared.note_lease(event));
    let nodes: Api<Node> = Api::all(context.reader);
    let (is_read, mut has_read) = tokio::sync::watch::channel(false);
    let nodes = watch(nodes, Config::default(), |event| {
        if matches!(event, Event::InitDone) {
            is_read.send_replace(true);
        }
        if let Some(name) = shared.note_node(event) {
            queue.add(name);
        }
    });
    let look = async {
        // Who is ready is known when all nodes are.
        let _ = has_read.wait_for(|&is_read| is_read).await;
        let mut looks = interval(LOOK.min(grace.monitor / 4).max(Duration::from_millis(10)));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let due = shared.health().look(Instant::now());
            due.into_iter().for_each(|name| queue.add(name));
        }
    };
    let work = queue.work(WORKERS, |name| set_right(shared.clone(), name));
    tokio::select! {
        watched = leases => watched,
        watched = nodes => watched,
        worked = work => worked,
        () = look => Ok(()),
    }
}

struct Shared {
    client: Client,
    recorder: Recorder,
    health: Mutex<Health>,
}

impl Shared {
    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_lease(&self, event: Event<Lease>) {
        let now = Instant::now();
        match event {
            Event::Apply(lease) | Event::InitApply(lease) => {
                let renewal = lease.spec.and_then(|spec| spec.renew_time);
                let name = lease.metadata.name.unwrap_or_default();
                self.health().renewed(&name, renewal, now);
            }
            Event::Delete(lease) => self.health().lease_gone(&lease.name_any()),
            Event::Init | Event::InitDone => {}
        }
    }

    /// The node with which something is to be done at once.
    fn note_node(&self, event: Event<Node>) -> Option<String> {
        let mut health = self.health();
        let node = match event {
            Event::Apply(node) => node,
            Event::InitApply(node) => {
                health.listed(&node.name_any());
                node
            }
            Event::Delete(node) => {
                health.gone(&node.name_any());
                return None;
            }
            Event::Init => {
                health.list_begins();
                return None;
            }
            Event::InitDone => {
                health.list_ends();
                return None;
            }
        };
        health.seen(&node, Instant::now());
        let name = node.name_any();
        let is_tainted_wrong = taints::wanted(&node, Eviction::NotYet, &now()).is_some();
        let has_unmarked_pods = node.ready() == Ready::Unknown && !health.are_pods_marked(&name);
        (is_tainted_wrong || has_unmarked_pods).then_some(name)
    }
}

fn now() -> Time {
    Time(Timestamp::now())
}

/// Brings one node into the state that it should be in.
async fn set_right(shared: Arc<Shared>, name: String) -> Result<Done, Error> {
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let Some(mut node) = found(nodes.get(&name).await)? else {
        return Ok(Done::Yes);
    };
    if shared.health().is_silent(&node, Instant::now())
        && let Some(conditions) = conditions::lost(&node, &now())
    {
        let was_ready = node.ready() == Ready::True;
        let status = json!({"conditions": conditions});
        node = patch(&nodes, &node, "status", status).await?;
        if was_ready {
            let message = format!("Node {name} status is now: NodeNotReady");
            shared.recorder.normal(&node, "NodeNotReady", message);
        }
    }
    let eviction = shared.health().eviction(&name);
    if let Some(taints) = taints::wanted(&node, eviction, &now()) {
        node = patch(&nodes, &node, "spec", json!({"taints": taints})).await?;
    }
    if node.ready() == Ready::Unknown && !shared.health().are_pods_marked(&name) {
        pods::mark_not_ready(&shared.client, &shared.recorder, &name).await?;
        shared.health().pods_marked(&name);
    }
    Ok(Done::Yes)
}

/// Changes a part of a node, unless somebody else has changed the node meanwhile: lists are replaced as a whole.
async fn patch(nodes: &Api<Node>, node: &Node, part: &str, value: Value) -> Result<Node, Error> {
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": node.metadata.resource_version},
        part: value,
    }));
    let params = PatchParams::default();
    let name = node.name_any();
    Ok(match part {
        "status" => nodes.patch_status(&name, &params, &patch).await?,
        _ => nodes.patch(&name, &params, &patch).await?,
    })
}
