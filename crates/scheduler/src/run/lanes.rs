//! What is written about a pod that waits is written in order, and once.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::MutexGuard;

/// The lanes of all pods of which something was written while they wait, by uid.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    lanes: HashMap<Box<str>, Arc<Lane>>,
    /// The number of the last turn.
    last: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// The number of what was decided last.
    latest: AtomicU64,
    /// Whoever writes has it.
    written: tokio::sync::Mutex<Written>,
}

/// Of all that is decided about a pod, only the last is still to be written.
#[derive(Debug)]
pub(super) struct Turn {
    lane: Arc<Lane>,
    number: u64,
}

/// What this process wrote last.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) condition: Option<(&'static str, String)>,
    /// `Some(None)` if it was taken back.
    pub(super) nominated: Option<Option<Box<str>>>,
    /// The version before, and the one that it became by nothing but what was written.
    became: Option<(Box<str>, String)>,
}

impl Written {
    /// The version that the server has of a pod of which this one is known: the watch may not have told yet.
    pub(super) fn version<'v>(&'v self, known: &'v str) -> &'v str {
        match &self.became {
            Some((before, after)) if **before == *known => after,
            _ => known,
        }
    }

    /// Nothing was written yet.
    pub(super) fn is_empty(&self) -> bool {
        matches!(
            self,
            Written {
                condition: None,
                nominated: None,
                became: None,
            }
        )
    }

    pub(super) fn became(&mut self, before: &str, after: String) {
        self.became = Some((before.into(), after));
    }
}

impl Turn {
    /// What was written before, once nobody else writes.
    pub(super) async fn written(&self) -> MutexGuard<'_, Written> {
        self.lane.written.lock().await
    }

    /// Something newer has been decided.
    pub(super) fn is_outdated(&self) -> bool {
        self.lane.latest.load(Ordering::Relaxed) > self.number
    }
}

impl Lanes {
    /// For something that is to be written. To be called in the order of decisions.
    pub(super) fn enter(&self, uid: &str) -> Turn {
        let mut all = self.lock();
        let lane = match all.lanes.get(uid) {
            Some(lane) => lane.clone(),
            None => {
                let lane = Arc::<Lane>::default();
                all.lanes.insert(uid.into(), lane.clone());
                lane
            }
        };
        all.next(lane)
    }

    /// The same for what leaves nothing to be written; `None` if nothing was before it.
    pub(super) fn overtake(&self, uid: &str) -> Option<Turn> {
        let mut all = self.lock();
        let lane = all.lanes.get(uid)?.clone();
        Some(all.next(lane))
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().lanes.remove(uid);
    }

    /// Nothing is to be kept of what was written, unless something newer has been decided.
    pub(super) fn leave(&self, uid: &str, turn: &Turn) {
        let mut all = self.lock();
        if !turn.is_outdated() {
            all.lanes.remove(uid);
        }
    }

    /// Forgets all others.
    pub(super) fn retain(&self, uids: &HashSet<Box<str>>) {
        self.lock().lanes.retain(|uid, _| uids.contains(uid));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().lanes.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn next(&mut self, lane: Arc<Lane>) -> Turn {
        self.last += 1;
        lane.latest.store(self.last, Ordering::Relaxed);
        Turn {
            lane,
            number: self.last,
        }
    }
}
