//! Quotas: what every namespace uses, kept exact whoever writes.
//!
//! Each namespace that has quotas has a [`Till`]: a book of what its objects use, which follows the caches, and of
//! what is being written at the moment. A write finds room there, holds it, and lets go of it when the cache shows
//! the object or when it has failed: nothing has to be counted back after a crash. That nobody else, on this server or
//! on another, changes the rules or takes the same room meanwhile is part of the commit (`turns.rs`). What the book
//! says is written into the status of the quotas a little later (`status.rs`).

mod counts;
mod ledger;
mod reservation;
mod status;
#[cfg(test)]
mod tests;
mod till;
mod turns;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rhumb_cache::Cache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::resources::{Call, Registry};

pub use counts::Counts;
pub(crate) use reservation::Reservation;
pub(crate) use status::keep;
pub use till::Room;
pub(crate) use till::{NoRoom, Wish};
pub use turns::{TURNS, TurnKeys, Turns};

use ledger::Ledger;
use till::Till;

/// How long a read waits for the status.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// How many books are begun anew at the same time.
const BEGINNINGS_MAX: usize = 4;

/// The tills of all namespaces that have quotas.
#[derive(Debug)]
pub struct Tills {
    quotas: Option<Cache>,
    tills: Mutex<HashMap<Box<str>, Arc<Till>>>,
    turns: Arc<Turns>,
    counts: Counts,
    /// Books are begun anew by a few at a time: each reads all that its namespace has.
    beginnings: Arc<Semaphore>,
    /// Whether this server writes the status of quotas.
    is_kept: AtomicBool,
}

impl Tills {
    pub fn new(registry: &Registry, turns: Arc<Turns>) -> Tills {
        let quotas = registry
            .find("", "resourcequotas")
            .and_then(|resource| resource.storage.as_ref());
        Tills {
            quotas: quotas.map(|storage| storage.cache.clone()),
            tills: Mutex::default(),
            turns,
            counts: Counts::default(),
            beginnings: Arc::new(Semaphore::new(BEGINNINGS_MAX)),
            is_kept: AtomicBool::new(false),
        }
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The till of a namespace; none if there are no quotas in it.
    fn of(&self, namespace: &str) -> Option<Arc<Till>> {
        let quotas = self.quotas.as_ref()?;
        if let Some(till) = self.tills().get(namespace) {
            return Some(Arc::clone(till));
        }
        quotas.snapshot().range(Some(namespace), None).next()?;
        let mut tills = self.tills();
        let till = tills
            .entry(namespace.into())
            .or_insert_with(|| Arc::new(Till::new(namespace, quotas.clone())));
        Some(Arc::clone(till))
    }

    /// Forgets a till without quotas where nothing is under way. Its ledger is open, so that this stays so.
    fn forget(&self, namespace: &str, ledger: &Ledger) -> bool {
        let is_idle = !ledger.has_quotas() && !ledger.book.has_holds();
        if is_idle {
            self.tills().remove(namespace);
        }
        is_idle
    }

    /// Whether this is still the till of the namespace.
    fn has(&self, namespace: &str, till: &Arc<Till>) -> bool {
        let tills = self.tills();
        tills.get(namespace).is_some_and(|it| Arc::ptr_eq(it, till))
    }

    fn tills(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Till>>> {
        self.tills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the status of quotas up to date for somebody who is about to read them. Should that take too long, they
    /// are read as they are.
    pub(crate) async fn settle(&self, call: &Call<'_>) {
        let resource = &call.resource.group_resource;
        let is_theirs = resource.group.is_empty() && resource.resource == "resourcequotas";
        let namespace = call.namespace().filter(|_| is_theirs && self.is_kept());
        let Some(namespace) = namespace else {
            return;
        };
        let asked = Instant::now();
        let settled = async {
            // Other servers may have let something in just now.
            call.api.fresh(call).await?;
            match self.of(namespace) {
                Some(till) => status::settle(call.api, &till, asked).await,
                None => Ok(()),
            }
        };
        let _ = timeout(SETTLE_MAX, settled).await;
    }

    fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }
}
