//! Carries out transactions inside one write transaction of the database.

use std::collections::HashMap;

use redb::{Table, WriteTransaction};
use rhumb_meta::Revision;

use super::fault::from_redb;
use super::index::{Index, Version};
use super::layout::{Body, FORMAT, FORMATS, Head, LOG, NUMBERS, Numbers, Place, Record};
use super::read::{entry_at, read_numbers};
use crate::{Change, ChangeSet, Error, Key, Operation, Result, Transaction};

/// The tables of one write.
pub(super) struct Tables<'t> {
    /// Written by [`Tables::save`], with which every write ends.
    pub(super) numbers: Numbers,
    numbers_table: Table<'t, (), &'static [u8]>,
    log: Table<'t, (u64, u32), &'static [u8]>,
}

impl<'t> Tables<'t> {
    pub(super) fn open(write: &'t WriteTransaction) -> Result<Self> {
        let numbers_table = write.open_table(NUMBERS).map_err(from_redb)?;
        Ok(Tables {
            numbers: read_numbers(&numbers_table)?,
            numbers_table,
            log: write.open_table(LOG).map_err(from_redb)?,
        })
    }

    /// Makes the tables of a new database.
    pub(super) fn create(write: &'t WriteTransaction) -> Result<Self> {
        let mut formats = write.open_table(FORMATS).map_err(from_redb)?;
        formats.insert((), FORMAT).map_err(from_redb)?;
        let mut numbers_table = write.open_table(NUMBERS).map_err(from_redb)?;
        let numbers = Numbers::default();
        numbers_table
            .insert((), &numbers.encode()[..])
            .map_err(from_redb)?;
        Ok(Tables {
            numbers,
            numbers_table,
            log: write.open_table(LOG).map_err(from_redb)?,
        })
    }

    pub(super) fn save(mut self) -> Result<()> {
        let numbers = self.numbers.encode();
        self.numbers_table
            .insert((), &numbers[..])
            .map_err(from_redb)?;
        Ok(())
    }

    pub(super) fn append(&mut self, place: Place, record: Record<'_>) -> Result<()> {
        let mut space = self
            .log
            .insert_reserve(place.row(), record.encoded_len())
            .map_err(from_redb)?;
        self.numbers.count(record.encode(place, space.as_mut()));
        Ok(())
    }

    pub(super) fn remove(&mut self, place: Place) -> Result<()> {
        let removed = self.log.remove(place.row()).map_err(from_redb)?;
        // A record whose heads are both damaged would have kept the store from being opened.
        if let Some(bytes) = removed
            && let Ok(head) = Head::of(place, bytes.value())
        {
            self.numbers.discount(head.crc);
        }
        Ok(())
    }
}

/// Whether a failure concerns one transaction or all that share the write.
pub(super) enum Failure {
    /// The transaction is refused, and nothing of it was written.
    Refused(Error),
    /// The write cannot go on.
    Broken(Error),
}

/// A write in the making: the index, and above it what this write has changed so far.
pub(super) struct Draft<'a, 't> {
    tables: &'a mut Tables<'t>,
    index: &'a Index,
    /// The latest version of each key that this write has touched.
    touched: HashMap<Key, Version>,
    pub(super) added: Vec<(Key, Version)>,
}

impl<'a, 't> Draft<'a, 't> {
    pub(super) fn new(tables: &'a mut Tables<'t>, index: &'a Index) -> Self {
        Draft {
            tables,
            index,
            touched: HashMap::new(),
            added: Vec::new(),
        }
    }

    /// Carries out a transaction as `revision`. `None` if there was nothing to change.
    pub(super) fn apply(
        &mut self,
        transaction: &Transaction,
        revision: u64,
    ) -> Result<Option<ChangeSet>, Failure> {
        let operations = transaction.operations();
        let mut found = Vec::with_capacity(operations.len());
        for operation in operations {
            found.push(self.check(operation).map_err(Failure::Refused)?);
        }
        let mut changes = Vec::with_capacity(operations.len());
        for (operation, found) in operations.iter().zip(found) {
            let place = Place {
                revision,
                position: changes.len() as u32,
            };
            let change = self.write(operation, found, place);
            changes.extend(change.map_err(Failure::Broken)?);
        }
        Ok((!changes.is_empty()).then(|| ChangeSet {
            revision: Revision::new(revision),
            changes: changes.into(),
        }))
    }

    fn latest(&self, key: &str) -> Option<Version> {
        match self.touched.get(key) {
            Some(version) => Some(*version).filter(|version| version.created != 0),
            None => self.index.latest(key),
        }
    }

    /// The version that the operation finds, if it is one that the operation expects.
    fn check(&self, operation: &Operation) -> Result<Option<Version>> {
        let key = operation.key();
        let found = self.latest(key);
        let modified = found.map(|version| Revision::new(version.place.revision));
        if operation.expect().holds(modified) {
            return Ok(found);
        }
        let entry = found.map(|version| entry_at(&self.tables.log, key, version.place));
        Err(Error::conflict(key.clone(), entry.transpose()?))
    }

    fn write(
        &mut self,
        operation: &Operation,
        found: Option<Version>,
        place: Place,
    ) -> Result<Option<Change>> {
        let (key, created, body, change) = match operation {
            Operation::Put { key, value, .. } => {
                let created = found.map_or(place.revision, |version| version.created);
                let change = Change::Put {
                    key: key.clone(),
                    value: value.clone(),
                    created: Revision::new(created),
                };
                (key, created, Body::Put { created, value }, change)
            }
            Operation::Delete { key, .. } if found.is_some() => {
                (key, 0, Body::Delete, Change::Delete { key: key.clone() })
            }
            Operation::Delete { .. } | Operation::Check { .. } => return Ok(None),
        };
        self.tables.append(place, Record { key, body })?;
        let version = Version { place, created };
        self.touched.insert(key.clone(), version);
        self.added.push((key.clone(), version));
        Ok(Some(change))
    }
}
