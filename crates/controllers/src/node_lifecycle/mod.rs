//! Node lifecycle controller: marks nodes without heartbeats as `Unknown`, and taints nodes according to their
//! conditions. The taint eviction controller then deletes pods because of the NoExecute taints.
//!
//! ```text
//!   leases ──► health: last heartbeats ──► monitor, every few seconds ──► queue ──► sync one node:
//!   nodes  ──►         (no work for a renewal)                              ▲        conditions, taints, pods
//!      └────────────── taints do not match the conditions ─────────────────┘
//! ```
//!
//! NoSchedule taints follow the conditions at once. NoExecute taints are rate-limited per zone, and none is added while
//! no node at all is ready: then the fault is probably this process's connection, not the nodes.

mod conditions;
mod health;
mod mark_pods_not_ready;
mod taints;
mod zone_eviction_limiter;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::health::{NodeGracePeriods, NodeHealthTracker};
use self::taints::NoExecuteTaintMode;
use crate::partial_objects::{Node, NodeReadiness};
use crate::{ControllerContext, Error};
use rhumb_client::error::none_if_not_found;
use rhumb_client::events::EventRecorder;
use rhumb_client::informer::{Event, watch};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Nodes that are reconciled concurrently.
const WORKERS: usize = 8;
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Period of the check of all nodes; a quarter of the grace period if that is shorter.
const MONITOR_PERIOD: Duration = Duration::from_secs(5);
const COMPONENT: &str = "node-controller";

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let grace = NodeGracePeriods {
        monitor: context.options.node_monitor_grace_period,
        startup: context.options.node_startup_grace_period,
    };
    let shared = Arc::new(NodeLifecycleController {
        health: Mutex::new(NodeHealthTracker::new(grace)),
        recorder: EventRecorder::new(context.client.clone(), COMPONENT),
        client: context.client,
    });
    let queue = WorkQueue::new();
    let leases: Api<Lease> = Api::namespaced(context.reader.clone(), LEASE_NAMESPACE);
    let leases = watch(leases, Config::default(), Lease::name_any, |event| {
        shared.handle_lease_event(event);
    });
    let nodes: Api<Node> = Api::all(context.reader);
    let (is_read, mut has_read) = tokio::sync::watch::channel(false);
    let nodes = watch(nodes, Config::default(), Node::name_any, |event| {
        if matches!(event, Event::Replaced(_)) {
            is_read.send_replace(true);
        }
        if let Some(name) = shared.handle_node_event(event) {
            queue.add(name);
        }
    });
    let look = async {
        // Whether any node is ready is known only after the first list.
        let _ = has_read.wait_for(|&is_read| is_read).await;
        let mut looks = interval(
            MONITOR_PERIOD
                .min(grace.monitor / 4)
                .max(Duration::from_millis(10)),
        );
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let due = shared.health().monitor_health(Instant::now());
            due.into_iter().for_each(|name| queue.add(name));
        }
    };
    let work = queue.run_workers(WORKERS, |name| reconcile_node(shared.clone(), name));
    tokio::select! {
        watched = leases => watched,
        watched = nodes => watched,
        worked = work => worked,
        () = look => Ok(()),
    }
}

struct NodeLifecycleController {
    client: Client,
    recorder: EventRecorder,
    health: Mutex<NodeHealthTracker>,
}

impl NodeLifecycleController {
    fn health(&self) -> MutexGuard<'_, NodeHealthTracker> {
        self.health.lock()
    }

    fn handle_lease_event(&self, event: Event<Lease, String>) {
        let now = Instant::now();
        match event {
            Event::Applied(lease) => {
                let renewal = lease.spec.and_then(|spec| spec.renew_time);
                let name = lease.metadata.name.unwrap_or_default();
                self.health().record_lease_renewal(&name, renewal, now);
            }
            Event::Deleted(name) => self.health().remove_lease(&name),
            Event::Replaced(_) => {}
        }
    }

    /// Returns the node's name if it must be reconciled at once.
    fn handle_node_event(&self, event: Event<Node, String>) -> Option<String> {
        let mut health = self.health();
        let node = match event {
            Event::Applied(node) => node,
            Event::Deleted(name) => {
                health.remove_node(&name);
                return None;
            }
            Event::Replaced(names) => {
                health.retain_nodes(&names);
                return None;
            }
        };
        health.set_node(&node, Instant::now());
        let name = node.name_any();
        let is_tainted_wrong =
            taints::desired_taints(&node, NoExecuteTaintMode::NotYet, &now()).is_some();
        let has_unmarked_pods =
            node.ready() == NodeReadiness::Unknown && !health.are_pods_marked(&name);
        (is_tainted_wrong || has_unmarked_pods).then_some(name)
    }
}

fn now() -> Time {
    Time(Timestamp::now())
}

/// Reconciles the conditions, taints and pods of one node.
async fn reconcile_node(
    shared: Arc<NodeLifecycleController>,
    name: String,
) -> Result<ReconcileAction, Error> {
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let Some(mut node) = none_if_not_found(nodes.get(&name).await)? else {
        return Ok(ReconcileAction::AwaitChange);
    };
    if shared.health().is_unresponsive(&node, Instant::now())
        && let Some(conditions) = conditions::unknown_conditions(&node, &now())
    {
        let was_ready = node.ready() == NodeReadiness::True;
        let status = json!({"conditions": conditions});
        node = patch(&nodes, &node, "status", status).await?;
        if was_ready {
            let message = format!("Node {name} status is now: NodeNotReady");
            shared.recorder.normal(&node, "NodeNotReady", message);
        }
    }
    let eviction = shared.health().eviction_permission(&name);
    if let Some(taints) = taints::desired_taints(&node, eviction, &now()) {
        node = patch(&nodes, &node, "spec", json!({"taints": taints})).await?;
    }
    if node.ready() == NodeReadiness::Unknown && !shared.health().are_pods_marked(&name) {
        mark_pods_not_ready::mark_pods_not_ready(&shared.client, &shared.recorder, &name).await?;
        shared.health().set_pods_marked(&name);
    }
    Ok(ReconcileAction::AwaitChange)
}

/// Patches a part of the node with a resourceVersion precondition, because a merge patch replaces whole lists.
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
