//! The pods on simulated nodes: what each is waiting for.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::Event;
use rhumb_client::Error;
use tokio::time::Instant;

use super::fleet::Nodes;
use super::notes::Note;
use super::{Desk, Due, EVENTS_MAX, FAILURES_QUIET, Uid, pause};
use crate::fleet::Slots;
use crate::pods::facts::{Facts, Sight, Stage};
use crate::pods::life::{Change, Step, next};
use crate::pods::status;
use crate::wire;

/// How long a change that made a write fail may take until it is heard of.
const HEARD_OF_MAX: Duration = Duration::from_secs(5);

/// No timer is longer: what rings early waits on. So timers of pods that are gone do not pile up.
const LOOK: Duration = Duration::from_secs(300);

type Job = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

struct Pod {
    facts: Facts,
    node: usize,
    sight: Sight,
    slot: Option<u32>,
    /// What its timer is for. Others that are still in the queue mean nothing.
    due: Option<Timestamp>,
    is_queued: bool,
    /// It waits for its node.
    is_held: bool,
    /// The version that a request is under way about.
    writing: Option<String>,
    /// The version about which everything was done that can be: what comes next, a new version shows.
    acted_on: Option<String>,
    problems: Vec<String>,
    failures: u32,
}

/// Those that are not over: what is finished is forgotten until somebody deletes it.
#[derive(Default)]
pub(super) struct Pods {
    pods: HashMap<Uid, Pod>,
    listed: HashSet<Uid>,
    /// Addresses can be given when it is known who has one.
    has_begun: bool,
}

impl Pods {
    pub(super) fn note(&mut self, event: Event<wire::Pod>, nodes: &mut Nodes, desk: &mut Desk) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                if let Some(uid) = self.is_seen(pod, nodes, desk) {
                    self.listed.insert(uid);
                }
            }
            Event::Apply(pod) => drop(self.is_seen(pod, nodes, desk)),
            Event::Delete(pod) => {
                let uid = pod.metadata.uid.unwrap_or_default();
                self.forget(&uid, nodes);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.pods.keys().filter(|uid| !listed.contains(*uid));
                for uid in gone.cloned().collect::<Vec<_>>() {
                    self.forget(&uid, nodes);
                }
                if !std::mem::replace(&mut self.has_begun, true) {
                    self.consider_all(listed, nodes, desk);
                }
            }
        }
    }

    /// Its uid, if it is to be looked after.
    fn is_seen(&mut self, seen: wire::Pod, nodes: &mut Nodes, desk: &mut Desk) -> Option<Uid> {
        let node = nodes.find(&seen.spec.node_name)?;
        let (facts, problems) = Facts::read(seen);
        let uid = Uid::from(facts.uid.as_str());
        let stage = facts.stage();
        if matches!(
            stage,
            Stage::Finished | Stage::Stopped { is_confirmed: true }
        ) {
            self.forget(&uid, nodes);
            return None;
        }
        let now = Timestamp::now();
        let slot = nodes.slot_of(node, &facts.status.pod_ip);
        match self.pods.get_mut(&uid) {
            Some(pod) => {
                pod.sight.update(stage, now);
                pod.facts = facts;
            }
            None => {
                let pod = Pod {
                    sight: Sight::new(stage, now),
                    facts,
                    node,
                    slot: None,
                    due: None,
                    is_queued: false,
                    is_held: false,
                    writing: None,
                    acted_on: None,
                    problems: Vec::new(),
                    failures: 0,
                };
                self.pods.insert(uid.clone(), pod);
            }
        }
        let pod = self.pods.get_mut(&uid)?;
        if slot.is_some() && pod.slot != slot {
            pod.move_to(slot, nodes);
        }
        pod.tell(problems, desk);
        self.consider(&uid, nodes, desk);
        Some(uid)
    }

    fn forget(&mut self, uid: &str, nodes: &mut Nodes) {
        if let Some(mut pod) = self.pods.remove(uid) {
            if pod.is_held {
                nodes.let_go(pod.node, uid);
            }
            pod.move_to(None, nodes);
        }
    }

    /// Goes on with those that waited for their node.
    pub(super) fn resume(&mut self, held: Vec<Uid>, nodes: &mut Nodes, desk: &mut Desk) {
        for uid in &held {
            if let Some(pod) = self.pods.get_mut(uid) {
                pod.is_held = false;
            }
        }
        self.consider_all(held, nodes, desk);
    }

    fn consider_all(
        &mut self,
        pods: impl IntoIterator<Item = Uid>,
        nodes: &mut Nodes,
        desk: &mut Desk,
    ) {
        for uid in pods {
            self.consider(&uid, nodes, desk);
        }
    }

    /// Has done what is to be done about a pod, now or when it is time.
    fn consider(&mut self, uid: &Uid, nodes: &mut Nodes, desk: &mut Desk) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        let is_busy = pod.is_queued || pod.is_held || pod.writing.is_some();
        if is_busy || !self.has_begun || pod.acted_on.as_ref() == Some(&pod.facts.version) {
            return;
        }
        if !nodes.is_there(pod.node) {
            pod.is_held = true;
            return nodes.hold(pod.node, uid);
        }
        let now = Timestamp::now();
        match next(&pod.facts, &pod.sight, now) {
            Step::Rest => pod.due = None,
            Step::Wait(due) => pod.wait(uid, due, now, desk),
            Step::Write(_) | Step::Delete => {
                pod.is_queued = true;
                desk.pod_work.push_back(uid.clone());
            }
        }
    }

    pub(super) fn due(&mut self, uid: &Uid, at: Timestamp, nodes: &mut Nodes, desk: &mut Desk) {
        if let Some(pod) = self.pods.get_mut(uid)
            && pod.due == Some(at)
        {
            pod.due = None;
            pod.acted_on = None;
            self.consider(uid, nodes, desk);
        }
    }

    /// What is to be written about a pod whose turn it is. It may have changed since it began to wait for it.
    pub(super) fn job(&mut self, uid: &Uid, nodes: &mut Nodes, desk: &mut Desk) -> Option<Job> {
        let pod = self.pods.get_mut(uid)?;
        pod.is_queued = false;
        let now = Timestamp::now();
        let change = match next(&pod.facts, &pod.sight, now) {
            Step::Write(change) if nodes.is_there(pod.node) => Some(change),
            Step::Delete if nodes.is_there(pod.node) => None,
            _ => {
                self.consider(uid, nodes, desk);
                return None;
            }
        };
        let server = desk.server.clone();
        let (namespace, name) = (pod.facts.namespace.clone(), pod.facts.name.clone());
        let Some(change) = change else {
            pod.writing = Some(pod.facts.version.clone());
            let uid = uid.clone();
            return Some(Box::pin(async move {
                server.delete_pod(&namespace, &name, &uid).await
            }));
        };
        if !pod.find_address(change, nodes) {
            pod.fail("there is no address left on its node", uid, desk);
            return None;
        }
        pod.writing = Some(pod.facts.version.clone());
        let addresses = nodes.addresses(pod.node, pod.slot)?;
        let patch = status::patch(&pod.facts, change, addresses, now);
        Some(Box::pin(async move {
            server.patch_pod_status(&namespace, &name, &patch).await
        }))
    }

    pub(super) fn done(
        &mut self,
        uid: &Uid,
        result: Result<(), Error>,
        nodes: &mut Nodes,
        desk: &mut Desk,
    ) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        let version = pod.writing.take();
        match result {
            Ok(()) => {
                pod.failures = 0;
                pod.acted_on = version;
                self.consider(uid, nodes, desk);
            }
            // What is gone or has changed will be heard of.
            Err(error) if error.is_not_found() || error.is_conflict() => {
                pod.acted_on = version;
                let now = Timestamp::now();
                let at = now.checked_add(HEARD_OF_MAX).unwrap_or(Timestamp::MAX);
                pod.wait(uid, at, now, desk);
                self.consider(uid, nodes, desk);
            }
            Err(error) => pod.fail(&error.to_string(), uid, desk),
        }
    }
}

