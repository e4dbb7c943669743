//! State of the simulated nodes: registration, lease renewal, status reports.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rhumb_client::Error;
use rhumb_client::informer::Event;
use tokio::time::Instant;

use super::{DelayedWork, FAILURES_QUIET, NodeWork, PodUid, SurplusNode, WorkQueues, pause};
use crate::api_client::ApiClient;
use crate::names::SIMULATED;
use crate::node_objects;
use crate::node_pools::{NodeIdentity, NodePools, PodIpAllocator};
use crate::partial_objects;
use crate::pods::status::PodAddresses;

/// Intervals of a kubelet.
const LEASE_RENEW_INTERVAL: Duration = Duration::from_secs(10);
const STATUS_REPORT_INTERVAL: Duration = Duration::from_secs(300);

/// Recurring tasks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeRequest {
    Register,
    Renew,
    Report,
    /// An extra status report, because another client changed its conditions.
    CorrectStatus,
}

/// Registration of a simulated node after a successful task.
#[derive(Debug)]
pub(super) enum NodeRequestOutcome {
    /// Registered, with this UID.
    Registered(String),
    /// A node of its name exists that is not simulated.
    NameTaken,
    /// The task was done by a node that is registered already.
    Unchanged,
}

type NodeRequestFuture = Pin<Box<dyn Future<Output = Result<NodeRequestOutcome, Error>> + Send>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeState {
    Unregistered,
    Registered,
    /// It was deleted, or it is not a simulated node. Its pods are left alone.
    Absent,
}

struct SimulatedNode {
    identity: NodeIdentity,
    state: NodeState,
    uid: String,
    /// Uid of the last deleted node of this name: its delete event may arrive before the response of its creation.
    deleted: Option<String>,
    /// Whether the API server has a node of this name, as far as known.
    is_known: bool,
    has_lease: bool,
    /// Types of the conditions that the server has with a wrong status.
    wrong_conditions: Vec<&'static str>,
    is_correction_queued: bool,
    epoch: u32,
    failures: u32,
    slots: PodIpAllocator,
    /// Pods that wait for its registration.
    waiting_pods: BTreeSet<PodUid>,
}

/// Identifies a watched node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeKey {
    name: String,
    uid: String,
}

impl NodeKey {
    pub(super) fn of(node: &partial_objects::Node) -> NodeKey {
        NodeKey {
            name: node.metadata.name.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
        }
    }
}

pub(super) struct SimulatedNodes {
    node_pools: Arc<NodePools>,
    nodes: Vec<SimulatedNode>,
    by_name: HashMap<String, usize>,
    surplus: Vec<SurplusNode>,
    has_begun: bool,
    registered: usize,
    started_at: Instant,
}

