//! Room that is held for one write.

use std::sync::Arc;

use rhumb_meta::Revision;
use rhumb_quota::HoldId;

use super::till::{Ended, Till};

/// Held until the write is known to have happened or to have failed. Where nobody can say, the room stays taken until
/// the object shows up, or for a while.
#[derive(Debug)]
pub(crate) struct Reservation {
    till: Arc<Till>,
    id: HoldId,
    has_ended: bool,
}

impl Reservation {
    pub(super) fn new(till: Arc<Till>, id: HoldId) -> Reservation {
        Reservation {
            till,
            id,
            has_ended: false,
        }
    }

    pub(crate) fn written(mut self, revision: Revision) {
        self.end(Ended::Written(revision));
    }

    /// It did not happen, and will not.
    pub(crate) fn failed(mut self) {
        self.end(Ended::Failed);
    }

    fn end(&mut self, how: Ended) {
        self.has_ended = true;
        self.till.end(self.id, how);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(Ended::Unknown);
        }
    }
}
