//! The recent changes of a resource (upstream: the event window of `watchCache`).
//!
//! Changes are kept in segments. Each segment keeps the contents before its first change, from which the contents
//! at any revision within are rebuilt by applying at most one segment of changes. Whole segments are trimmed, oldest
//! first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rhumb_meta::Revision;

use crate::object_change::ObjectChange;
use crate::snapshot::CacheContents;
use crate::{CacheOptions, HistoryError};

/// A segment with this many changes is full. A larger value makes past contents slower to rebuild, a smaller one
/// keeps more copies of map nodes.
const SEGMENT_CHANGES: usize = 256;

/// The same in bytes, so that each trim frees a small amount.
const SEGMENT_BYTES: usize = 1024 * 1024;

/// Further encodings are kept for this many of the latest changes, to be shared by watchers.
const ENCODINGS_KEPT_CHANGES: u64 = 512;

/// The recent changes of one resource, bounded by age, number and bytes.
#[derive(Debug)]
pub(crate) struct ChangeHistory {
    /// Never empty; changes are appended to the last one.
    segments: VecDeque<HistorySegment>,
    changes: usize,
    bytes: usize,
    age_min: Duration,
    changes_max: usize,
    bytes_max: usize,
}

/// Consecutive changes, and the contents before them.
#[derive(Debug)]
pub(crate) struct HistorySegment {
    /// The contents before the first change.
    base: CacheContents,
    changes: Vec<Arc<ObjectChange>>,
    bytes: usize,
    /// When the last change was added.
    last_change_at: Duration,
}

impl HistorySegment {
    fn new(base: CacheContents, now: Duration) -> Self {
        HistorySegment {
            base,
            changes: Vec::new(),
            bytes: 0,
            last_change_at: now,
        }
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= SEGMENT_CHANGES || self.bytes >= SEGMENT_BYTES
    }
}

impl ChangeHistory {
    pub(crate) fn new(base: CacheContents, options: &CacheOptions) -> Self {
        let first = HistorySegment::new(base.without_indexes(), options.clock.monotonic());
        ChangeHistory {
            segments: VecDeque::from([first]),
            changes: 0,
            bytes: 0,
            age_min: options.history_age,
            changes_max: options.history_changes_max,
            bytes_max: options.history_bytes_max,
        }
    }

    /// Call before each transaction, with the contents before it: a transaction is never split across segments.
    pub(crate) fn start_segment_if_full(&mut self, latest: &CacheContents, now: Duration) {
        if self.segments.back().is_none_or(HistorySegment::is_full) {
            self.segments
                .push_back(HistorySegment::new(latest.without_indexes(), now));
        }
    }

    /// Appends the changes of one transaction.
    pub(crate) fn push(&mut self, changes: &[Arc<ObjectChange>], now: Duration) {
        let Some(last) = self.segments.back_mut() else {
            return;
        };
        let bytes: usize = changes.iter().map(|change| change.retained_bytes()).sum();
        last.changes.extend(changes.iter().cloned());
        last.bytes += bytes;
        last.last_change_at = now;
        self.bytes += bytes;
        self.changes += changes.len();
        for change in changes {
            self.drop_old_encodings(change.sequence);
        }
    }

    /// Drops the further encodings of a change that nearly all watchers have received by now.
    fn drop_old_encodings(&self, sequence: u64) {
        let old = sequence
            .checked_sub(ENCODINGS_KEPT_CHANGES)
            .and_then(|sequence| self.change(sequence));
        if let Some(change) = old {
            change.drop_encodings();
        }
    }

    fn change(&self, sequence: u64) -> Option<&Arc<ObjectChange>> {
        let segment = self.segments.get(self.segment_index(sequence)?)?;
        let index = usize::try_from(sequence - segment.base.next_sequence).ok()?;
        segment.changes.get(index)
    }

    /// Removes segments that are too old or exceed the limits. `latest` is the contents after the last change.
    /// Returns the removed segments, so that the caller can free them without holding a lock.
    pub(crate) fn trim(&mut self, latest: &CacheContents, now: Duration) -> Vec<HistorySegment> {
        let mut trimmed = Vec::new();
        while let Some(oldest) = self.segments.front() {
            let is_old = now.saturating_sub(oldest.last_change_at) > self.age_min;
            let is_over_limit = self.bytes > self.bytes_max || self.changes > self.changes_max;
            if oldest.changes.is_empty() || !(is_old || is_over_limit) {
                break;
            }
            self.bytes -= oldest.bytes;
            self.changes -= oldest.changes.len();
            trimmed.extend(self.segments.pop_front());
            if self.segments.is_empty() {
                self.segments
                    .push_back(HistorySegment::new(latest.without_indexes(), now));
            }
        }
        trimmed
    }

    /// The history has every change after this revision.
    pub(crate) fn oldest_revision(&self) -> Revision {
        self.segments
            .front()
            .map_or(Revision::ZERO, |segment| segment.base.revision)
    }

    pub(crate) fn changes(&self) -> usize {
        self.changes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sequence of the first change after `revision`, which may lie in the future.
    pub(crate) fn sequence_after(&self, revision: Revision) -> Result<u64, HistoryError> {
        let segment = self.segment_at(revision)?;
        let passed = changes_up_to(segment, revision);
        Ok(segment.base.next_sequence + passed as u64)
    }

    /// The base contents and the changes to apply to them to rebuild the contents at `revision`.
    pub(crate) fn base_and_changes_at(
        &self,
        revision: Revision,
    ) -> Result<(CacheContents, Vec<Arc<ObjectChange>>), HistoryError> {
        let segment = self.segment_at(revision)?;
        let changes = segment.changes[..changes_up_to(segment, revision)].to_vec();
        Ok((segment.base.clone(), changes))
    }

    /// Up to `limit` changes starting at `sequence`; `None` if some of them have been trimmed.
    pub(crate) fn read_from(&self, sequence: u64, limit: usize) -> Option<Vec<Arc<ObjectChange>>> {
        let index = self.segment_index(sequence)?;
        let segment = self.segments.get(index)?;
        let skip = usize::try_from(sequence - segment.base.next_sequence).ok()?;
        let rest = self.segments.range(index..);
        let changes = rest.flat_map(|segment| &segment.changes).skip(skip);
        Some(changes.take(limit).cloned().collect())
    }

    /// The segment that contains this change, or will contain it.
    fn segment_index(&self, sequence: u64) -> Option<usize> {
        let started = self
            .segments
            .partition_point(|segment| segment.base.next_sequence <= sequence);
        started.checked_sub(1)
    }

    fn segment_at(&self, revision: Revision) -> Result<&HistorySegment, HistoryError> {
        let started = self
            .segments
            .partition_point(|segment| segment.base.revision <= revision);
        let segment = started
            .checked_sub(1)
            .and_then(|index| self.segments.get(index));
        segment.ok_or(HistoryError::Expired {
            requested: revision,
            oldest: self.oldest_revision(),
        })
    }
}

/// Number of changes in the segment up to and including the revision.
fn changes_up_to(segment: &HistorySegment, revision: Revision) -> usize {
    segment
        .changes
        .partition_point(|change| change.revision <= revision)
}
