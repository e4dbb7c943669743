//! Transactions: operations that apply atomically if the keys are at their expected revisions (etcd: `Txn`).

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use rhumb_meta::Revision;

use crate::entries::{RedactedValue, check_key};
use crate::{Error, Key, OPERATIONS_MAX, Result, VALUE_BYTES_MAX};

/// The state of a key that a transaction requires; otherwise the commit fails with [`Error::Conflict`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedRevision {
    /// No requirement.
    Any,
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    At(Revision),
}

impl ExpectedRevision {
    /// Whether a key last written at `modified` (`None` if it does not exist) satisfies the requirement.
    pub(crate) fn holds(self, modified: Option<Revision>) -> bool {
        match self {
            ExpectedRevision::Any => true,
            ExpectedRevision::Absent => modified.is_none(),
            ExpectedRevision::At(revision) => modified == Some(revision),
        }
    }
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq)]
pub enum TransactionOp {
    Put {
        key: Key,
        value: Bytes,
        expect: ExpectedRevision,
    },
    /// Deleting a key that does not exist has no effect and produces no change.
    Delete { key: Key, expect: ExpectedRevision },
    /// Only a precondition; writes nothing.
    Check { key: Key, expect: ExpectedRevision },
}

impl TransactionOp {
    pub fn key(&self) -> &Key {
        match self {
            TransactionOp::Put { key, .. }
            | TransactionOp::Delete { key, .. }
            | TransactionOp::Check { key, .. } => key,
        }
    }

    pub fn expect(&self) -> ExpectedRevision {
        match self {
            TransactionOp::Put { expect, .. }
            | TransactionOp::Delete { expect, .. }
            | TransactionOp::Check { expect, .. } => *expect,
        }
    }

    fn size(&self) -> usize {
        let value = match self {
            TransactionOp::Put { value, .. } => value.len(),
            _ => 0,
        };
        self.key().len() + value
    }
}

impl fmt::Debug for TransactionOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = match self {
            TransactionOp::Put { value, .. } => ("Put", Some(RedactedValue(value))),
            TransactionOp::Delete { .. } => ("Delete", None),
            TransactionOp::Check { .. } => ("Check", None),
        };
        let mut shown = f.debug_struct(name);
        shown.field("key", self.key());
        if let Some(value) = value {
            shown.field("value", &value);
        }
        shown.field("expect", &self.expect()).finish()
    }
}

/// Operations that apply atomically. Each key may occur once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    operations: Vec<TransactionOp>,
}

impl Transaction {
    pub fn new() -> Self {
        Transaction::default()
    }

    #[must_use]
    pub fn put(
        mut self,
        key: impl Into<Key>,
        value: impl Into<Bytes>,
        expect: ExpectedRevision,
    ) -> Transaction {
        self.operations.push(TransactionOp::Put {
            key: key.into(),
            value: value.into(),
            expect,
        });
        self
    }

    #[must_use]
    pub fn delete(mut self, key: impl Into<Key>, expect: ExpectedRevision) -> Transaction {
        self.operations.push(TransactionOp::Delete {
            key: key.into(),
            expect,
        });
        self
    }

    #[must_use]
    pub fn check(mut self, key: impl Into<Key>, expect: ExpectedRevision) -> Transaction {
        self.operations.push(TransactionOp::Check {
            key: key.into(),
            expect,
        });
        self
    }

    /// Requires a state of `key`: sets it on the operation for that key, or adds a check if there is none.
    #[must_use]
    pub fn require(mut self, key: impl Into<Key>, required: ExpectedRevision) -> Transaction {
        let key = key.into();
        let existing = self
            .operations
            .iter_mut()
            .find(|operation| *operation.key() == key);
        let Some(
            TransactionOp::Put { expect, .. }
            | TransactionOp::Delete { expect, .. }
            | TransactionOp::Check { expect, .. },
        ) = existing
        else {
            return self.check(key, required);
        };
        *expect = required;
        self
    }

    pub fn operations(&self) -> &[TransactionOp] {
        &self.operations
    }

    pub(crate) fn size(&self) -> usize {
        self.operations.iter().map(TransactionOp::size).sum()
    }

    /// Rejects transactions that no backend supports.
    pub(crate) fn validate(&self) -> Result<()> {
        let count = self.operations.len();
        if count == 0 || count > OPERATIONS_MAX {
            return Err(Error::InvalidTransaction {
                reason: format!("{count} operations; 1 to {OPERATIONS_MAX} are allowed"),
            });
        }
        let mut keys = HashSet::with_capacity(count);
        for operation in &self.operations {
            let key = operation.key();
            check_key(key)?;
            if !keys.insert(key) {
                return Err(Error::InvalidTransaction {
                    reason: format!("key {key} occurs twice"),
                });
            }
            if let TransactionOp::Put { value, .. } = operation
                && value.len() > VALUE_BYTES_MAX
            {
                return Err(Error::TooLarge {
                    reason: format!(
                        "the value of {key} has {} bytes; at most {VALUE_BYTES_MAX} are allowed",
                        value.len()
                    ),
                });
            }
        }
        Ok(())
    }
}
