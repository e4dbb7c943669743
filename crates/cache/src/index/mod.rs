//! Which objects have a value, without looking at all of them.
//!
//! The indexes of a resource are a part of each version of its objects, so that a list and its index are always of
//! one moment. [`plan`] chooses what a list looks at, [`advice`] finds out which further indexes would pay.

mod advice;
mod attribute;
mod budget;
mod intersect;
mod merge;
mod plan;
mod postings;
mod selection;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use advice::{Advice, Seen};
pub use attribute::Attribute;
pub(crate) use budget::Budget;
use budget::Share;
pub(crate) use plan::{Found, Plan};
pub(crate) use postings::Postings;
pub(crate) use selection::Query;
pub use selection::{Asked, Selection};

use crate::{Entry, stats};

/// Who wanted an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The kind that declares a field, or whoever set up the server.
    Configured,
    /// The lists that would have been cheaper with it.
    Adaptive,
}

/// How large an index is, and how often it served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStats {
    pub attribute: Attribute,
    pub origin: Origin,
    pub entries: usize,
    pub bytes: usize,
    /// Lists that were answered with it, and the objects that they looked at.
    pub lists: u64,
    pub looked_at: u64,
}

/// One index, as of one version.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) attribute: Attribute,
    pub(crate) origin: Origin,
    pub(crate) postings: Postings,
    /// What an adaptive one takes of the budget.
    share: Option<Arc<Share>>,
    use_count: Arc<UseCount>,
}

/// The same for all versions of an index.
#[derive(Debug, Default)]
struct UseCount {
    lists: AtomicU64,
    looked_at: AtomicU64,
    /// On the cache's clock, in seconds.
    last_at: AtomicU64,
}

impl Index {
    pub(crate) fn new(attribute: Attribute, origin: Origin, now: Duration) -> Self {
        let index = Index {
            attribute,
            origin,
            postings: Postings::default(),
            share: None,
            use_count: Arc::default(),
        };
        index
            .use_count
            .last_at
            .store(now.as_secs(), Ordering::Relaxed);
        index
    }

    /// An object changed from one entry to the other.
    pub(crate) fn replace(&mut self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let old_value = old.and_then(|entry| self.attribute.value(entry));
        let new_value = new.and_then(|entry| self.attribute.value(entry));
        if let (Some(value), Some(entry)) = (old_value, old)
            && new_value != Some(value)
        {
            self.postings.remove(value, entry.key());
        }
        if let (Some(value), Some(entry)) = (new_value, new) {
            self.postings.insert(value, entry);
        }
    }

    /// The same index of other objects.
    pub(crate) fn refilled<'a>(&self, entries: impl Iterator<Item = &'a Arc<Entry>>) -> Self {
        let mut index = Index {
            postings: Postings::default(),
            ..self.clone()
        };
        for entry in entries {
            index.replace(None, Some(entry));
        }
        index
    }

    fn note_use(&self, looked_at: usize, now: Duration) {
        stats::add(&self.use_count.lists, 1);
        stats::add(&self.use_count.looked_at, looked_at as u64);
        self.use_count
            .last_at
            .store(now.as_secs(), Ordering::Relaxed);
    }

    pub(crate) fn idle_for(&self, now: Duration) -> Duration {
        let last = Duration::from_secs(self.use_count.last_at.load(Ordering::Relaxed));
        now.saturating_sub(last)
    }

    pub(crate) fn stats(&self) -> IndexStats {
        IndexStats {
            attribute: self.attribute.clone(),
            origin: self.origin,
            entries: self.postings.len(),
            bytes: self.postings.bytes(),
            lists: stats::read(&self.use_count.lists),
            looked_at: stats::read(&self.use_count.looked_at),
        }
    }
}
