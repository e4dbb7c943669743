//! Nominations that were written to `status.nominatedNodeName` and have not come back as watch events yet. Used to
//! ignore events that only confirm a write which has been superseded.

use std::time::{Duration, Instant};

use crate::cluster::{IdMap, PodId};

/// A write that was not confirmed in this time failed or was a no-op.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(60);

/// The unconfirmed nominations of each pod, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedNominations {
    by_pod: IdMap<PodId, Vec<UnconfirmedNominationWrite>>,
}

/// A nomination that was written, or cleared.
#[derive(Debug)]
struct UnconfirmedNominationWrite {
    /// `None` if the nomination was cleared.
    node: Option<Box<str>>,
    written_at: Instant,
}

impl UnconfirmedNominations {
    pub(super) fn record(&mut self, pod: PodId, node: Option<Box<str>>, now: Instant) {
        let writes = self.by_pod.entry(pod).or_default();
        writes.retain(|write| write.is_unexpired(now));
        writes.push(UnconfirmedNominationWrite {
            node,
            written_at: now,
        });
    }

    /// Whether a nomination received from the server confirms one of our writes and a newer write exists. Confirms that
    /// write and all before it, since the events of several writes may be coalesced into the last.
    pub(super) fn is_superseded(&mut self, pod: PodId, node: Option<&str>, now: Instant) -> bool {
        let Some(writes) = self.by_pod.get_mut(&pod) else {
            return false;
        };
        writes.retain(|write| write.is_unexpired(now));
        let confirmed = writes
            .iter()
            .position(|write| write.node.as_deref() == node);
        if let Some(index) = confirmed {
            writes.drain(..=index);
        }
        let is_latest = writes.is_empty();
        if is_latest {
            self.by_pod.remove(&pod);
        }
        confirmed.is_some() && !is_latest
    }

    /// The latest unconfirmed nomination of a pod.
    pub(super) fn last(&self, pod: PodId) -> Option<Option<&str>> {
        let write = self.by_pod.get(&pod)?.last()?;
        Some(write.node.as_deref())
    }

    /// Forgets a pod that left the queue.
    pub(super) fn forget(&mut self, pod: PodId) {
        self.by_pod.remove(&pod);
    }
}

impl UnconfirmedNominationWrite {
    fn is_unexpired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.written_at) < CONFIRMATION_TIMEOUT
    }
}
