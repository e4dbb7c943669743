//! Reads beside the committer: the index and the segments of one moment, taken together.

use std::num::NonZero;
use std::sync::Arc;

use rhumb_meta::Revision;

use super::fault::{damaged, nameless};
use super::index::{Index, SharedIndex};
use super::log::{self, BadRecord, Head, Log, Place, Record, Segments};
use crate::{Change, ChangeSet, Entry, Error, Key, Page, Range, Result};

/// What reads need; clones are the same store.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    log: Arc<Log>,
    index: SharedIndex,
}

impl Reader {
    pub(super) fn new(log: Arc<Log>, index: SharedIndex) -> Self {
        Reader { log, index }
    }

    /// Runs a read on a thread where it may block.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> Result<T> + Send + 'static,
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

    /// Where the history begins.
    pub(super) fn compacted(&self) -> Revision {
        self.index.read().compacted()
    }

    /// The current entry of one key.
    pub(super) fn entry(&self, key: &str) -> Result<Option<Entry>> {
        let index = self.index.read();
        let Some(version) = index.latest(key) else {
            return Ok(None);
        };
        let segments = self.log.segments();
        drop(index);
        entry_at(&segments, &key.into(), version.place).map(Some)
    }

    pub(super) fn contents(&self, range: &Range<'_>) -> Result<Contents> {
        let index = self.index.read();
        Contents::of(range, &index, self.log.segments())
    }

    /// The changes below `prefix` after a revision: not much more than `bytes_max` of the log is looked
    /// at. Also tells how far it got, which may be beyond the last change that falls into the prefix.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: Revision,
        bytes_max: usize,
    ) -> Result<(Vec<ChangeSet>, Revision)> {
        let index = self.index.read();
        let ((current, oldest), segments) = (index.bounds(), self.log.segments());
        drop(index);
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let mut collected = Collected::new(prefix, after);
        let mut bytes_left = bytes_max;
        for segment in log::segments_after(&segments, after.get() + 1) {
            for row in segment.rows_between(after.get(), current.get(), bytes_left) {
                let record = segment.record_at(&row)?;
                collected.add(row.place(), &record)?;
                bytes_left = bytes_left.saturating_sub(record.len());
            }
            if bytes_left == 0 {
                collected.close();
                return Ok((collected.sets, Revision::new(collected.revision)));
            }
        }
        collected.close();
        Ok((collected.sets, current.max(after)))
    }
}

/// What a range holds: its keys, and the segments that their values are read from.
pub(super) struct Contents {
    pub(super) revision: Revision,
    pub(super) keys: Vec<(Key, Place)>,
    segments: Segments,
    more: bool,
}

impl Contents {
    /// The segments are those of the moment in which the index is held.
    pub(super) fn of(range: &Range<'_>, index: &Index, segments: Segments) -> Result<Contents> {
        let revision = index.revision_of(range)?;
        let limit = range.limit.map_or(usize::MAX, NonZero::get);
        let mut found = index.range(range, revision);
        let take = |(key, place): (&Key, Place)| (key.clone(), place);
        let keys = found.by_ref().take(limit).map(take).collect();
        let more = found.next().is_some();
        Ok(Contents {
            revision,
            keys,
            segments,
            more,
        })
    }

    pub(super) fn entry(&self, key: &Key, place: Place) -> Result<Entry> {
        entry_at(&self.segments, key, place)
    }

    pub(super) fn page(&self) -> Result<Page> {
        let entry = |(key, place): &(Key, Place)| self.entry(key, *place);
        Ok(Page {
            entries: self.keys.iter().map(entry).collect::<Result<_>>()?,
            revision: self.revision,
            more: self.more,
        })
    }
}

/// The entry whose record lies at `place`.
pub(super) fn entry_at(segments: &Segments, key: &Key, place: Place) -> Result<Entry> {
    let bytes = log::record(segments, place)?;
    let bytes = bytes.ok_or_else(|| damaged(key, "its record is missing"))?;
    let record = Record::decode(place, &bytes).map_err(|bad| damaged(key, bad.reason()))?;
    match record.to_entry(place.revision) {
        Some(entry) if record.key == &**key => Ok(entry),
        _ => Err(damaged(key, "its record belongs to something else")),
    }
}

/// Gathers records into one set per revision.
struct Collected<'a> {
    prefix: &'a str,
    revision: u64,
    open: Vec<Change>,
    sets: Vec<ChangeSet>,
}

impl<'a> Collected<'a> {
    fn new(prefix: &'a str, after: Revision) -> Self {
        Collected {
            prefix,
            revision: after.get(),
            open: Vec::new(),
            sets: Vec::new(),
        }
    }

    fn add(&mut self, place: Place, bytes: &[u8]) -> Result<()> {
        if place.revision != self.revision {
            self.close();
            self.revision = place.revision;
        }
        let named = |bad: BadRecord| match Head::of(place, bytes) {
            Ok(head) => damaged(head.key, bad.reason()),
            Err(_) => nameless(place, bad),
        };
        let record = Record::decode(place, bytes).map_err(named)?;
        if record.key.starts_with(self.prefix) {
            self.open.push(record.to_change());
        }
        Ok(())
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.sets.push(ChangeSet {
                revision: Revision::new(self.revision),
                changes: std::mem::take(&mut self.open).into(),
            });
        }
    }
}
