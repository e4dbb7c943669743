//! Reading from one snapshot of the database.

use redb::{ReadOnlyTable, ReadableDatabase, ReadableTable};
use rhumb_meta::Revision;

use super::fault::{damaged, from_redb};
use super::index::{Index, Version};
use super::layout::{Head, LOG, META, META_COMPACTED, META_REVISION, Place, Record};
use crate::{Change, ChangeSet, Entry, Error, Key, Result};

/// The log as it was at one moment. Later commits do not show.
#[derive(Debug)]
pub(super) struct Snapshot {
    meta: ReadOnlyTable<&'static str, u64>,
    log: ReadOnlyTable<(u64, u32), &'static [u8]>,
}

impl Snapshot {
    pub(super) fn open(database: &impl ReadableDatabase) -> Result<Self> {
        let transaction = database.begin_read().map_err(from_redb)?;
        Ok(Snapshot {
            meta: transaction.open_table(META).map_err(from_redb)?,
            log: transaction.open_table(LOG).map_err(from_redb)?,
        })
    }

    pub(super) fn number(&self, name: &str) -> Result<u64> {
        let number = self.meta.get(name).map_err(from_redb)?;
        number
            .map(|guard| guard.value())
            .ok_or_else(|| damaged(name, "the number is missing"))
    }

    pub(super) fn revision(&self) -> Result<Revision> {
        self.number(META_REVISION).map(Revision::new)
    }

    pub(super) fn compacted(&self) -> Result<Revision> {
        self.number(META_COMPACTED).map(Revision::new)
    }

    /// Reads the whole log into an index, which also shows that every page of it can be read.
    pub(super) fn index(&self) -> Result<Index> {
        let (revision, compacted) = (self.revision()?.get(), self.compacted()?.get());
        let mut index = Index::new(revision, compacted);
        for row in self.log.iter().map_err(from_redb)? {
            let (place, bytes) = row.map_err(from_redb)?;
            let place = Place::from(place.value());
            let head = Head::of(place, bytes.value())
                .map_err(|bad| damaged(&format!("revision {}", place.revision), bad.reason()))?;
            let created = head.created;
            index.add(&head.key.into(), Version { place, created });
        }
        if index.revision().get() != revision {
            return Err(damaged(
                "revision",
                "the log goes further than the revision",
            ));
        }
        Ok(index)
    }

    pub(super) fn entry(&self, key: &Key, place: Place) -> Result<Entry> {
        entry_at(&self.log, key, place)
    }

    /// The changes below `prefix` after a revision: at most `records_max` records are looked at. Also
    /// tells how far it got, which may be beyond the last change that falls into the prefix.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: Revision,
        records_max: usize,
    ) -> Result<(Vec<ChangeSet>, Revision)> {
        let oldest = self.compacted()?;
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let mut collected = Collected::new(prefix, after);
        let rows = self.log.range((after.get() + 1, 0)..).map_err(from_redb)?;
        for (count, row) in rows.enumerate() {
            let (place, bytes) = row.map_err(from_redb)?;
            let place = Place::from(place.value());
            if count >= records_max && place.revision != collected.revision {
                collected.close();
                return Ok((collected.sets, Revision::new(collected.revision)));
            }
            collected.add(place, bytes.value())?;
        }
        collected.close();
        Ok((collected.sets, self.revision()?.max(after)))
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
        let named = |bad: super::layout::BadRecord| match Head::of(place, bytes) {
            Ok(head) => damaged(head.key, bad.reason()),
            Err(_) => damaged(&format!("revision {}", place.revision), bad.reason()),
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

/// The entry whose record lies at `place`.
pub(super) fn entry_at(
    log: &impl ReadableTable<(u64, u32), &'static [u8]>,
    key: &Key,
    place: Place,
) -> Result<Entry> {
    let bytes = log
        .get(place.row())
        .map_err(from_redb)?
        .ok_or_else(|| damaged(key, "its record is missing"))?;
    let record = Record::decode(place, bytes.value()).map_err(|bad| damaged(key, bad.reason()))?;
    match record.to_entry(place.revision) {
        Some(entry) if record.key == &**key => Ok(entry),
        _ => Err(damaged(key, "its record belongs to something else")),
    }
}
