//! Secondary indexes of objects by label or field value, for lists with selectors.
//!
//! The indexes of a resource are part of its versioned contents, so that a list and its index always have the same
//! revision. [`plan`] chooses the access path of a list, [`advisor`] finds out which further indexes would pay off, and
//! `maintenance` builds and drops them.

mod advisor;
mod attribute;
mod budget;
mod intersect;
mod list_query;
mod maintenance;
mod measurement;
mod merge;
mod plan;
mod postings;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use advisor::{IndexAdvisor, ListStats};
pub use attribute::IndexedAttribute;
use budget::BudgetReservation;
pub(crate) use budget::IndexMemoryBudget;
pub(crate) use list_query::SelectorQuery;
pub use list_query::{ListQuery, MatchingEntries};
pub use measurement::IndexMeasurement;
pub(crate) use plan::{EntryIterator, ListPlan};
pub(crate) use postings::IndexEntrySet;

use crate::CacheEntry;
use crate::stats::{self, IndexUsage};

/// Why an index exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexOrigin {
    /// Declared by the kind, or configured by the administrator.
    Configured,
    /// Built automatically for lists that it makes cheaper.
    Adaptive,
}

/// Contents and usage of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexStats {
    pub attribute: IndexedAttribute,
    pub origin: IndexOrigin,
    pub measurement: IndexMeasurement,
    pub usage: IndexUsage,
}

/// An index of objects by the values of one attribute, as of one version of the contents.
#[derive(Debug, Clone)]
pub(crate) struct AttributeIndex {
    pub(crate) attribute: IndexedAttribute,
    pub(crate) origin: IndexOrigin,
    pub(crate) postings: IndexEntrySet,
    /// The share of the memory budget that an adaptive index has reserved.
    budget_reservation: Option<Arc<BudgetReservation>>,
    use_count: Arc<IndexUsageCounters>,
}

/// Usage counters, shared by all versions of an index.
#[derive(Debug, Default)]
struct IndexUsageCounters {
    lists: AtomicU64,
    examined: AtomicU64,
    /// Seconds on the cache's monotonic clock.
    last_used_at: AtomicU64,
}

impl AttributeIndex {
    pub(crate) fn new(attribute: IndexedAttribute, origin: IndexOrigin, now: Duration) -> Self {
        let index = AttributeIndex {
            attribute,
            origin,
            postings: IndexEntrySet::default(),
            budget_reservation: None,
            use_count: Arc::default(),
        };
        index
            .use_count
            .last_used_at
            .store(now.as_secs(), Ordering::Relaxed);
        index
    }

    /// Updates the index for an object that changed from `old` to `new`.
    pub(crate) fn replace(&mut self, old: Option<&Arc<CacheEntry>>, new: Option<&Arc<CacheEntry>>) {
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

    /// A copy of this index with other objects.
    pub(crate) fn refilled<'a>(&self, entries: impl Iterator<Item = &'a Arc<CacheEntry>>) -> Self {
        let mut index = AttributeIndex {
            postings: IndexEntrySet::default(),
            ..self.clone()
        };
        for entry in entries {
            index.replace(None, Some(entry));
        }
        index
    }

    fn record_use(&self, examined: usize, now: Duration) {
        stats::add(&self.use_count.lists, 1);
        stats::add(&self.use_count.examined, examined as u64);
        self.use_count
            .last_used_at
            .store(now.as_secs(), Ordering::Relaxed);
    }

    pub(crate) fn idle_for(&self, now: Duration) -> Duration {
        let last = Duration::from_secs(self.use_count.last_used_at.load(Ordering::Relaxed));
        now.saturating_sub(last)
    }

    pub(crate) fn usage(&self) -> IndexUsage {
        IndexUsage {
            lists: stats::read(&self.use_count.lists),
            examined: stats::read(&self.use_count.examined),
        }
    }

    /// Walks the whole index: not to be called while a lock is held.
    pub(crate) fn stats(&self) -> IndexStats {
        IndexStats {
            attribute: self.attribute.clone(),
            origin: self.origin,
            measurement: self.postings.measure(),
            usage: self.usage(),
        }
    }
}
