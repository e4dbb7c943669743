//! Reservations of writes in progress.

use std::collections::HashMap;

use rhumb_meta::Timestamp;

use super::scope_group::ScopeGroup;
use crate::ObjectUsage;

/// Identifies a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReservationId(u64);

/// Usage reserved by one write.
#[derive(Debug)]
pub(super) struct UsageReservation {
    pub(super) new_usage: ObjectUsage,
    /// Usage of the object before the write, if it existed.
    pub(super) old_usage: Option<ObjectUsage>,
    /// UID of a new object, by which it is recognized in the cache.
    pub(super) uid: Option<Box<str>>,
    /// When the reservation expires, if the outcome of the write is unknown.
    pub(super) expires_at: Option<Timestamp>,
}

/// All reservations of a namespace.
#[derive(Debug, Default)]
pub(super) struct ReservationTable {
    by_id: HashMap<ReservationId, UsageReservation>,
    by_uid: HashMap<Box<str>, ReservationId>,
    last_id: u64,
}

impl ReservationTable {
    pub(super) fn add(&mut self, reservation: UsageReservation) -> ReservationId {
        self.last_id += 1;
        let id = ReservationId(self.last_id);
        if let Some(uid) = &reservation.uid {
            self.by_uid.insert(uid.clone(), id);
        }
        self.by_id.insert(id, reservation);
        id
    }

    pub(super) fn remove(&mut self, id: ReservationId) -> Option<UsageReservation> {
        let reservation = self.by_id.remove(&id)?;
        if let Some(uid) = &reservation.uid {
            self.by_uid.remove(uid);
        }
        Some(reservation)
    }

    pub(super) fn remove_by_uid(&mut self, uid: &str) -> Option<UsageReservation> {
        let id = *self.by_uid.get(uid)?;
        self.remove(id)
    }

    pub(super) fn expire_at(&mut self, id: ReservationId, until: Timestamp) {
        if let Some(reservation) = self.by_id.get_mut(&id) {
            reservation.expires_at = Some(until);
        }
    }

    pub(super) fn remove_expired(&mut self, now: Timestamp) -> Vec<UsageReservation> {
        let is_expired = |reservation: &UsageReservation| {
            reservation.expires_at.is_some_and(|until| until < now)
        };
        let expired: Vec<ReservationId> = self
            .by_id
            .iter()
            .filter(|(_, reservation)| is_expired(reservation))
            .map(|(id, _)| *id)
            .collect();
        expired
            .into_iter()
            .filter_map(|id| self.remove(id))
            .collect()
    }

    pub(super) fn add_to_group(&self, group: &mut ScopeGroup) {
        self.by_id
            .values()
            .for_each(|reservation| group.add_reservation(reservation));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn awaits_new_objects(&self) -> bool {
        !self.by_uid.is_empty()
    }
}
