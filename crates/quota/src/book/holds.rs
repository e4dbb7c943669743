//! What is set aside for writes that are under way.

use std::collections::HashMap;

use rhumb_meta::Timestamp;

use super::cohort::Cohort;
use crate::Charge;

/// Names something that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldId(u64);

/// What one write has set aside.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) charge: Charge,
    /// What the object counted for before, if it was there.
    pub(super) old: Option<Charge>,
    /// For a new object: by which the cache will show that it has been written.
    pub(super) uid: Option<Box<str>>,
    /// When it is given up, though nobody knows whether it happened.
    pub(super) until: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(super) struct Holds {
    held: HashMap<HoldId, Held>,
    by_uid: HashMap<Box<str>, HoldId>,
    last: u64,
}

impl Holds {
    pub(super) fn add(&mut self, held: Held) -> HoldId {
        self.last += 1;
        let id = HoldId(self.last);
        if let Some(uid) = &held.uid {
            self.by_uid.insert(uid.clone(), id);
        }
        self.held.insert(id, held);
        id
    }

    pub(super) fn remove(&mut self, id: HoldId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        if let Some(uid) = &held.uid {
            self.by_uid.remove(uid);
        }
        Some(held)
    }

    pub(super) fn remove_written(&mut self, uid: &str) -> Option<Held> {
        let id = *self.by_uid.get(uid)?;
        self.remove(id)
    }

    pub(super) fn doubt(&mut self, id: HoldId, until: Timestamp) {
        if let Some(held) = self.held.get_mut(&id) {
            held.until = Some(until);
        }
    }

    pub(super) fn give_up(&mut self, now: Timestamp) -> Vec<Held> {
        let is_over = |held: &Held| held.until.is_some_and(|until| until < now);
        let over: Vec<HoldId> = self
            .held
            .iter()
            .filter(|(_, held)| is_over(held))
            .map(|(id, _)| *id)
            .collect();
        over.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    pub(super) fn enter_into(&self, cohort: &mut Cohort) {
        self.held.values().for_each(|held| cohort.hold(held));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn awaits_new(&self) -> bool {
        !self.by_uid.is_empty()
    }
}
