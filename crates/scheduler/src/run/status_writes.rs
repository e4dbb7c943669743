//! Serializes status writes per pending pod, and drops writes that a newer decision has superseded.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::MutexGuard;

/// The write state of all pending pods whose status was written, by uid.
#[derive(Debug, Default)]
pub(super) struct PodStatusWrites(Mutex<StatusWriteState>);

#[derive(Debug, Default)]
struct StatusWriteState {
    pods: HashMap<Box<str>, Arc<PodWriteState>>,
    /// The number of the last issued ticket.
    last_ticket: u64,
}

#[derive(Debug, Default)]
struct PodWriteState {
    /// The ticket of the latest decision.
    latest_ticket: AtomicU64,
    /// Locked while a write is in progress.
    written: tokio::sync::Mutex<LastWrittenStatus>,
}

/// A place in the order of writes for one pod. Only the latest ticket is still worth writing.
#[derive(Debug)]
pub(super) struct WriteTicket {
    pod: Arc<PodWriteState>,
    number: u64,
}

/// What this process last wrote to the pod's status.
#[derive(Debug, Default)]
pub(super) struct LastWrittenStatus {
    pub(super) condition: Option<(&'static str, String)>,
    /// `Some(None)` if the nomination was cleared.
    pub(super) nominated: Option<Option<Box<str>>>,
    /// The resourceVersions before and after this process's own write.
    version_change: Option<(Box<str>, String)>,
}

impl LastWrittenStatus {
    /// The current resourceVersion, given the one known from the watch, which may lag behind this process's own write.
    pub(super) fn version<'v>(&'v self, known: &'v str) -> &'v str {
        match &self.version_change {
            Some((old_version, after)) if **old_version == *known => after,
            _ => known,
        }
    }

    /// Whether nothing was written yet.
    pub(super) fn is_empty(&self) -> bool {
        matches!(
            self,
            LastWrittenStatus {
                condition: None,
                nominated: None,
                version_change: None,
            }
        )
    }

    pub(super) fn record_version(&mut self, old_version: &str, after: String) {
        self.version_change = Some((old_version.into(), after));
    }
}

impl WriteTicket {
    /// Waits for earlier writes and locks the last written status.
    pub(super) async fn lock_written(&self) -> MutexGuard<'_, LastWrittenStatus> {
        self.pod.written.lock().await
    }

    /// Whether a newer decision has been made.
    pub(super) fn is_outdated(&self) -> bool {
        self.pod.latest_ticket.load(Ordering::Relaxed) > self.number
    }
}

impl PodStatusWrites {
    /// Issues a ticket for a status write. Must be called in the order of decisions.
    pub(super) fn ticket(&self, uid: &str) -> WriteTicket {
        let mut state = self.lock();
        let pod = match state.pods.get(uid) {
            Some(pod) => pod.clone(),
            None => {
                let pod = Arc::<PodWriteState>::default();
                state.pods.insert(uid.into(), pod.clone());
                pod
            }
        };
        state.issue_ticket(pod)
    }

    /// Supersedes earlier tickets without a write of its own; `None` if there are none.
    pub(super) fn supersede(&self, uid: &str) -> Option<WriteTicket> {
        let mut state = self.lock();
        let pod = state.pods.get(uid)?.clone();
        Some(state.issue_ticket(pod))
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().pods.remove(uid);
    }

    /// Drops the pod's state, unless a newer decision has been made.
    pub(super) fn forget_if_latest(&self, uid: &str, ticket: &WriteTicket) {
        let mut state = self.lock();
        if !ticket.is_outdated() {
            state.pods.remove(uid);
        }
    }

    /// Drops the state of all other pods.
    pub(super) fn retain(&self, uids: &HashSet<Box<str>>) {
        self.lock().pods.retain(|uid, _| uids.contains(uid));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().pods.len()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, StatusWriteState> {
        self.0.lock()
    }
}

impl StatusWriteState {
    fn issue_ticket(&mut self, state: Arc<PodWriteState>) -> WriteTicket {
        self.last_ticket += 1;
        state
            .latest_ticket
            .store(self.last_ticket, Ordering::Relaxed);
        WriteTicket {
            pod: state,
            number: self.last_ticket,
        }
    }
}
