//! NetworkPolicy status controller: writes conditions that say whether a policy is supported, applied, and selects
//! anything.
//!
//! ```text
//!   reports ──► agents ──────────┐
//!   nodes   ──►                  ├──► which policies ──► queue ──► look: conditions ──► one write, if any changed
//!   policies, namespaces, pods ──► engine ──┘
//! ```
//!
//! Agents report what they have applied in one NetworkPolicyNode object per node; this controller aggregates the
//! reports into one status per policy. A policy is written at most once a second, only the changed conditions, and not
//! before agents had time to report. Reports of nodes that do not exist are deleted; a report from before the node's
//! last reboot is ignored.
//!
//! If NetworkPolicyNode is not served, nothing else is watched; if there are no policies, pods and namespaces are not.

mod agent_reports;
mod condition_diff;
mod conditions;
mod heartbeats;
mod metrics;
mod partial_node;
mod state;
mod uncovered_pods;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use rhumb_client::error::none_if_not_found;
use rhumb_client::reflector::watch;
use rhumb_netpol::node_report::NetworkPolicyNode;
use rhumb_netpol::{Namespace, NamespacedName, NetworkPolicy, Pod};
use tokio::sync::watch::{self as signal};
use tokio::task::coop;
use tokio::time::Instant;

use self::heartbeats::ObservationTime;
pub use self::metrics::NetworkPolicyStatusCollector;
use self::partial_node::PartialNode;
use self::state::{KeysToQueue, PlannedWrite, PolicyStatusState, WorkKey};
use crate::{ControllerContext, Error};
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};

/// Policies that are written concurrently.
const WORKERS: usize = 8;

/// Which kinds are watched; each stage adds kinds to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WatchedKinds {
    ReportsOnly,
    WithPolicies,
    WithPods,
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let shared = Arc::new(PolicyStatusController {
        client: context.client,
        state: Mutex::new(PolicyStatusState::new(
            context.options.node_quarantine,
            context.options.network_policy_grace_period,
        )),
        queue: WorkQueue::new(),
        has_warned: AtomicBool::new(false),
    });
    context
        .options
        .network_policy_metrics
        .set_controller(Arc::downgrade(&shared));
    let (stage, _) = signal::channel(WatchedKinds::ReportsOnly);
    let reports: Api<NetworkPolicyNode> = Api::all(context.reader.clone());
    let reports = watch(reports, Config::default(), |event| {
        if matches!(event, Event::InitDone) {
            advance_stage(&stage, WatchedKinds::WithPolicies);
        }
        shared.add(
            shared
                .state()
                .handle_report_event(event, ObservationTime::now()),
        );
    });
    let nodes: Api<PartialNode> = Api::all(context.reader.clone());
    let nodes = watch(nodes, Config::default(), |event| {
        shared.add(shared.state().handle_node_event(event));
    });
    let policies: Api<NetworkPolicy> = Api::all(context.reader.clone());
    let policies = watch(policies, Config::default(), |event| {
        if matches!(event, Event::Apply(_) | Event::InitApply(_)) {
            advance_stage(&stage, WatchedKinds::WithPods);
        }
        shared.add(shared.state().handle_policy_event(event, Instant::now()));
    });
    let namespaces: Api<Namespace> = Api::all(context.reader.clone());
    let namespaces = watch(namespaces, Config::default(), |event| {
        shared.add(shared.state().handle_namespace_event(event));
    });
    let pods: Api<Pod> = Api::all(context.reader);
    let pods = watch(pods, Config::default(), |event| {
        shared.add(
            shared
                .state()
                .handle_pod_event(event, ObservationTime::now()),
        );
    });
    let work = shared
        .queue
        .run_workers(WORKERS, |key| process_key(shared.clone(), key));
    tokio::select! {
        watched = reports => watched,
        watched = start_at_stage(&stage, WatchedKinds::WithPolicies, nodes) => watched,
        watched = start_at_stage(&stage, WatchedKinds::WithPolicies, policies) => watched,
        watched = start_at_stage(&stage, WatchedKinds::WithPods, namespaces) => watched,
        watched = start_at_stage(&stage, WatchedKinds::WithPods, pods) => watched,
        worked = work => worked,
    }
}

fn advance_stage(stage: &signal::Sender<WatchedKinds>, to: WatchedKinds) {
    stage.send_if_modified(|stage| {
        let is_higher = *stage < to;
        *stage = to.max(*stage);
        is_higher
    });
}

/// Starts the watch once the stage is reached.
async fn start_at_stage(
    stage: &signal::Sender<WatchedKinds>,
    at: WatchedKinds,
    watched: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let _ = stage.subscribe().wait_for(|stage| *stage >= at).await;
    watched.await
}

