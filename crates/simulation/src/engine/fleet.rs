//! The nodes: who is registered, who has said what, and what each has to say next.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use rhumb_client::Error;
use tokio::time::Instant;

use super::{Desk, Due, FAILURES_QUIET, Surplus, Uid, Work, pause};
use crate::fleet::{Fleet, Place, Slots};
use crate::names::SIMULATED;
use crate::nodes;
use crate::pods::status::Addresses;
use crate::requests::Server;
use crate::wire;

/// As a kubelet does it.
const RENEW: Duration = Duration::from_secs(10);
const REPORT: Duration = Duration::from_secs(300);

/// What a node does again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Register,
    Renew,
    Report,
    /// A report out of turn: somebody says something else about it.
    Contradict,
}

/// What a request about a node came to.
#[derive(Debug)]
pub(super) enum Registered {
    As(String),
    /// There is another node of its name, which is not simulated.
    Not,
    /// It was, before.
    Already,
}

type Job = Pin<Box<dyn Future<Output = Result<Registered, Error>> + Send>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unregistered,
    Registered,
    /// Somebody deleted it, or it is not ours. Its pods are not touched.
    Absent,
}

struct Node {
    place: Place,
    state: State,
    uid: String,
    /// The uid of the last one that was deleted: whoever made it may hear so before the server says that it is made.
    deleted: Option<String>,
    /// Whether the server has one, as far as is known.
    is_known: bool,
    has_lease: bool,
    /// Which of its conditions the server has wrong.
    wrong: Vec<&'static str>,
    is_contradicting: bool,
    epoch: u32,
    failures: u32,
    slots: Slots,
    /// Pods that wait until it is registered.
    held: BTreeSet<Uid>,
}

pub(super) struct Nodes {
    fleet: Arc<Fleet>,
    nodes: Vec<Node>,
    by_name: HashMap<String, usize>,
    listed: HashSet<String>,
    surplus: Vec<Surplus>,
    has_begun: bool,
    registered: usize,
    begun: Instant,
}

