//! What to change, and what must hold for it.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use rhumb_meta::Revision;

use crate::types::{Hidden, check_key};
use crate::{Error, Key, OPERATIONS_MAX, Result, VALUE_BYTES_MAX};

/// What must be at a key for the transaction to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Anything, or nothing.
    Any,
    /// No entry.
    Absent,
    /// An entry last written at this revision.
    At(Revision),
}

impl Expect {
    /// Whether it holds where an entry was last written at `modified`, or where there is none.
    pub(crate) fn holds(self, modified: Option<Revision>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => modified.is_none(),
            Expect::At(revision) => modified == Some(revision),
        }
    }
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Eq)]
pub enum Operation {
    Put {
        key: Key,
        value: Bytes,
        expect: Expect,
    },
    /// Deleting what is not there changes nothing, and is no change.
    Delete { key: Key, expect: Expect },
    /// Changes nothing: the others depend on it.
    Check { key: Key, expect: Expect },
}

impl Operation {
    pub fn key(&self) -> &Key {
        match self {
            Operation::Put { key, .. }
            | Operation::Delete { key, .. }
            | Operation::Check { key, .. } => key,
        }
    }

    pub fn expect(&self) -> Expect {
        match self {
            Operation::Put { expect, .. }
            | Operation::Delete { expect, .. }
            | Operation::Check { expect, .. } => *expect,
        }
    }

    fn size(&self) -> usize {
        let value = match self {
            Operation::Put { value, .. } => value.len(),
            _ => 0,
        };
        self.key().len() + value
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = match self {
            Operation::Put { value, .. } => ("Put", Some(Hidden(value))),
            Operation::Delete { .. } => ("Delete", None),
            Operation::Check { .. } => ("Check", None),
        };
        let mut shown = f.debug_struct(name);
        shown.field("key", self.key());
        if let Some(value) = value {
            shown.field("value", &value);
        }
        shown.field("expect", &self.expect()).finish()
    }
}

/// Operations that happen together or not at all. Each key may be named once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    operations: Vec<Operation>,
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
        expect: Expect,
    ) -> Transaction {
        self.operations.push(Operation::Put {
            key: key.into(),
            value: value.into(),
            expect,
        });
        self
    }

    #[must_use]
    pub fn delete(mut self, key: impl Into<Key>, expect: Expect) -> Transaction {
        self.operations.push(Operation::Delete {
            key: key.into(),
            expect,
        });
        self
    }

    #[must_use]
    pub fn check(mut self, key: impl Into<Key>, expect: Expect) -> Transaction {
        self.operations.push(Operation::Check {
            key: key.into(),
            expect,
        });
        self
    }

    /// Makes it depend on what is at a key, whether or not it writes there.
    #[must_use]
    pub fn require(mut self, wanted: impl Into<Key>, must: Expect) -> Transaction {
        let wanted = wanted.into();
        let named = self
            .operations
            .iter_mut()
            .find(|operation| *operation.key() == wanted);
        let Some(
            Operation::Put { expect, .. }
            | Operation::Delete { expect, .. }
            | Operation::Check { expect, .. },
        ) = named
        else {
            return self.check(wanted, must);
        };
        *expect = must;
        self
    }

    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    pub(crate) fn size(&self) -> usize {
        self.operations.iter().map(Operation::size).sum()
    }

    /// Refuses what no backend can carry out.
    pub(crate) fn check_form(&self) -> Result<()> {
        let count = self.operations.len();
        if count == 0 || count > OPERATIONS_MAX {
            return Err(Error::InvalidTransaction {
                reason: format!("it has {count} operations; 1 to {OPERATIONS_MAX} are possible"),
            });
        }
        let mut keys = HashSet::with_capacity(count);
        for operation in &self.operations {
            let key = operation.key();
            check_key(key)?;
            if !keys.insert(key) {
                return Err(Error::InvalidTransaction {
                    reason: format!("it names the key {key} twice"),
                });
            }
            if let Operation::Put { value, .. } = operation
                && value.len() > VALUE_BYTES_MAX
            {
                return Err(Error::TooLarge {
                    reason: format!(
                        "the value for {key} has {} bytes; at most {VALUE_BYTES_MAX} are possible",
                        value.len()
                    ),
                });
            }
        }
        Ok(())
    }
}
