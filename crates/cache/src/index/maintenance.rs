//! Builds adaptive indexes in the background and drops those that are no longer used.

use std::sync::Arc;
use std::time::Duration;

use super::advisor::{IndexCandidate, ListStats, SELECTIVITY_MIN};
use super::postings::POSTING_BYTES;
use super::{AttributeIndex, IndexOrigin, IndexedAttribute};
use crate::resource_cache::CacheInner;
use crate::snapshot::CacheContents;

/// A new index applies at most this many changes while it holds the cache's lock; more are applied without it first.
const LOCKED_CATCH_UP_MAX: usize = 256;

/// Maximum number of adaptive indexes per resource: each adds work to every change.
const ADAPTIVE_MAX: usize = 16;

/// Estimated fixed size of an index.
const INDEX_BYTES: usize = 4096;

/// Time until an index that exceeded the budget is tried again.
const NO_BUDGET_RETRY_AFTER: Duration = Duration::from_secs(60);

impl CacheInner {
    /// Records a finished list, and starts building an index if the advisor recommends one.
    pub(crate) fn record_list(
        this: &Arc<Self>,
        index: Option<&AttributeIndex>,
        list: &ListStats<'_>,
    ) {
        let now = this.options.clock.monotonic();
        this.counters
            .record_list(list.examined, list.matched, list.is_scan);
        if let Some(index) = index {
            index.record_use(list.examined, now);
        }
        if !this.options.index.by_label || !this.options.index.adaptive {
            return;
        }
        let (objects, indexes) = {
            let latest = this.latest();
            (latest.objects.len(), Arc::clone(&latest.indexes))
        };
        let is_indexed = |attribute: &IndexedAttribute| has_index(&indexes, attribute);
        let Some(candidate) = this
            .index_advisor
            .record_list(list, objects, is_indexed, now)
        else {
            return;
        };
        // Outside a tokio runtime there is no thread pool to build the index on.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cache = Arc::clone(this);
            runtime.spawn_blocking(move || cache.build_index(&candidate));
        }
    }

    fn build_index(&self, candidate: &IndexCandidate) {
        let attribute = &candidate.attribute;
        let version = self.latest().clone();
        let now = self.options.clock.monotonic();
        let bytes = INDEX_BYTES + version.objects.len() * POSTING_BYTES;
        let reservation = match adaptive_count(&version) < ADAPTIVE_MAX {
            true => self
                .index_budget
                .try_reserve(bytes, self.options.index.adaptive_bytes_max),
            false => None,
        };
        let Some(reservation) = reservation else {
            tracing::debug!(
                ?attribute,
                "adaptive index not built: the index budget is exhausted"
            );
            self.index_advisor
                .block(attribute, now + NO_BUDGET_RETRY_AFTER);
            return;
        };
        let mut index = AttributeIndex::new(attribute.clone(), IndexOrigin::Adaptive, now);
        index.budget_reservation = Some(reservation);
        for entry in version.objects.values() {
            index.replace(None, Some(entry));
        }
        // An index that is empty or not selective for the requested values does not help; the attribute stays blocked.
        let values = candidate.values.iter();
        let examined: usize = values.map(|value| index.postings.count(value)).sum();
        let pays = index.postings.len() > 0
            && examined.saturating_mul(SELECTIVITY_MIN) <= version.objects.len();
        let sequence = version.next_sequence;
        drop(version);
        if pays && self.install(index, sequence) {
            self.index_advisor.forget(attribute);
            tracing::info!(prefix = %self.prefix().as_str(), ?attribute, "adaptive index built");
        }
    }

    /// Brings an index of the contents at `sequence` up to date and adds it to the latest contents. Fails if changes in
    /// between have been trimmed from the history, or another index took its place.
    fn install(&self, mut index: AttributeIndex, mut sequence: u64) -> bool {
        loop {
            let state = self.watch_state();
            let Some(changes) = state.history.read_from(sequence, usize::MAX) else {
                return false;
            };
            let is_near = changes.len() <= LOCKED_CATCH_UP_MAX;
            let state = is_near.then_some(state);
            for change in &changes {
                index.replace(change.old.as_ref(), change.new.entry());
            }
            sequence += changes.len() as u64;
            let Some(_core) = state else {
                continue;
            };
            let mut latest = self.latest();
            if has_index(&latest.indexes, &index.attribute)
                || adaptive_count(&latest) >= ADAPTIVE_MAX
            {
                return false;
            }
            Arc::make_mut(&mut latest.indexes).push(index);
            return true;
        }
    }

    /// Drops adaptive indexes that are idle or exceed the budget.
    pub(crate) fn drop_unused_indexes(&self, now: Duration) {
        self.index_advisor.decay(now);
        let options = &self.options.index;
        if !self.measure_adaptive_indexes() {
            return;
        }
        let mut latest = self.latest();
        let mut dropped = Vec::new();
        let keep = |index: &mut AttributeIndex| {
            let Some(reservation) = &index.budget_reservation else {
                return true;
            };
            let is_within_budget = self.index_budget.used() <= options.adaptive_bytes_max;
            if is_within_budget && index.idle_for(now) <= options.adaptive_idle {
                return true;
            }
            // Snapshots may keep older versions of the index for a while; release its budget at once.
            reservation.resize(0);
            dropped.push((index.attribute.clone(), index.usage()));
            false
        };
        Arc::make_mut(&mut latest.indexes).retain_mut(keep);
        drop(latest);
        for (attribute, usage) in dropped {
            tracing::info!(prefix = %self.prefix().as_str(), ?attribute, "adaptive index dropped");
            self.index_advisor.forget(&attribute);
            self.counters.add_dropped_index(attribute, usage);
        }
    }

    /// Adjusts the reservations of the adaptive indexes to their current sizes. Returns whether there are any.
    fn measure_adaptive_indexes(&self) -> bool {
        // The lock is not held while the indexes are walked.
        let indexes = Arc::clone(&self.latest().indexes);
        let mut has_adaptive = false;
        for index in indexes.iter() {
            if let Some(reservation) = &index.budget_reservation {
                reservation.resize(INDEX_BYTES + index.postings.measure().bytes);
                has_adaptive = true;
            }
        }
        has_adaptive
    }
}

fn has_index(indexes: &[AttributeIndex], attribute: &IndexedAttribute) -> bool {
    indexes.iter().any(|index| index.attribute == *attribute)
}

fn adaptive_count(version: &CacheContents) -> usize {
    let indexes = version.indexes.iter();
    indexes
        .filter(|index| index.origin == IndexOrigin::Adaptive)
        .count()
}
