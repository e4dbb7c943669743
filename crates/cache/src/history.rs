//! The recent changes of a resource, and the versions between them.
//!
//! Changes are kept in segments. Each knows the version before its first change, from which any version
//! within is made by applying a few changes. The oldest segments are given up as a whole.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rhumb_meta::Revision;

use crate::change::Change;
use crate::snapshot::Version;
use crate::{HistoryError, Options};

/// A segment with this many changes takes no further transaction. More would make versions of the past
/// slower to build, fewer would keep more copies of tree nodes.
const SEGMENT_CHANGES: usize = 256;

/// The same in bytes: what is given up at a time should be little.
const SEGMENT_BYTES: usize = 1024 * 1024;

/// So many changes are young: what was made of them for one watcher is kept for the others.
const YOUNG_CHANGES: u64 = 512;

#[derive(Debug)]
pub(crate) struct History {
    /// Never empty; the last one is being filled.
    segments: VecDeque<Segment>,
    changes: usize,
    bytes: usize,
    age_min: Duration,
    changes_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
pub(crate) struct Segment {
    /// The version before the first change.
    base: Version,
    changes: Vec<Arc<Change>>,
    bytes: usize,
    /// When the last change came.
    last_at: Duration,
}

impl Segment {
    fn new(base: Version, now: Duration) -> Self {
        Segment {
            base,
            changes: Vec::new(),
            bytes: 0,
            last_at: now,
        }
    }

    fn is_full(&self) -> bool {
        self.changes.len() >= SEGMENT_CHANGES || self.bytes >= SEGMENT_BYTES
    }
}

impl History {
    pub(crate) fn new(base: Version, options: &Options) -> Self {
        let first = Segment::new(base.bare(), options.clock.monotonic());
        History {
            segments: VecDeque::from([first]),
            changes: 0,
            bytes: 0,
            age_min: options.history_age,
            changes_max: options.history_changes_max,
            bytes_max: options.history_bytes_max,
        }
    }

    /// To be called before each transaction, with the version before it: segments begin between transactions.
    pub(crate) fn make_room(&mut self, latest: &Version, now: Duration) {
        if self.segments.back().is_none_or(Segment::is_full) {
            self.segments.push_back(Segment::new(latest.bare(), now));
        }
    }

    /// Takes the changes of one transaction.
    pub(crate) fn push(&mut self, changes: &[Arc<Change>], now: Duration) {
        let Some(last) = self.segments.back_mut() else {
            return;
        };
        let bytes: usize = changes.iter().map(|change| change.weight()).sum();
        last.changes.extend(changes.iter().cloned());
        last.bytes += bytes;
        last.last_at = now;
        self.bytes += bytes;
        self.changes += changes.len();
        for change in changes {
            self.forget_forms(change.sequence);
        }
    }

    /// Nearly all watchers have been told of what happened so long before this change.
    fn forget_forms(&self, sequence: u64) {
        let grown_up = sequence
            .checked_sub(YOUNG_CHANGES)
            .and_then(|sequence| self.change(sequence));
        if let Some(change) = grown_up {
            change.forget_forms();
        }
    }

    fn change(&self, sequence: u64) -> Option<&Arc<Change>> {
        let segment = self.segments.get(self.segment_index(sequence)?)?;
        let index = usize::try_from(sequence - segment.base.sequence).ok()?;
        segment.changes.get(index)
    }

    /// Gives up what is old, or too much. `latest` is the version after the last change. Returns what was given
    /// up: to free it takes a while, which the caller need not spend under a lock.
    pub(crate) fn trim(&mut self, latest: &Version, now: Duration) -> Vec<Segment> {
        let mut given_up = Vec::new();
        while let Some(oldest) = self.segments.front() {
            let is_old = now.saturating_sub(oldest.last_at) > self.age_min;
            let is_too_much = self.bytes > self.bytes_max || self.changes > self.changes_max;
            if oldest.changes.is_empty() || !(is_old || is_too_much) {
                break;
            }
            self.bytes -= oldest.bytes;
            self.changes -= oldest.changes.len();
            given_up.extend(self.segments.pop_front());
            if self.segments.is_empty() {
                self.segments.push_back(Segment::new(latest.bare(), now));
            }
        }
        given_up
    }

    /// Every change after this revision is here.
    pub(crate) fn oldest(&self) -> Revision {
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

    /// The first change after `revision`, which may not have come yet.
    pub(crate) fn sequence_after(&self, revision: Revision) -> Result<u64, HistoryError> {
        let segment = self.segment_at(revision)?;
        let passed = passed(segment, revision);
        Ok(segment.base.sequence + passed as u64)
    }

    /// What makes the version at `revision`: an older one, and the changes to apply to it.
    pub(crate) fn version_at(
        &self,
        revision: Revision,
    ) -> Result<(Version, Vec<Arc<Change>>), HistoryError> {
        let segment = self.segment_at(revision)?;
        let changes = segment.changes[..passed(segment, revision)].to_vec();
        Ok((segment.base.clone(), changes))
    }

    /// Up to `limit` changes from this one on; `None` if some of them are no longer here.
    pub(crate) fn read_from(&self, sequence: u64, limit: usize) -> Option<Vec<Arc<Change>>> {
        let index = self.segment_index(sequence)?;
        let segment = self.segments.get(index)?;
        let skip = usize::try_from(sequence - segment.base.sequence).ok()?;
        let rest = self.segments.range(index..);
        let changes = rest.flat_map(|segment| &segment.changes).skip(skip);
        Some(changes.take(limit).cloned().collect())
    }

    /// The segment that has this change, or will have it.
    fn segment_index(&self, sequence: u64) -> Option<usize> {
        let begun = self
            .segments
            .partition_point(|segment| segment.base.sequence <= sequence);
        begun.checked_sub(1)
    }

    fn segment_at(&self, revision: Revision) -> Result<&Segment, HistoryError> {
        let begun = self
            .segments
            .partition_point(|segment| segment.base.revision <= revision);
        let segment = begun
            .checked_sub(1)
            .and_then(|index| self.segments.get(index));
        segment.ok_or(HistoryError::Expired {
            requested: revision,
            oldest: self.oldest(),
        })
    }
}

/// How many changes of the segment are not after the revision.
fn passed(segment: &Segment, revision: Revision) -> usize {
    segment
        .changes
        .partition_point(|change| change.revision <= revision)
}
