//! What is written about a pod that waits is written in order, and once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lanes of all pods of which something was written while they wait, by uid.
#[derive(Debug, Default)]
pub(super) struct Lanes(Mutex<HashMap<Box<str>, Arc<Lane>>>);

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// The number of what was decided last.
    latest: AtomicU64,
    /// Whoever writes has it.
    pub(super) written: tokio::sync::Mutex<Written>,
}

/// What was written last, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Why it waits: the reason and the message, by whomever they were written.
    pub(super) condition: Option<(String, String)>,
    pub(super) nominated: Option<Box<str>>,
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

    pub(super) fn became(&mut self, before: &str, after: String) {
        self.became = Some((before.into(), after));
    }
}

impl Lane {
    /// Something newer has been decided.
    pub(super) fn is_outdated(&self, number: u64) -> bool {
        self.latest.load(Ordering::Relaxed) > number
    }
}

impl Lanes {
    /// The lane of a pod of which something is to be written.
    pub(super) fn enter(&self, uid: &str, number: u64) -> Arc<Lane> {
        let mut lanes = self.lock();
        let lane = match lanes.get(uid) {
            Some(lane) => lane.clone(),
            None => {
                let lane = Arc::<Lane>::default();
                lanes.insert(uid.into(), lane.clone());
                lane
            }
        };
        drop(lanes);
        lane.latest.fetch_max(number, Ordering::Relaxed);
        lane
    }

    /// Its lane, if anything was written about it.
    pub(super) fn find(&self, uid: &str) -> Option<Arc<Lane>> {
        self.lock().get(uid).cloned()
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Lane>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