impl SimulatedNodes {
    pub(super) fn new(node_pools: NodePools) -> SimulatedNodes {
        let nodes: Vec<SimulatedNode> = node_pools
            .places()
            .into_iter()
            .map(SimulatedNode::new)
            .collect();
        let names = nodes.iter().map(|node| node.identity.name.clone());
        SimulatedNodes {
            by_name: names.zip(0..).collect(),
            node_pools: Arc::new(node_pools),
            nodes,
            surplus: Vec::new(),
            has_begun: false,
            registered: 0,
            started_at: Instant::now(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Whether the node is registered, so that its pods can be simulated.
    pub(super) fn is_there(&self, node: usize) -> bool {
        self.nodes
            .get(node)
            .is_some_and(|own| own.state == NodeState::Registered)
    }

    /// Remembers a pod until the node is registered.
    pub(super) fn add_waiting_pod(&mut self, node: usize, pod: &PodUid) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.waiting_pods.insert(pod.clone());
        }
    }

    /// Forgets a pod that waited for the node.
    pub(super) fn let_go(&mut self, node: usize, pod: &str) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.waiting_pods.remove(pod);
        }
    }

    pub(super) fn slot_of(&self, node: usize, address: &str) -> Option<u32> {
        let address: Ipv4Addr = address.parse().ok()?;
        self.nodes.get(node)?.identity.slot(address)
    }

    pub(super) fn slots(&mut self, node: usize) -> Option<&mut PodIpAllocator> {
        self.nodes.get_mut(node).map(|own| &mut own.slots)
    }

    /// A pod without a slot uses the host network and has the node's address.
    pub(super) fn addresses(&self, node: usize, slot: Option<u32>) -> Option<PodAddresses> {
        let identity = &self.nodes.get(node)?.identity;
        let host = identity.address();
        let pod = slot.map_or(host, |slot| identity.pod_address(slot));
        Some(PodAddresses { host, pod })
    }

    pub(super) fn note(
        &mut self,
        event: Event<partial_objects::Node, NodeKey>,
        queues: &mut WorkQueues,
    ) {
        match event {
            Event::Applied(node) => self.is_seen(node, queues),
            Event::Deleted(NodeKey { name, uid }) => {
                if let Some(index) = self.find(&name) {
                    self.is_deleted(index, uid);
                }
            }
            Event::Replaced(keys) => self.is_listed(&keys, queues),
        }
    }

    fn is_seen(&mut self, seen: partial_objects::Node, queues: &mut WorkQueues) {
        let name = seen.metadata.name.unwrap_or_default();
        let uid = seen.metadata.uid.unwrap_or_default();
        let Some(index) = self.find(&name) else {
            // Nodes that appear after the first list belong to others.
            if !self.has_begun {
                self.surplus.push(SurplusNode::new(name, uid));
            }
            return;
        };
        let has_begun = self.has_begun;
        let Some(node) = self.nodes.get_mut(index) else {
            return;
        };
        node.is_known = true;
        match node.state {
            NodeState::Registered if node.uid == uid => {
                node.wrong_conditions = node_objects::wrong_conditions(&seen.status.conditions);
                if !node.wrong_conditions.is_empty() && !node.is_correction_queued {
                    node.is_correction_queued = true;
                    queues
                        .node_work
                        .push_back(node.new_work(index, NodeRequest::CorrectStatus));
                }
            }
            NodeState::Registered | NodeState::Absent if has_begun => {
                node.state = NodeState::Unregistered;
                queues
                    .node_work
                    .push_back(node.new_work(index, NodeRequest::Register));
            }
            _ => {}
        }
    }

    fn is_deleted(&mut self, node: usize, uid: String) {
        if let Some(node) = self.nodes.get_mut(node) {
            if node.uid == uid {
                node.on_deleted();
            }
            node.is_known = false;
            node.deleted = Some(uid);
        }
    }

    fn is_listed(&mut self, keys: &HashSet<NodeKey>, queues: &mut WorkQueues) {
        if self.has_begun {
            let listed: HashSet<&str> = keys.iter().map(|key| &*key.name).collect();
            let missing = self.nodes.iter_mut();
            missing
                .filter(|node| !listed.contains(node.identity.name.as_str()))
                .for_each(SimulatedNode::on_deleted);
            return;
        }
        self.has_begun = true;
        queues.surplus.extend(self.surplus.drain(..));
        let all = self.nodes.iter().zip(0..);
        let all = all.map(|(node, index)| node.new_work(index, NodeRequest::Register));
        queues.node_work.extend(all);
    }

    /// The request of a task; `None` if the task is obsolete.
    pub(super) fn job(&mut self, work: NodeWork, server: &ApiClient) -> Option<NodeRequestFuture> {
        let node = self.nodes.get_mut(work.node)?;
        let wanted = match work.task {
            NodeRequest::Register => NodeState::Unregistered,
            _ => NodeState::Registered,
        };
        if node.state != wanted || node.epoch != work.epoch {
            return None;
        }
        let (server, name) = (server.clone(), node.identity.name.clone());
        Some(match work.task {
            NodeRequest::Register => {
                let (node_pools, identity, is_known) = (
                    self.node_pools.clone(),
                    node.identity.clone(),
                    node.is_known,
                );
                Box::pin(async move { register(&server, &node_pools, &identity, is_known).await })
            }
            NodeRequest::Renew => {
                let (uid, has_lease) = (node.uid.clone(), node.has_lease);
                Box::pin(async move {
                    renew(&server, &name, &uid, has_lease).await?;
                    Ok(NodeRequestOutcome::Unchanged)
                })
            }
            NodeRequest::Report | NodeRequest::CorrectStatus => {
                node.is_correction_queued = false;
                let conditions = node_objects::conditions(&node.wrong_conditions, Timestamp::now());
                let status = serde_json::json!({"conditions": conditions});
                Box::pin(async move {
                    server.patch_node_status(&name, status).await?;
                    Ok(NodeRequestOutcome::Unchanged)
                })
            }
        })
    }

    /// Handles the result of a task and schedules the next; returns the pods that waited for the registration.
    pub(super) fn on_task_done(
        &mut self,
        work: NodeWork,
        result: Result<NodeRequestOutcome, Error>,
        queues: &mut WorkQueues,
    ) -> Vec<PodUid> {
        let Some(node) = self.nodes.get_mut(work.node) else {
            return Vec::new();
        };
        if node.epoch != work.epoch {
            return Vec::new();
        }
        let task = work.task;
        let now = Instant::now();
        let mut plan =
            |work: NodeWork, time| queues.timers.add(now + time, DelayedWork::Node(work));
        match result {
            // The watch may have missed the deletion if it was restarting.
            Err(error)
                if error.is_not_found()
                    && matches!(task, NodeRequest::Report | NodeRequest::CorrectStatus) =>
            {
                node.on_deleted();
            }
            Err(error) => {
                node.failures = node.failures.saturating_add(1);
                if node.failures == FAILURES_QUIET + 1 {
                    let name = &node.identity.name;
                    tracing::warn!(node = name, %error, ?task, "request of simulated node keeps failing; retrying");
                }
                // If the node was deleted, the watch reports it.
                plan(work, pause(node.failures));
            }
            Ok(NodeRequestOutcome::Registered(uid)) if node.deleted.as_ref() == Some(&uid) => {
                node.state = NodeState::Registered;
                node.on_deleted();
            }
            Ok(NodeRequestOutcome::Registered(uid)) => {
                node.failures = 0;
                node.uid = uid;
                node.state = NodeState::Registered;
                node.epoch = node.epoch.wrapping_add(1);
                node.has_lease = false;
                node.is_correction_queued = false;
                let report = node.new_work(work.node, NodeRequest::Report);
                plan(report, node.share_of(STATUS_REPORT_INTERVAL));
                queues
                    .node_work
                    .push_back(node.new_work(work.node, NodeRequest::Renew));
                self.registered += 1;
                if self.registered == self.nodes.len() {
                    let took = self.started_at.elapsed();
                    let nodes = self.registered;
                    tracing::info!(nodes, ?took, "all simulated nodes are registered");
                }
                let node = self.nodes.get_mut(work.node);
                let waiting_pods = node.map(|node| std::mem::take(&mut node.waiting_pods));
                return waiting_pods.into_iter().flatten().collect();
            }
            Ok(NodeRequestOutcome::NameTaken) => {
                let name = &node.identity.name;
                tracing::warn!(
                    node = name,
                    "a node of this name exists that is not simulated; leaving it alone"
                );
                node.state = NodeState::Absent;
            }
            Ok(NodeRequestOutcome::Unchanged) => {
                node.failures = 0;
                match task {
                    NodeRequest::Register => {}
                    NodeRequest::CorrectStatus => node.on_conditions_corrected(),
                    // Stagger the first renewals, and thereby all later ones.
                    NodeRequest::Renew if !node.has_lease => {
                        node.has_lease = true;
                        plan(work, node.share_of(LEASE_RENEW_INTERVAL));
                    }
                    NodeRequest::Renew => plan(work, LEASE_RENEW_INTERVAL),
                    NodeRequest::Report => {
                        node.on_conditions_corrected();
                        plan(work, STATUS_REPORT_INTERVAL);
                    }
                }
            }
        }
        Vec::new()
    }
}

