//! Pods that nothing may be decided about yet. They wait as those do that have gates.
//!
//! Terms pick namespaces by label, so that a pod whose namespace is not known may be put where it must not be. Once all
//! namespaces have been listed, one that is not known is new, and the server is about to say what it is like.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::{Engine, Nominated, Outcome, Reason};
use crate::cluster::PodId;
use crate::model::Pod;

/// A pod that waits longer for its namespace says so.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Held {
    by_uid: HashSet<Box<str>>,
    /// All that there were have been listed once.
    knows_namespaces: bool,
    /// Pods that waited for their namespaces since then, the first to come first.
    missing: VecDeque<(Instant, Box<str>)>,
}

impl Held {
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        let (since, _) = self.missing.front()?;
        since.checked_add(PATIENCE)
    }
}

impl Engine {
    pub(super) fn is_held(&self, pod: &Pod) -> bool {
        self.held.by_uid.contains(&pod.uid) || self.misses_namespace(pod)
    }

    fn misses_namespace(&self, pod: &Pod) -> bool {
        self.held.knows_namespaces && !self.cluster.has_namespace(&pod.key.namespace)
    }

    pub(super) fn hold(&mut self, uids: HashSet<Box<str>>, now: Instant) {
        let pods = uids.iter().filter_map(|uid| self.cluster.pods().find(uid));
        let pods: Vec<PodId> = pods.collect();
        self.held.by_uid.extend(uids);
        self.look_again(pods, now);
    }

    pub(super) fn release(&mut self, uid: &str, now: Instant) {
        self.held.by_uid.remove(uid);
        let pod = self.cluster.pods().find(uid);
        self.look_again(pod.into_iter().collect(), now);
    }

    pub(super) fn release_namespace(&mut self, name: &str, now: Instant) {
        let pods = self.cluster.pods().in_namespace(name).collect();
        self.look_again(pods, now);
    }

    /// From now on a namespace that is not known is still to come.
    pub(super) fn knows_namespaces(&mut self, now: Instant) {
        self.held.knows_namespaces = true;
        let pods = self.cluster.pods().iter().map(|(id, _)| id);
        let waiting: Vec<PodId> = pods.filter(|id| self.queue.contains(*id)).collect();
        for id in &waiting {
            if let Some(facts) = self.facts(*id) {
                self.note_namespace(&facts, now);
            }
        }
        self.look_again(waiting, now);
    }

    /// To be called when a pod begins to wait.
    pub(super) fn note_namespace(&mut self, pod: &Pod, now: Instant) {
        if self.misses_namespace(pod) {
            self.held.missing.push_back((now, pod.uid.clone()));
        }
    }

    /// What a pod says that has waited too long for its namespace. It waits on.
    pub(super) fn miss_namespace(&mut self, now: Instant) -> Option<Outcome> {
        while self.held.wakes_at().is_some_and(|wakes| wakes <= now) {
            let (_, uid) = self.held.missing.pop_front()?;
            let id = self.cluster.pods().find(&uid);
            let waiting = id.filter(|id| self.queue.contains(*id));
            let facts = waiting.and_then(|id| self.facts(id));
            if let Some(pod) = facts.filter(|facts| self.misses_namespace(facts)) {
                let message = format!("namespace {:?} is not known", pod.key.namespace);
                return Some(Outcome::Pending {
                    pod,
                    reason: Reason::SchedulerError,
                    message,
                    nominated: Nominated::Unchanged,
                    victims: Vec::new(),
                    attempts: 0,
                });
            }
        }
        None
    }

    fn look_again(&mut self, pods: Vec<PodId>, now: Instant) {
        for id in pods {
            if let Some(facts) = self.facts(id) {
                let is_held = self.is_held(&facts);
                self.queue.set_held(id, &facts, is_held, now);
            }
        }
    }
}
