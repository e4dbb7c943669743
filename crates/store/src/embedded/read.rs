//! Reading from one snapshot of the database.

use redb::{ReadOnlyTable, ReadableDatabase, ReadableTable};
use rhumb_meta::Revision;

use super::fault::{damaged, from_redb};
use super::index::{Index, Version};
use super::layout::{Head, LOG, NUMBERS, Numbers, Place, Record};
use crate::{Change, ChangeSet, Entry, Error, Key, Result};

/// The log as it was at one moment. Later commits do not show.
#[derive(Debug)]
pub(super) struct Snapshot {
    numbers: Numbers,
    log: ReadOnlyTable<(u64, u32), &'static [u8]>,
}

impl Snapshot {
    pub(super) fn open(database: &impl ReadableDatabase) -> Result<Self> {
        let transaction = database.begin_read().map_err(from_redb)?;
        let numbers = transaction.open_table(NUMBERS).map_err(from_redb)?;
        Ok(Snapshot {
            numbers: read_numbers(&numbers)?,
            log: transaction.open_table(LOG).map_err(from_redb)?,
        })
    }

    pub(super) fn revision(&self) -> Revision {
        Revision::new(self.numbers.revision)
    }

    pub(super) fn compacted(&self) -> Revision {
        Revision::new(self.numbers.compacted)
    }

    /// Reads the whole log into an index, and makes sure that it is the whole log.
    pub(super) fn index(&self) -> Result<Index> {
        let Numbers {
            revision,
            compacted,
            ..
        } = self.numbers;
        let mut index = Index::new(revision, compacted);
        let mut found = Numbers {
            revision,
            compacted,
            ..Numbers::default()
        };
        for row in self.log.iter().map_err(from_redb)? {
            let (place, bytes) = row.map_err(from_redb)?;
            let place = Place::from(place.value());
            let head = Head::of(place, bytes.value())
                .map_err(|bad| damaged(&format!("revision {}", place.revision), bad.reason()))?;
            found.count(head.crc);
            let created = head.created;
            index.add(&head.key.into(), Version { place, created });
        }
        if found != self.numbers || index.revision().get() != revision {
            let (found, wanted) = (found.records, self.numbers.records);
            let reason = format!("it has {found} readable records instead of {wanted}");
            return Err(damaged("the log", &reason));
        }
        Ok(index)
    }

    pub(super) fn entry(&self, key: &Key, place: Place) -> Result<Entry> {
        entry_at(&self.log, key, place)
    }

    /// The changes below `prefix` after a revision: not much more than `bytes_max` of the log is looked
    /// at. Also tells how far it got, which may be beyond the last change that falls into the prefix.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: Revision,
        bytes_max: usize,
    ) -> Result<(Vec<ChangeSet>, Revision)> {
        let oldest = self.compacted();
        if after < oldest {
            return Err(Error::Compacted {
                requested: after,
                oldest,
            });
        }
        let mut collected = Collected::new(prefix, after);
        let rows = self.log.range((after.get() + 1, 0)..).map_err(from_redb)?;
        let mut bytes_read = 0;
        for row in rows {
            let (place, bytes) = row.map_err(from_redb)?;
            let place = Place::from(place.value());
            if bytes_read >= bytes_max && place.revision != collected.revision {
                collected.close();
                return Ok((collected.sets, Revision::new(collected.revision)));
            }
            bytes_read += bytes.value().len();
            collected.add(place, bytes.value())?;
        }
        collected.close();
        Ok((collected.sets, self.revision().max(after)))
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

pub(super) fn read_numbers(table: &impl ReadableTable<(), &'static [u8]>) -> Result<Numbers> {
    let bytes = table.get(()).map_err(from_redb)?;
    bytes
        .and_then(|bytes| Numbers::decode(bytes.value()))
        .ok_or_else(|| damaged("the numbers of the store", "their checksum does not match"))
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