impl Nodes {
    pub(super) fn new(fleet: Fleet) -> Nodes {
        let nodes: Vec<Node> = fleet.places().into_iter().map(Node::new).collect();
        let names = nodes.iter().map(|node| node.place.name.clone());
        Nodes {
            by_name: names.zip(0..).collect(),
            fleet: Arc::new(fleet),
            nodes,
            listed: HashSet::new(),
            surplus: Vec::new(),
            has_begun: false,
            registered: 0,
            begun: Instant::now(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Whether pods on it can be looked after.
    pub(super) fn is_there(&self, node: usize) -> bool {
        self.nodes
            .get(node)
            .is_some_and(|own| own.state == State::Registered)
    }

    /// Keeps a pod in mind until the node is there.
    pub(super) fn hold(&mut self, node: usize, pod: &Uid) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.held.insert(pod.clone());
        }
    }

    /// A pod that waited for the node is gone.
    pub(super) fn let_go(&mut self, node: usize, pod: &str) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.held.remove(pod);
        }
    }

    pub(super) fn slot_of(&self, node: usize, address: &str) -> Option<u32> {
        let address: Ipv4Addr = address.parse().ok()?;
        self.nodes.get(node)?.place.slot(address)
    }

    pub(super) fn slots(&mut self, node: usize) -> Option<&mut Slots> {
        self.nodes.get_mut(node).map(|own| &mut own.slots)
    }

    /// Without a slot a pod has the address of its node.
    pub(super) fn addresses(&self, node: usize, slot: Option<u32>) -> Option<Addresses> {
        let place = &self.nodes.get(node)?.place;
        let host = place.address();
        let pod = slot.map_or(host, |slot| place.pod_address(slot));
        Some(Addresses { host, pod })
    }

    pub(super) fn note(&mut self, event: Event<wire::Node>, desk: &mut Desk) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                self.listed.insert(name);
                self.is_seen(node, desk);
            }
            Event::Apply(node) => self.is_seen(node, desk),
            Event::Delete(node) => {
                let name = node.metadata.name.unwrap_or_default();
                if let Some(index) = self.find(&name) {
                    self.is_deleted(index, node.metadata.uid.unwrap_or_default());
                }
            }
            Event::InitDone => self.is_listed(desk),
        }
    }

    fn is_seen(&mut self, seen: wire::Node, desk: &mut Desk) {
        let name = seen.metadata.name.unwrap_or_default();
        let uid = seen.metadata.uid.unwrap_or_default();
        let Some(index) = self.find(&name) else {
            // What comes later is somebody else's.
            if !self.has_begun {
                self.surplus.push(Surplus::new(name, uid));
            }
            return;
        };
        let has_begun = self.has_begun;
        let Some(node) = self.nodes.get_mut(index) else {
            return;
        };
        node.is_known = true;
        match node.state {
            State::Registered if node.uid == uid => {
                node.wrong = nodes::wrong_conditions(&seen.status.conditions);
                if !node.wrong.is_empty() && !node.is_contradicting {
                    node.is_contradicting = true;
                    desk.node_work.push_back(node.work(index, Task::Contradict));
                }
            }
            State::Registered | State::Absent if has_begun => {
                node.state = State::Unregistered;
                desk.node_work.push_back(node.work(index, Task::Register));
            }
            _ => {}
        }
    }

    fn is_deleted(&mut self, node: usize, uid: String) {
        if let Some(node) = self.nodes.get_mut(node) {
            if node.uid == uid {
                node.is_gone();
            }
            node.is_known = false;
            node.deleted = Some(uid);
        }
    }

    fn is_listed(&mut self, desk: &mut Desk) {
        let listed = std::mem::take(&mut self.listed);
        if self.has_begun {
            let missing = self.nodes.iter_mut();
            missing
                .filter(|node| !listed.contains(&node.place.name))
                .for_each(Node::is_gone);
            return;
        }
        self.has_begun = true;
        desk.surplus.extend(self.surplus.drain(..));
        let all = self.nodes.iter().zip(0..);
        let all = all.map(|(node, index)| node.work(index, Task::Register));
        desk.node_work.extend(all);
    }

    /// `None` if it no longer means anything.
    pub(super) fn job(&mut self, work: Work, server: &Server) -> Option<Job> {
        let node = self.nodes.get_mut(work.node)?;
        let wanted = match work.task {
            Task::Register => State::Unregistered,
            _ => State::Registered,
        };
        if node.state != wanted || node.epoch != work.epoch {
            return None;
        }
        let (server, name) = (server.clone(), node.place.name.clone());
        Some(match work.task {
            Task::Register => {
                let (fleet, place, is_known) =
                    (self.fleet.clone(), node.place.clone(), node.is_known);
                Box::pin(async move { register(&server, &fleet, &place, is_known).await })
            }
            Task::Renew => {
                let (uid, has_lease) = (node.uid.clone(), node.has_lease);
                Box::pin(async move {
                    renew(&server, &name, &uid, has_lease).await?;
                    Ok(Registered::Already)
                })
            }
            Task::Report | Task::Contradict => {
                node.is_contradicting = false;
                let conditions = nodes::conditions(&node.wrong, Timestamp::now());
                let status = serde_json::json!({"conditions": conditions});
                Box::pin(async move {
                    server.patch_node_status(&name, status).await?;
                    Ok(Registered::Already)
                })
            }
        })
    }

    /// Plans what the node does next; gives the pods that waited for it.
    pub(super) fn done(
        &mut self,
        work: Work,
        result: Result<Registered, Error>,
        desk: &mut Desk,
    ) -> Vec<Uid> {
        let Some(node) = self.nodes.get_mut(work.node) else {
            return Vec::new();
        };
        if node.epoch != work.epoch {
            return Vec::new();
        }
        let task = work.task;
        let now = Instant::now();
        let mut plan = |work: Work, time| desk.timers.add(now + time, Due::Node(work));
        match result {
            // The watch may have missed it: the node came and went while it was begun anew.
            Err(error)
                if error.is_not_found() && matches!(task, Task::Report | Task::Contradict) =>
            {
                node.is_gone();
            }
            Err(error) => {
                node.failures = node.failures.saturating_add(1);
                if node.failures == FAILURES_QUIET + 1 {
                    let name = &node.place.name;
                    tracing::warn!(node = name, %error, ?task, "a simulated node has no success; it tries on");
                }
                // When somebody has deleted the node, its watch says so.
                plan(work, pause(node.failures));
            }
            Ok(Registered::As(uid)) if node.deleted.as_ref() == Some(&uid) => {
                node.state = State::Registered;
                node.is_gone();
            }
            Ok(Registered::As(uid)) => {
                node.failures = 0;
                node.uid = uid;
                node.state = State::Registered;
                node.epoch = node.epoch.wrapping_add(1);
                node.has_lease = false;
                node.is_contradicting = false;
                let report = node.work(work.node, Task::Report);
                plan(report, node.share_of(REPORT));
                desk.node_work.push_back(node.work(work.node, Task::Renew));
                self.registered += 1;
                if self.registered == self.nodes.len() {
                    let took = self.begun.elapsed();
                    let nodes = self.registered;
                    tracing::info!(nodes, ?took, "simulated nodes are registered");
                }
                let node = self.nodes.get_mut(work.node);
                let held = node.map(|node| std::mem::take(&mut node.held));
                return held.into_iter().flatten().collect();
            }
            Ok(Registered::Not) => {
                let name = &node.place.name;
                tracing::warn!(
                    node = name,
                    "there is a node of this name that is not simulated: it is left alone"
                );
                node.state = State::Absent;
            }
            Ok(Registered::Already) => {
                node.failures = 0;
                match task {
                    Task::Register => {}
                    Task::Contradict => node.is_heard(),
                    // The first renewals are spread, and with them all that follow.
                    Task::Renew if !node.has_lease => {
                        node.has_lease = true;
                        plan(work, node.share_of(RENEW));
                    }
                    Task::Renew => plan(work, RENEW),
                    Task::Report => {
                        node.is_heard();
                        plan(work, REPORT);
                    }
                }
            }
        }
        Vec::new()
    }
}

