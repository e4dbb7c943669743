//! What a range holds: its keys, and the snapshot that their values are read from.

use std::num::NonZero;
use std::sync::{PoisonError, RwLock};

use redb::{Database, ReadableDatabase};
use rhumb_meta::Revision;

use super::index::Index;
use super::layout::Place;
use super::read::Snapshot;
use crate::{Entry, Key, Page, Range, Result};

/// The index and the log move on one after the other; this is both at one moment.
pub(super) struct Contents {
    pub(super) revision: Revision,
    pub(super) keys: Vec<(Key, Place)>,
    pub(super) snapshot: Snapshot,
    more: bool,
}

impl Contents {
    pub(super) fn of(
        range: &Range<'_>,
        index: &RwLock<Index>,
        database: &impl ReadableDatabase,
    ) -> Result<Contents> {
        let index = index.read().unwrap_or_else(PoisonError::into_inner);
        let revision = index.revision_of(range)?;
        let limit = range.limit.map_or(usize::MAX, NonZero::get);
        let mut found = index.range(range, revision);
        let take = |(key, place): (&Key, Place)| (key.clone(), place);
        let keys = found.by_ref().take(limit).map(take).collect();
        let more = found.next().is_some();
        drop(found);
        // While the index is held, the committer cannot let go of anything that it points to.
        let snapshot = Snapshot::open(database)?;
        Ok(Contents {
            revision,
            keys,
            snapshot,
            more,
        })
    }

    pub(super) fn page(&self) -> Result<Page> {
        let entry = |(key, place): &(Key, Place)| self.snapshot.entry(key, *place);
        Ok(Page {
            entries: self.keys.iter().map(entry).collect::<Result<_>>()?,
            revision: self.revision,
            more: self.more,
        })
    }
}

/// The current entry of one key.
pub(super) fn entry(
    key: &str,
    index: &RwLock<Index>,
    database: &Database,
) -> Result<Option<Entry>> {
    let index = index.read().unwrap_or_else(PoisonError::into_inner);
    let Some(version) = index.latest(key) else {
        return Ok(None);
    };
    let snapshot = Snapshot::open(database)?;
    drop(index);
    snapshot.entry(&key.into(), version.place).map(Some)
}
