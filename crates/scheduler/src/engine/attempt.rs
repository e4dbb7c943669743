//! Attempts to find a place for a pod.

use std::sync::Arc;
use std::time::Instant;

use super::{Engine, Nominated, Outcome, Reason};
use crate::cluster::{NodeId, PodId};
use crate::cycle::{Decision, Diagnosis, NO_NODES, Nomination};
use crate::plugins::Event;
use crate::preemption::{Candidate, Finding, PATIENCE, Preemptor};
use crate::queue::{Memo, Refusers};

impl Engine {
    /// Decides about one pod, if one is due.
    pub fn next(&mut self, now: Instant) -> Option<Outcome> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        if let Some(notice) = self.miss_namespace(now) {
            return Some(notice);
        }
        self.lose_patience(now);
        let id = self.queue.pop(now)?;
        self.attempt(id, now)
    }

    fn attempt(&mut self, id: PodId, now: Instant) -> Option<Outcome> {
        self.cluster.prepare();
        if let Some(memo) = self.queue.memo(id)
            && memo.version == self.version
        {
            let memo = memo.clone();
            return self.stay(id, memo.refusers, Some(memo.clone()), &memo.message, now);
        }
        let profile = self.queue.profile(id)?;
        if self.cluster.nodes().order().is_empty() {
            return self.refuse(id, Refusers::default(), NO_NODES, now);
        }
        let decision = self.profiles.get(profile)?.profile.decide_beside(
            &self.nominations,
            &mut self.cluster,
            id,
            &mut self.search,
        );
        match decision {
            Decision::Place {
                node,
                looked_at,
                possible,
            } => self.put(id, node, looked_at, possible, now),
            Decision::Nowhere(diagnosis) => self.nowhere(id, profile, &diagnosis, now),
        }
    }

    fn put(
        &mut self,
        id: PodId,
        node: NodeId,
        looked_at: usize,
        possible: usize,
        now: Instant,
    ) -> Option<Outcome> {
        let name = self.cluster.nodes().name(node)?.into();
        self.cluster.assume(id, node);
        self.is_ranked_now(id, None);
        let history = self.queue.history(id, now);
        self.settled(id, now);
        self.happened(&Event::PodPlaced(id), now);
        self.queue.placed(id, now);
        Some(Outcome::Bind {
            pod: self.facts(id)?,
            node: name,
            attempts: history.attempts,
            waited: history.waited,
            tried_for: history.tried_for,
            looked_at,
            possible,
        })
    }

    fn nowhere(
        &mut self,
        id: PodId,
        profile: usize,
        diagnosis: &Diagnosis,
        now: Instant,
    ) -> Option<Outcome> {
        let refusers: Refusers = diagnosis.plugins().collect();
        let message = diagnosis.message(self.cluster.nodes().order().len());
        let known = self.profiles.get(profile)?;
        let Some(settings) = known.preemption else {
            return self.refuse(id, refusers, &message, now);
        };
        let preemptor = Preemptor {
            profile: &known.profile,
            settings,
            nominations: &self.nominations,
            budgets: &self.budgets,
            ranks: &self.ranks,
        };
        self.preemptions += 1;
        let shuffle = &mut self.search.shuffle;
        match preemptor.preempt(&mut self.cluster, id, diagnosis, shuffle, now) {
            Finding::Victims(candidate) => self.make_room(id, refusers, &message, candidate, now),
            Finding::NotEligible(why) => {
                self.refuse(id, refusers, &format!("{message} preemption: {why}"), now)
            }
            Finding::NotHelpful {
                message: why,
                plugins,
            } => {
                // What stands in the way of preemption has to go, too.
                let refusers = refusers.union(plugins.into_iter().collect());
                let message = format!("{message} preemption: {why}");
                let had_place = self.nominations.get(id).is_some();
                if !had_place {
                    return self.refuse(id, refusers, &message, now);
                }
                let mut outcome = self.stay(id, refusers, None, &message, now)?;
                self.unnominate(id, now);
                self.told.note(id, None, now);
                if let Outcome::Pending { nominated, .. } = &mut outcome {
                    *nominated = Nominated::Nowhere;
                }
                Some(outcome)
            }
        }
    }

    /// Others have to leave: their place is kept for the pod.
    fn make_room(
        &mut self,
        id: PodId,
        refusers: Refusers,
        message: &str,
        candidate: Candidate,
        now: Instant,
    ) -> Option<Outcome> {
        let node: Box<str> = self.cluster.nodes().name(candidate.node)?.into();
        let leaving: Vec<_> = candidate
            .victims
            .iter()
            .filter_map(|victim| self.facts(*victim))
            .collect();
        let facts = self.facts(id)?;
        self.displace(&node, facts.priority, now);
        let mut outcome = self.stay(id, refusers, None, message, now)?;
        let nomination = Nomination {
            node: node.clone(),
            priority: facts.priority,
            victims: leaving.iter().map(|victim| victim.uid.clone()).collect(),
            since: now,
        };
        self.nominate(id, nomination, now);
        self.told.note(id, Some(node.clone()), now);
        self.patience.push_back((now + PATIENCE, id));
        if let Outcome::Pending {
            nominated, victims, ..
        } = &mut outcome
        {
            *nominated = Nominated::Node(node);
            *victims = leaving;
        }
        Some(outcome)
    }

    /// The pod stays without a place, and so do those that are like it until something changes.
    fn refuse(
        &mut self,
        id: PodId,
        refusers: Refusers,
        message: &str,
        now: Instant,
    ) -> Option<Outcome> {
        // Whoever has a place that is kept for it is like nobody else.
        let is_shared = self.nominations.get(id).is_none();
        let memo = is_shared.then(|| Memo {
            version: self.version,
            refusers,
            message: Arc::from(message),
        });
        self.stay(id, refusers, memo, message, now)
    }

    fn stay(
        &mut self,
        id: PodId,
        refusers: Refusers,
        memo: Option<Memo>,
        message: &str,
        now: Instant,
    ) -> Option<Outcome> {
        let attempts = self.queue.history(id, now).attempts;
        self.queue.refused(id, refusers, memo, now);
        Some(Outcome::Pending {
            pod: self.facts(id)?,
            reason: Reason::Unschedulable,
            message: message.to_owned(),
            nominated: Nominated::Unchanged,
            victims: Vec::new(),
            attempts,
        })
    }
}