impl SimulatedNode {
    fn new(identity: NodeIdentity) -> SimulatedNode {
        SimulatedNode {
            identity,
            state: NodeState::Unregistered,
            uid: String::new(),
            deleted: None,
            is_known: false,
            has_lease: false,
            wrong_conditions: Vec::new(),
            is_correction_queued: false,
            epoch: 0,
            failures: 0,
            slots: PodIpAllocator::default(),
            waiting_pods: BTreeSet::new(),
        }
    }

    fn new_work(&self, node: usize, task: NodeRequest) -> NodeWork {
        NodeWork {
            node,
            task,
            epoch: self.epoch,
        }
    }

    /// The node was deleted from the API server.
    fn on_deleted(&mut self) {
        if self.state == NodeState::Registered {
            self.is_known = false;
            tracing::info!(
                node = self.identity.name,
                "simulated node was deleted; leaving it absent"
            );
            self.state = NodeState::Absent;
        }
    }

    /// The server has the right conditions now, unless another correction is queued.
    fn on_conditions_corrected(&mut self) {
        if !self.is_correction_queued {
            self.wrong_conditions.clear();
        }
    }

    /// A fraction of the period that differs per node: multiples of the golden ratio are spread evenly for any number
    /// of nodes.
    fn share_of(&self, period: Duration) -> Duration {
        let share = (f64::from(self.identity.number) * 0.618_033_988_75).fract();
        period.mul_f64(share)
    }
}

