//! Applies the transactions of a batch: checks expected revisions and encodes the records of one write.

use std::collections::HashMap;

use bytes::Bytes;
use rhumb_meta::Revision;

use super::index::{KeyIndex, KeyVersion};
use super::log::{FrameBuilder, LogRecord, LogRecordBody, RecordId, SegmentList};
use super::read::entry_at;
use crate::{ChangeSet, Error, Key, KeyChange, Result, StoreEntry, Transaction, TransactionOp};

/// Builds the write of a batch: reads from the index, overlaid with the changes of the batch so far.
pub(super) struct CommitBatchBuilder<'a> {
    index: &'a KeyIndex,
    segments: &'a SegmentList,
    frame: &'a mut FrameBuilder,
    /// The latest version of each key that the batch has changed, and its value (empty after a deletion).
    overlay: HashMap<Key, (KeyVersion, Bytes)>,
    pub(super) new_versions: Vec<(Key, KeyVersion)>,
}

impl<'a> CommitBatchBuilder<'a> {
    pub(super) fn new(
        index: &'a KeyIndex,
        segments: &'a SegmentList,
        frame: &'a mut FrameBuilder,
    ) -> Self {
        CommitBatchBuilder {
            index,
            segments,
            frame,
            overlay: HashMap::new(),
            new_versions: Vec::new(),
        }
    }

    /// Applies a transaction atomically as `revision`. Returns `None` if it changes nothing.
    pub(super) fn apply(
        &mut self,
        transaction: &Transaction,
        revision: u64,
    ) -> Result<Option<ChangeSet>> {
        let operations = transaction.operations();
        let mut found = Vec::with_capacity(operations.len());
        for operation in operations {
            found.push(self.check_expectation(operation)?);
        }
        let mut changes = Vec::with_capacity(operations.len());
        for (operation, found) in operations.iter().zip(found) {
            let record_id = RecordId {
                revision,
                position: changes.len() as u32,
            };
            changes.extend(self.stage_operation(operation, found, record_id));
        }
        Ok((!changes.is_empty()).then(|| ChangeSet {
            revision: Revision::new(revision),
            changes: changes.into(),
        }))
    }

    fn latest(&self, key: &str) -> Option<KeyVersion> {
        match self.overlay.get(key) {
            Some((version, _)) => Some(*version).filter(KeyVersion::is_live),
            None => self.index.latest(key),
        }
    }

    /// Checks the expected revision of an operation. Returns the current version of its key.
    fn check_expectation(&self, operation: &TransactionOp) -> Result<Option<KeyVersion>> {
        let key = operation.key();
        let found = self.latest(key);
        let modified = found.map(|version| Revision::new(version.record_id.revision));
        if operation.expect().holds(modified) {
            return Ok(found);
        }
        let entry = found.map(|version| self.entry(key, version));
        Err(Error::conflict(key.clone(), entry.transpose()?))
    }

    fn entry(&self, key: &Key, version: KeyVersion) -> Result<StoreEntry> {
        match self.overlay.get(key) {
            Some((_, value)) => Ok(StoreEntry {
                key: key.clone(),
                value: value.clone(),
                created: Revision::new(version.created),
                modified: Revision::new(version.record_id.revision),
            }),
            None => entry_at(self.segments, key, version.record_id),
        }
    }

    fn stage_operation(
        &mut self,
        operation: &TransactionOp,
        found: Option<KeyVersion>,
        record_id: RecordId,
    ) -> Option<KeyChange> {
        let (key, value, created, body, change) = match operation {
            TransactionOp::Put { key, value, .. } => {
                let created = found.map_or(record_id.revision, |version| version.created);
                let change = KeyChange::Put {
                    key: key.clone(),
                    value: value.clone(),
                    created: Revision::new(created),
                };
                (
                    key,
                    value.clone(),
                    created,
                    LogRecordBody::Put { created, value },
                    change,
                )
            }
            TransactionOp::Delete { key, .. } if found.is_some() => {
                let change = KeyChange::Delete { key: key.clone() };
                (key, Bytes::new(), 0, LogRecordBody::Delete, change)
            }
            TransactionOp::Delete { .. } | TransactionOp::Check { .. } => return None,
        };
        self.frame.add(record_id, &LogRecord { key, body });
        let version = KeyVersion { record_id, created };
        self.overlay.insert(key.clone(), (version, value));
        self.new_versions.push((key.clone(), version));
        Some(change)
    }
}
