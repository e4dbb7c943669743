//! Places that are kept for pods.

use std::sync::Arc;
use std::time::Instant;

use super::{Engine, Nominated, Outcome, Reason};
use crate::cluster::{Departed, PodId, PodSlot};
use crate::cycle::Nomination;
use crate::model::Pod;
use crate::plugins::Event;
use crate::preemption::PATIENCE;
use crate::queue::Cause;

impl Engine {
    /// Keeps a place for a pod that waits. The one that was kept before is free.
    pub(super) fn nominate(&mut self, id: PodId, nomination: Nomination, now: Instant) {
        let Some(facts) = self.facts(id) else { return };
        let node = nomination.node.clone();
        let before = self.nominations.insert(id, nomination);
        self.version += 1;
        self.queue.set_alone(id, &facts, true, now);
        if let Some(before) = before
            && before.node != node
        {
            self.freed(id, &before, now);
        }
    }

    /// A pod that waits has no place any more that is kept for it.
    pub(super) fn unnominate(&mut self, id: PodId, now: Instant) {
        let Some(before) = self.nominations.remove(id) else {
            return;
        };
        if let Some(facts) = self.facts(id) {
            self.queue.set_alone(id, &facts, false, now);
        }
        self.freed(id, &before, now);
    }

    /// Nobody is kept from a place any more: for others that is as if the pod had been there, and had left.
    fn freed(&mut self, id: PodId, nomination: &Nomination, now: Instant) {
        let Some(slot) = self.cluster.pods().get(id) else {
            return;
        };
        let departed = Departed {
            id,
            facts: slot.facts.clone(),
            place: self.cluster.nodes().find(&nomination.node),
            picked_by: slot.picked_by().to_vec(),
        };
        self.happened(&Event::PodLeft(&departed), now);
    }

    /// The same for a pod that is no more.
    pub(super) fn freed_by(&mut self, departed: &Departed, now: Instant) {
        if let Some(nomination) = self.nominations.remove(departed.id) {
            let departed = Departed {
                place: self.cluster.nodes().find(&nomination.node),
                ..departed.clone()
            };
            self.happened(&Event::PodLeft(&departed), now);
        }
    }

    /// A pod has a place now, or is not to have one. What was kept for it elsewhere is free.
    pub(super) fn settled(&mut self, id: PodId, now: Instant) {
        let Some(nomination) = self.nominations.remove(id) else {
            return;
        };
        self.version += 1;
        let place = self.cluster.pods().get(id).and_then(PodSlot::place);
        let is_there = place.is_some() && place == self.cluster.nodes().find(&nomination.node);
        if !is_there {
            self.freed(id, &nomination, now);
        }
    }

    /// Takes note of where the server says that a place is kept for a pod that waits.
    pub(super) fn follow_nomination(&mut self, id: PodId, before: Option<&Pod>, now: Instant) {
        let Some(facts) = self.facts(id) else { return };
        let said_before = before.map(|before| &before.nominated_node_name);
        match &facts.nominated_node_name {
            // The server says nothing new: what was decided here may not have come to it yet.
            same if said_before.is_some_and(|before| before == same) => {}
            None if said_before.is_none() => {}
            // It has been told something else since, and will say so.
            said if self.told.is_outdated(id, said.as_deref(), now) => {}
            None => self.unnominate(id, now),
            Some(node) => {
                let known = self.nominations.get(id);
                if known.is_none_or(|known| known.node != *node) {
                    let nomination = Nomination {
                        node: node.clone(),
                        priority: facts.priority,
                        victims: Vec::new(),
                        since: now,
                    };
                    self.nominate(id, nomination, now);
                }
            }
        }
        if let Some(nomination) = self.nominations.get_mut(id) {
            nomination.priority = facts.priority;
        }
    }

    /// Those of lower priority that a node was kept for have to look for another place. Another gets this one, but may
    /// leave room that they would not have left.
    pub(super) fn displace(&mut self, node: &str, priority: i32, now: Instant) {
        let pods: Vec<PodId> = self.nominations.on(node).to_vec();
        for id in pods {
            let is_lower = self
                .nominations
                .get(id)
                .is_some_and(|nomination| nomination.priority < priority);
            if let Some(pod) = self.facts(id)
                && is_lower
            {
                self.unnominate(id, now);
                self.told.note(id, None, now);
                self.queue.wake_one(Cause::PodUpdated, id, now);
                self.notices.push_back(Outcome::Displaced { pod });
            }
        }
    }

    /// Wakes those whose victims have had their time.
    pub(super) fn lose_patience(&mut self, now: Instant) {
        while let Some((end, id)) = self.patience.front().copied()
            && end <= now
        {
            self.patience.pop_front();
            // It may have got what it waited for, or wait for others by now.
            let nomination = self.nominations.get(id);
            let still_waits = nomination
                .is_some_and(|known| !known.victims.is_empty() && known.since + PATIENCE <= now);
            if still_waits {
                self.queue.wake_one(Cause::SleptTooLong, id, now);
            }
        }
    }

    /// What was kept for a pod that did not get its node was given up when it was to have that one. The server may not
    /// know. If there was a problem, it is said with that.
    pub(super) fn keeps_nothing(
        &mut self,
        id: PodId,
        pod: &Arc<Pod>,
        problem: Option<String>,
        now: Instant,
    ) {
        let is_kept = match self.told.last(id) {
            Some(told) => told.is_some(),
            None => pod.nominated_node_name.is_some(),
        };
        if is_kept {
            self.told.note(id, None, now);
        }
        let pod = pod.clone();
        match problem {
            Some(message) => self.notices.push_back(Outcome::Pending {
                pod,
                reason: Reason::SchedulerError,
                message,
                nominated: Nominated::Nowhere,
                victims: Vec::new(),
                attempts: self.queue.history(id, now).attempts,
            }),
            None if is_kept => self.notices.push_back(Outcome::Displaced { pod }),
            None => {}
        }
    }

    pub(super) fn facts(&self, id: PodId) -> Option<Arc<Pod>> {
        self.cluster.pods().get(id).map(|slot| slot.facts.clone())
    }
}