async fn register(
    server: &ApiClient,
    node_pools: &NodePools,
    identity: &NodeIdentity,
    is_known: bool,
) -> Result<NodeRequestOutcome, Error> {
    let template = node_pools.template(identity);
    if !is_known {
        let node = node_objects::object(identity, template, Timestamp::now());
        match server.create_node(&node).await {
            Err(error) if error.is_conflict() => {}
            made => return Ok(NodeRequestOutcome::Registered(made?.uid())),
        }
    }
    let node = server.node(&identity.name).await?;
    let labels = node.metadata.labels.as_ref();
    if labels.and_then(|labels| labels.get(SIMULATED)).is_none() {
        return Ok(NodeRequestOutcome::NameTaken);
    }
    if let Some(patch) = node_objects::adoption(identity, template, &node) {
        server.patch_node(&identity.name, &patch).await?;
    }
    let status = node_objects::status(identity, template, Some(&node), Timestamp::now());
    server.patch_node_status(&identity.name, status).await?;
    Ok(NodeRequestOutcome::Registered(
        node.metadata.uid.unwrap_or_default(),
    ))
}

/// Renews or creates the lease: an unknown one may exist from an earlier run, a known one may have been deleted.
async fn renew(server: &ApiClient, node: &str, uid: &str, is_known: bool) -> Result<(), Error> {
    let now = Timestamp::now();
    if is_known {
        let renewal = node_objects::renewal(node, None, now);
        match server.renew_lease(node, &renewal).await {
            Err(error) if error.is_not_found() => {}
            renewed => return renewed,
        }
    }
    match server
        .create_lease(&node_objects::lease(node, uid, now))
        .await
    {
        Err(error) if error.is_conflict() => {
            let renewal = node_objects::renewal(node, Some(uid), now);
            server.renew_lease(node, &renewal).await
        }
        created => created,
    }
}

/// Deletes a surplus node and its lease. Its pods are left to the pod garbage collector.
pub(super) async fn remove(server: &ApiClient, surplus: &SurplusNode) -> Result<(), Error> {
    match server.delete_node(&surplus.name, &surplus.uid).await {
        Err(error) if error.is_not_found() => {}
        // The name belongs to a new node of someone else.
        Err(error) if error.is_conflict() => return Ok(()),
        removed => removed?,
    }
    match server.delete_lease(&surplus.name).await {
        Err(error) if error.is_not_found() => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
