//! Builds the indexes that lists ask for, and drops those that they no longer use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::advice::{SELECTIVE, Seen};
use super::postings::POSTING_BYTES;
use super::{Attribute, Index, Origin};
use crate::cache::Inner;

/// So many changes are caught up with while the cache waits; more are first caught up with beside it.
const CHANGES_MAX: usize = 256;

/// What the adaptive indexes of all resources take together.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    used: AtomicUsize,
}

impl Budget {
    /// Takes so many bytes if there are still so many.
    fn reserve(&self, bytes: usize, max: usize) -> bool {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= max);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// An index takes another amount than before. Returns by how much that is too much in all.
    fn adjust(&self, before: usize, after: usize, max: usize) -> usize {
        self.used.fetch_add(after, Ordering::Relaxed);
        let used = self.used.fetch_sub(before, Ordering::Relaxed) - before;
        used.saturating_sub(max)
    }
}

impl Inner {
    /// A list is over.
    pub(crate) fn note_list(this: &Arc<Self>, index: Option<&Index>, seen: &Seen<'_>) {
        let now = this.options.clock.monotonic();
        this.counters
            .note_list(seen.looked_at, seen.picked, seen.is_scan);
        if let Some(index) = index {
            index.note_use(seen.looked_at, now);
        }
        if !this.options.index.enabled || !this.options.index.adaptive {
            return;
        }
        let objects = this.latest().objects.len();
        let Some(attribute) = this.advice.note(seen, objects, now) else {
            return;
        };
        // Without a runtime nobody serves lists, so nobody misses the index.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cache = Arc::clone(this);
            runtime.spawn_blocking(move || cache.build_index(attribute));
        }
    }

    fn build_index(&self, attribute: Attribute) {
        let version = self.latest().clone();
        let bytes = version.objects.len() * POSTING_BYTES;
        if !self
            .budget
            .reserve(bytes, self.options.index.adaptive_bytes_max)
        {
            tracing::debug!(?attribute, "there is no room for a further index");
            return;
        }
        let now = self.options.clock.monotonic();
        let mut index = Index::new(attribute.clone(), Origin::Adaptive, now);
        for entry in version.objects.values() {
            index.replace(None, Some(entry));
        }
        let looks_at = index.postings.typical_length();
        let pays = looks_at.saturating_mul(SELECTIVE) <= version.objects.len();
        let sequence = version.sequence;
        drop(version);
        if pays && self.install(index, sequence, bytes) {
            self.advice.settle(&attribute);
            tracing::info!(prefix = %self.prefix().as_str(), ?attribute, "lists are indexed");
        } else {
            self.budget.release(bytes);
        }
    }

    /// Makes an index of the version before `sequence` one of the latest. Fails if nobody knows the changes between.
    fn install(&self, mut index: Index, mut sequence: u64, bytes: usize) -> bool {
        loop {
            let core = self.core();
            let Some(changes) = core.history.read_from(sequence, usize::MAX) else {
                return false;
            };
            let is_near = changes.len() <= CHANGES_MAX;
            let core = is_near.then_some(core);
            for change in &changes {
                index.replace(change.old.as_ref(), change.new.served());
            }
            sequence += changes.len() as u64;
            let Some(_core) = core else {
                continue;
            };
            let mut latest = self.latest();
            let is_known = |known: &Index| known.attribute == index.attribute;
            if latest.indexes.iter().any(is_known) {
                return false;
            }
            index.reserved = bytes;
            Arc::make_mut(&mut latest.indexes).push(index);
            return true;
        }
    }

    /// Gives up what is not used any more, or too much.
    pub(crate) fn tend_indexes(&self, now: Duration) {
        self.advice.fade(now);
        let options = &self.options.index;
        let mut latest = self.latest();
        let mut dropped = Vec::new();
        if latest
            .indexes
            .iter()
            .all(|index| index.origin == Origin::Configured)
        {
            return;
        }
        let keep = |index: &mut Index| {
            if index.origin == Origin::Configured {
                return true;
            }
            let bytes = index.postings.bytes();
            let excess = self
                .budget
                .adjust(index.reserved, bytes, options.adaptive_bytes_max);
            index.reserved = bytes;
            if excess == 0 && index.idle_for(now) <= options.adaptive_idle {
                return true;
            }
            self.budget.release(bytes);
            dropped.push(index.attribute.clone());
            false
        };
        Arc::make_mut(&mut latest.indexes).retain_mut(keep);
        drop(latest);
        for attribute in dropped {
            tracing::info!(prefix = %self.prefix().as_str(), ?attribute, "lists are no longer indexed");
            self.advice.settle(&attribute);
        }
    }
}