impl Node {
    fn new(place: Place) -> Node {
        Node {
            place,
            state: State::Unregistered,
            uid: String::new(),
            deleted: None,
            is_known: false,
            has_lease: false,
            wrong: Vec::new(),
            is_contradicting: false,
            epoch: 0,
            failures: 0,
            slots: Slots::default(),
            held: BTreeSet::new(),
        }
    }

    fn work(&self, node: usize, task: Task) -> Work {
        Work {
            node,
            task,
            epoch: self.epoch,
        }
    }

    /// The server has no such node any more: somebody deleted it.
    fn is_gone(&mut self) {
        if self.state == State::Registered {
            self.is_known = false;
            tracing::info!(node = self.place.name, "a simulated node was deleted");
            self.state = State::Absent;
        }
    }

    /// The server knows its conditions, unless somebody said something else meanwhile.
    fn is_heard(&mut self) {
        if !self.is_contradicting {
            self.wrong.clear();
        }
    }

    /// A part of a period, another one for each node: multiples of the golden section are spread evenly, however
    /// many there are.
    fn share_of(&self, period: Duration) -> Duration {
        let share = (f64::from(self.place.number) * 0.618_033_988_75).fract();
        period.mul_f64(share)
    }
}

async fn register(
    server: &Server,
    fleet: &Fleet,
    place: &Place,
    is_known: bool,
) -> Result<Registered, Error> {
    let template = fleet.template(place);
    if !is_known {
        let node = nodes::object(place, template, Timestamp::now());
        match server.create_node(&node).await {
            Err(error) if error.is_conflict() => {}
            made => return Ok(Registered::As(made?.uid())),
        }
    }
    let node = server.node(&place.name).await?;
    let labels = node.metadata.labels.as_ref();
    if labels.and_then(|labels| labels.get(SIMULATED)).is_none() {
        return Ok(Registered::Not);
    }
    if let Some(patch) = nodes::adoption(place, template, &node) {
        server.patch_node(&place.name, &patch).await?;
    }
    let status = nodes::status(place, template, Some(&node), Timestamp::now());
    server.patch_node_status(&place.name, status).await?;
    Ok(Registered::As(node.metadata.uid.unwrap_or_default()))
}

/// A lease that is not known may be there from an earlier run, and one that is known may have been deleted.
async fn renew(server: &Server, node: &str, uid: &str, is_known: bool) -> Result<(), Error> {
    let now = Timestamp::now();
    if is_known {
        let renewal = nodes::renewal(node, None, now);
        match server.renew_lease(node, &renewal).await {
            Err(error) if error.is_not_found() => {}
            renewed => return renewed,
        }
    }
    match server.create_lease(&nodes::lease(node, uid, now)).await {
        Err(error) if error.is_conflict() => {
            let renewal = nodes::renewal(node, Some(uid), now);
            server.renew_lease(node, &renewal).await
        }
        created => created,
    }
}

/// A node that is too many, and its lease. Its pods are left to those who look after pods without a node.
pub(super) async fn remove(server: &Server, surplus: &Surplus) -> Result<(), Error> {
    match server.delete_node(&surplus.name, &surplus.uid).await {
        Err(error) if error.is_not_found() => {}
        // It is another one by now, and somebody else's.
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
