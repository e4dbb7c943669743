//! Builds the indexes that lists ask for, and drops those that they no longer use.

use std::sync::Arc;
use std::time::Duration;

use super::advice::{SELECTIVE, Seen, Wanted};
use super::postings::POSTING_BYTES;
use super::{Attribute, Index, Origin};
use crate::cache::Inner;
use crate::snapshot::Version;

/// So many changes are caught up with while the cache waits; more are first caught up with beside it.
const CHANGES_MAX: usize = 256;

/// How many adaptive indexes a resource may have: each is a little work for every change.
const ADAPTIVE_MAX: usize = 16;

/// What an index takes however few objects are in it.
const INDEX_BYTES: usize = 4096;

/// How long an index is not tried again for which there was no room.
const NO_ROOM_FOR: Duration = Duration::from_secs(60);

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
        let (objects, indexes) = {
            let latest = this.latest();
            (latest.objects.len(), Arc::clone(&latest.indexes))
        };
        let is_indexed = |attribute: &Attribute| has(&indexes, attribute);
        let Some(wanted) = this.advice.note(seen, objects, is_indexed, now) else {
            return;
        };
        // Without a runtime nobody serves lists, so nobody misses the index.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cache = Arc::clone(this);
            runtime.spawn_blocking(move || cache.build_index(&wanted));
        }
    }

    fn build_index(&self, wanted: &Wanted) {
        let attribute = &wanted.attribute;
        let version = self.latest().clone();
        let now = self.options.clock.monotonic();
        let bytes = INDEX_BYTES + version.objects.len() * POSTING_BYTES;
        let share = match adaptive(&version) < ADAPTIVE_MAX {
            true => self
                .budget
                .share(bytes, self.options.index.adaptive_bytes_max),
            false => None,
        };
        let Some(share) = share else {
            tracing::debug!(?attribute, "there is no room for a further index");
            self.advice.bar(attribute, now + NO_ROOM_FOR);
            return;
        };
        let mut index = Index::new(attribute.clone(), Origin::Adaptive, now);
        index.share = Some(share);
        for entry in version.objects.values() {
            index.replace(None, Some(entry));
        }
        // One that has nothing at all, or much for what is asked for, is no help; the attribute stays barred.
        let values = wanted.values.iter();
        let looks_at: usize = values.map(|value| index.postings.count(value)).sum();
        let pays =
            index.postings.len() > 0 && looks_at.saturating_mul(SELECTIVE) <= version.objects.len();
        let sequence = version.sequence;
        drop(version);
        if pays && self.install(index, sequence) {
            self.advice.settle(attribute);
            tracing::info!(prefix = %self.prefix().as_str(), ?attribute, "lists are indexed");
        }
    }

    /// Makes an index of the version before `sequence` one of the latest. Fails if nobody knows the changes between.
    fn install(&self, mut index: Index, mut sequence: u64) -> bool {
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
            if has(&latest.indexes, &index.attribute) || adaptive(&latest) >= ADAPTIVE_MAX {
                return false;
            }
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
        if adaptive(&latest) == 0 {
            return;
        }
        let keep = |index: &mut Index| {
            let Some(share) = &index.share else {
                return true;
            };
            share.resize(INDEX_BYTES + index.postings.bytes());
            let has_room = self.budget.used() <= options.adaptive_bytes_max;
            if has_room && index.idle_for(now) <= options.adaptive_idle {
                return true;
            }
            // Other versions may live on for a while; this one's part is free at once.
            share.resize(0);
            dropped.push(index.stats());
            false
        };
        Arc::make_mut(&mut latest.indexes).retain_mut(keep);
        drop(latest);
        for stats in dropped {
            let attribute = &stats.attribute;
            tracing::info!(prefix = %self.prefix().as_str(), ?attribute, "lists are no longer indexed");
            self.advice.settle(attribute);
            self.counters.retire(&stats);
        }
    }
}

fn has(indexes: &[Index], attribute: &Attribute) -> bool {
    indexes.iter().any(|index| index.attribute == *attribute)
}

fn adaptive(version: &Version) -> usize {
    let indexes = version.indexes.iter();
    indexes
        .filter(|index| index.origin == Origin::Adaptive)
        .count()
}