impl Pod {
    fn wait(&mut self, uid: &Uid, due: Timestamp, now: Timestamp, desk: &mut Desk) {
        if self.due != Some(due) {
            self.due = Some(due);
            let left = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            let at = Instant::now() + left.min(LOOK);
            desk.timers.add(at, Due::Pod(uid.clone(), due));
        }
    }

    fn fail(&mut self, problem: &str, uid: &Uid, desk: &mut Desk) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == FAILURES_QUIET + 1 {
            let (namespace, pod) = (&self.facts.namespace, &self.facts.name);
            tracing::warn!(
                namespace,
                pod,
                problem,
                "a simulated pod does not go on; it is tried again"
            );
        }
        let now = Timestamp::now();
        let at = now.checked_add(pause(self.failures));
        self.acted_on = Some(self.facts.version.clone());
        self.wait(uid, at.unwrap_or(Timestamp::MAX), now, desk);
    }

    /// Whether the pod has an address, or needs none.
    fn find_address(&mut self, change: Change, nodes: &mut Nodes) -> bool {
        let needs_one = matches!(change, Change::Start { .. }) && !self.facts.spec.host_network;
        if needs_one && self.slot.is_none() {
            self.slot = nodes.slots(self.node).and_then(Slots::take);
        }
        !needs_one || self.slot.is_some()
    }

    fn move_to(&mut self, slot: Option<u32>, nodes: &mut Nodes) {
        if let Some(slots) = nodes.slots(self.node) {
            if let Some(before) = self.slot {
                slots.release(before);
            }
            if let Some(slot) = slot {
                slots.hold(slot);
            }
            self.slot = slot;
        }
    }

    /// Each problem once.
    fn tell(&mut self, problems: Vec<String>, desk: &mut Desk) {
        for problem in &problems {
            if !self.problems.contains(problem) && desk.events.len() < EVENTS_MAX {
                desk.events.push_back(Note::new(&self.facts, problem));
            }
        }
        self.problems = problems;
    }
}
