//! The quota reservation of one write, settled with the outcome of the commit.

use std::sync::Arc;

use rhumb_meta::Revision;
use rhumb_quota::ReservationId;

use super::namespace_quota::{NamespaceQuota, ReservationOutcome};
use rhumb_registry::write::Reservation;

/// Usage reserved until the write is known to be committed or failed. If dropped before it is settled, the outcome of
/// the write is unknown: the reservation stays until the object appears in the cache or a timeout has passed.
#[derive(Debug)]
pub struct QuotaReservation {
    namespace_quota: Arc<NamespaceQuota>,
    id: ReservationId,
    is_settled: bool,
}

impl QuotaReservation {
    pub(super) fn new(namespace_quota: Arc<NamespaceQuota>, id: ReservationId) -> QuotaReservation {
        QuotaReservation {
            namespace_quota,
            id,
            is_settled: false,
        }
    }

    fn settle(&mut self, outcome: ReservationOutcome) {
        self.is_settled = true;
        self.namespace_quota.settle(self.id, outcome);
    }
}

impl Reservation for QuotaReservation {
    fn committed(mut self: Box<Self>, revision: Revision) {
        self.settle(ReservationOutcome::Committed(revision));
    }

    fn failed(mut self: Box<Self>) {
        self.settle(ReservationOutcome::Failed);
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle(ReservationOutcome::Unknown);
        }
    }
}