struct PolicyStatusController {
    client: Client,
    state: Mutex<PolicyStatusState>,
    queue: WorkQueue<WorkKey>,
    /// Whether the warning that the server drops the status has been logged.
    has_warned: AtomicBool,
}

impl PolicyStatusController {
    fn state(&self) -> MutexGuard<'_, PolicyStatusState> {
        self.state.lock()
    }

    fn add(&self, due: KeysToQueue) {
        for (key, pause) in due {
            if pause.is_zero() {
                self.queue.add(key);
            } else {
                self.queue.add_after(key, pause);
            }
        }
    }
}

async fn process_key(
    shared: Arc<PolicyStatusController>,
    key: WorkKey,
) -> Result<ReconcileAction, Error> {
    // Most keys need no write and never await: yield to other tasks.
    coop::consume_budget().await;
    match key {
        WorkKey::Policy(name) => reconcile_policy(&shared, &name).await,
        WorkKey::Policies => Ok(sweep_policies(&shared)),
        WorkKey::StaleReport(node) => delete_stale_report(&shared, &node).await,
        WorkKey::Heartbeat(node) => {
            let due = shared.state().check_heartbeat(&node, Instant::now());
            shared.add(due);
            Ok(ReconcileAction::AwaitChange)
        }
        WorkKey::Coverage(node) => {
            let due = shared.state().check_coverage(&node, Instant::now());
            shared.add(due);
            Ok(ReconcileAction::AwaitChange)
        }
    }
}

fn sweep_policies(shared: &PolicyStatusController) -> ReconcileAction {
    let swept = shared.state().sweep(Instant::now());
    match swept {
        Ok(names) => {
            let keys = names.into_iter().map(WorkKey::Policy);
            keys.for_each(|key| shared.queue.add(key));
            ReconcileAction::AwaitChange
        }
        Err(pause) => ReconcileAction::RequeueAfter(pause),
    }
}

/// Reconciles the status of one policy.
async fn reconcile_policy(
    shared: &PolicyStatusController,
    name: &NamespacedName,
) -> Result<ReconcileAction, Error> {
    let look = shared.state().plan_write(name, Instant::now());
    let write = match look {
        PlannedWrite::Nothing => return Ok(ReconcileAction::AwaitChange),
        PlannedWrite::Later(pause) => return Ok(ReconcileAction::RequeueAfter(pause)),
        PlannedWrite::Write(write) => write,
    };
    let policies: Api<NetworkPolicy> = Api::namespaced(shared.client.clone(), &name.namespace);
    let now = Timestamp::now().strftime("%FT%TZ").to_string();
    let patch = Patch::Strategic(write.patch(&now));
    let params = PatchParams::default();
    let patched = policies.patch_status(&name.name, &params, &patch).await;
    let Some(answer) = none_if_not_found(patched)? else {
        return Ok(ReconcileAction::AwaitChange);
    };
    let at = Instant::now();
    let Some(pause) = shared.state().record_write(name, &write, &answer, at) else {
        return Ok(ReconcileAction::AwaitChange);
    };
    if !shared.has_warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            policy = %name,
            "the API server drops the status of network policies (is the feature gate NetworkPolicyVersioning off?); \
             retrying each policy after a minute at the earliest"
        );
    }
    Ok(ReconcileAction::RequeueAfter(pause))
}

/// Deletes the report of a node that does not exist, unless the agent has just updated it.
async fn delete_stale_report(
    shared: &PolicyStatusController,
    node: &str,
) -> Result<ReconcileAction, Error> {
    let Some(stale_report) = shared.state().stale_report(node) else {
        return Ok(ReconcileAction::AwaitChange);
    };
    // The node watch may lag behind.
    let nodes: Api<PartialNode> = Api::all(shared.client.clone());
    if none_if_not_found(nodes.get(node).await)?.is_some() {
        return Ok(ReconcileAction::AwaitChange);
    }
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: stale_report.uid,
            resource_version: stale_report.version,
        }),
        ..DeleteParams::default()
    };
    let reports: Api<NetworkPolicyNode> = Api::all(shared.client.clone());
    match none_if_not_found(reports.delete(node, &params).await) {
        // The agent has updated the report; the watch will deliver it.
        Err(error) if error.is_conflict() => {}
        deleted => {
            if deleted?.is_some() {
                tracing::info!(
                    node,
                    "deleted the NetworkPolicyNode report of a node that does not exist"
                );
            }
        }
    }
    Ok(ReconcileAction::AwaitChange)
}

#[cfg(test)]
mod tests;
