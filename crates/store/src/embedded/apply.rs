//! Carries out transactions on the draft of one write.

use std::collections::HashMap;

use bytes::Bytes;
use rhumb_meta::Revision;

use super::index::{Index, Version};
use super::log::{Body, FrameBuilder, Place, Record, Segments};
use super::read::entry_at;
use crate::{Change, ChangeSet, Entry, Error, Key, Operation, Result, Transaction};

/// A write in the making: the index, and above it what this write has changed so far.
pub(super) struct Draft<'a> {
    index: &'a Index,
    segments: &'a Segments,
    frame: &'a mut FrameBuilder,
    /// The latest version of each key that this write has touched, and its value unless it is deleted.
    touched: HashMap<Key, (Version, Bytes)>,
    pub(super) added: Vec<(Key, Version)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        index: &'a Index,
        segments: &'a Segments,
        frame: &'a mut FrameBuilder,
    ) -> Self {
        Draft {
            index,
            segments,
            frame,
            touched: HashMap::new(),
            added: Vec::new(),
        }
    }

    /// Carries out a transaction as `revision`, or nothing of it. `None` if there was nothing to change.
    pub(super) fn apply(
        &mut self,
        transaction: &Transaction,
        revision: u64,
    ) -> Result<Option<ChangeSet>> {
        let operations = transaction.operations();
        let mut found = Vec::with_capacity(operations.len());
        for operation in operations {
            found.push(self.check(operation)?);
        }
        let mut changes = Vec::with_capacity(operations.len());
        for (operation, found) in operations.iter().zip(found) {
            let place = Place {
                revision,
                position: changes.len() as u32,
            };
            changes.extend(self.write(operation, found, place));
        }
        Ok((!changes.is_empty()).then(|| ChangeSet {
            revision: Revision::new(revision),
            changes: changes.into(),
        }))
    }

    fn latest(&self, key: &str) -> Option<Version> {
        match self.touched.get(key) {
            Some((version, _)) => Some(*version).filter(Version::is_live),
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
        let entry = found.map(|version| self.entry(key, version));
        Err(Error::conflict(key.clone(), entry.transpose()?))
    }

    fn entry(&self, key: &Key, version: Version) -> Result<Entry> {
        match self.touched.get(key) {
            Some((_, value)) => Ok(Entry {
                key: key.clone(),
                value: value.clone(),
                created: Revision::new(version.created),
                modified: Revision::new(version.place.revision),
            }),
            None => entry_at(self.segments, key, version.place),
        }
    }

    fn write(
        &mut self,
        operation: &Operation,
        found: Option<Version>,
        place: Place,
    ) -> Option<Change> {
        let (key, value, created, body, change) = match operation {
            Operation::Put { key, value, .. } => {
                let created = found.map_or(place.revision, |version| version.created);
                let change = Change::Put {
                    key: key.clone(),
                    value: value.clone(),
                    created: Revision::new(created),
                };
                (
                    key,
                    value.clone(),
                    created,
                    Body::Put { created, value },
                    change,
                )
            }
            Operation::Delete { key, .. } if found.is_some() => {
                let change = Change::Delete { key: key.clone() };
                (key, Bytes::new(), 0, Body::Delete, change)
            }
            Operation::Delete { .. } | Operation::Check { .. } => return None,
        };
        self.frame.add(place, &Record { key, body });
        let version = Version { place, created };
        self.touched.insert(key.clone(), (version, value));
        self.added.push((key.clone(), version));
        Some(change)
    }
}
