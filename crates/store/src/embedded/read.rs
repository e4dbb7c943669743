//! Reads, concurrent with the committer: a consistent snapshot of index and segment list, then reads of the log.

use std::num::NonZero;
use std::sync::Arc;

use rhumb_meta::Revision;

use super::disk_error::{damaged, damaged_at};
use super::index::{KeyIndex, SharedKeyIndex};
use super::log::{
    self, LogRecord, RecordDamage, RecordHeader, RecordId, SegmentList, SegmentedLog,
};
use crate::{ChangeSet, Error, Key, KeyChange, RangePage, RangeRequest, Result, StoreEntry};

/// Reads entries, ranges and past changes. Clones share the same store.
#[derive(Debug, Clone)]
pub(super) struct EmbeddedReader {
    log: Arc<SegmentedLog>,
    index: SharedKeyIndex,
}

impl EmbeddedReader {
    pub(super) fn new(log: Arc<SegmentedLog>, index: SharedKeyIndex) -> Self {
        EmbeddedReader { log, index }
    }

    /// Fails if writes are rejected, or the last one failed for lack of space.
    pub(super) fn check_writable(&self) -> Result<()> {
        self.log.check_writable()?;
        match self.log.is_full() {
            true => Err(Error::StorageFull {
                reason: "no space left for the last write".to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Runs a read on the blocking thread pool.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&EmbeddedReader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.log.is_closed() {
            return Err(Error::Closed);
        }
        let reader = self.clone();
        let task = tokio::task::spawn_blocking(move || read(&reader));
        task.await.unwrap_or(Err(Error::Closed))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.log.is_closed()
    }

    pub(super) fn disk_bytes(&self) -> u64 {
        self.log.disk_bytes()
    }

    /// The compaction revision: the oldest revision that can be read.
    pub(super) fn compacted(&self) -> Revision {
        self.index.read().compacted()
    }

    /// The current entry of one key.
    pub(super) fn entry(&self, key: &str) -> Result<Option<StoreEntry>> {
        let index = self.index.read();
        let Some(version) = index.latest(key) else {
            return Ok(None);
        };
        let segments = self.log.segments();
        drop(index);
        entry_at(&segments, &key.into(), version.record_id).map(Some)
    }

    pub(super) fn range_snapshot(&self, range: &RangeRequest<'_>) -> Result<RangeSnapshot> {
        let index = self.index.read();
        RangeSnapshot::capture(range, &index, self.log.segments())
    }

    /// Reads the changes below `prefix` after a revision from the log, up to about `bytes_max` bytes of records. Also
    /// returns the revision reached, which may be later than the last change below the prefix.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: Revision,
        bytes_max: usize,
    ) -> Result<(Vec<ChangeSet>, Revision)> {
        let index = self.index.read();
        let ((current, oldest), segments) = (index.revision_bounds(), self.log.segments());
        drop(index);
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let mut collected = ChangeSetBuilder::new(prefix, after);
        let mut bytes_left = bytes_max;
        for segment in log::segments_after(&segments, after.get() + 1) {
            for row in segment.records_between(after.get(), current.get(), bytes_left) {
                let record = segment.read_record_at(&row)?;
                collected.add(row.record_id(), &record)?;
                bytes_left = bytes_left.saturating_sub(record.len());
            }
            if bytes_left == 0 {
                collected.finish_set();
                return Ok((collected.change_sets, Revision::new(collected.revision)));
            }
        }
        collected.finish_set();
        Ok((collected.change_sets, current.max(after)))
    }
}

/// A snapshot of a range: its keys, and the segments from which their values are read.
pub(super) struct RangeSnapshot {
    pub(super) revision: Revision,
    pub(super) keys: Vec<(Key, RecordId)>,
    segments: SegmentList,
    has_more: bool,
}

impl RangeSnapshot {
    /// `segments` must be the segment list at the time the index lock is held.
    pub(super) fn capture(
        range: &RangeRequest<'_>,
        index: &KeyIndex,
        segments: SegmentList,
    ) -> Result<RangeSnapshot> {
        let revision = index.resolve_revision(range)?;
        let limit = range.limit.map_or(usize::MAX, NonZero::get);
        let mut found = index.range(range, revision);
        let take = |(key, record_id): (&Key, RecordId)| (key.clone(), record_id);
        let keys = found.by_ref().take(limit).map(take).collect();
        let more = found.next().is_some();
        Ok(RangeSnapshot {
            revision,
            keys,
            segments,
            has_more: more,
        })
    }

    pub(super) fn read_entry(&self, key: &Key, record_id: RecordId) -> Result<StoreEntry> {
        entry_at(&self.segments, key, record_id)
    }

    pub(super) fn read_page(&self) -> Result<RangePage> {
        let entry = |(key, record_id): &(Key, RecordId)| self.read_entry(key, *record_id);
        Ok(RangePage {
            entries: self.keys.iter().map(entry).collect::<Result<_>>()?,
            revision: self.revision,
            more: self.has_more,
        })
    }
}

/// Reads the entry of a record.
pub(super) fn entry_at(
    segments: &SegmentList,
    key: &Key,
    record_id: RecordId,
) -> Result<StoreEntry> {
    let bytes = log::read_record(segments, record_id)?;
    let bytes = bytes.ok_or_else(|| damaged(key, "the record is missing in the log"))?;
    let record = LogRecord::decode(record_id, &bytes).map_err(|bad| damaged(key, bad.reason()))?;
    match record.to_entry(record_id.revision) {
        Some(entry) if record.key == &**key => Ok(entry),
        _ => Err(damaged(key, "the record belongs to another key")),
    }
}

/// Groups records into one change set per revision.
struct ChangeSetBuilder<'a> {
    prefix: &'a str,
    revision: u64,
    pending_changes: Vec<KeyChange>,
    change_sets: Vec<ChangeSet>,
}

impl<'a> ChangeSetBuilder<'a> {
    fn new(prefix: &'a str, after: Revision) -> Self {
        ChangeSetBuilder {
            prefix,
            revision: after.get(),
            pending_changes: Vec::new(),
            change_sets: Vec::new(),
        }
    }

    fn add(&mut self, record_id: RecordId, bytes: &[u8]) -> Result<()> {
        if record_id.revision != self.revision {
            self.finish_set();
            self.revision = record_id.revision;
        }
        let named = |bad: RecordDamage| match RecordHeader::decode_either_copy(record_id, bytes) {
            Ok(head) => damaged(head.key, bad.reason()),
            Err(_) => damaged_at(record_id, bad),
        };
        let record = LogRecord::decode(record_id, bytes).map_err(named)?;
        if record.key.starts_with(self.prefix) {
            self.pending_changes.push(record.to_change());
        }
        Ok(())
    }

    fn finish_set(&mut self) {
        if !self.pending_changes.is_empty() {
            self.change_sets.push(ChangeSet {
                revision: Revision::new(self.revision),
                changes: std::mem::take(&mut self.pending_changes).into(),
            });
        }
    }
}
