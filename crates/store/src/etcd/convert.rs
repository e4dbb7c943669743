//! Between etcd's terms and ours: revisions, entries, and what a failed call means.

use std::error::Error as _;

use bytes::Bytes;
use etcd_client::{Event, EventType, KeyValue, ResponseHeader};
use tonic::{Code, ConnectError};

use super::OUTCOMES_PREFIX;
use crate::{Change, Entry, Error, Key, Result, Revision};

pub(super) fn to_etcd(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

pub(super) fn from_etcd(revision: i64) -> Revision {
    Revision::new(u64::try_from(revision).unwrap_or(0))
}

pub(super) fn header_revision(header: Option<&ResponseHeader>) -> Result<Revision, Failure> {
    header
        .map(|header| from_etcd(header.revision()))
        .ok_or_else(|| Failure::lost("etcd answered without a header"))
}

pub(super) fn entry(found: KeyValue) -> Result<Entry> {
    let created = from_etcd(found.create_revision());
    let modified = from_etcd(found.mod_revision());
    let (key, value) = found.into_key_value();
    Ok(Entry {
        key: self::key(&key)?,
        value: Bytes::from(value),
        created,
        modified,
    })
}

/// Keys of ours are text; somebody else's below the same prefix may be anything.
pub(super) fn key(bytes: &[u8]) -> Result<Key> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Error::Damaged {
            key: String::from_utf8_lossy(bytes).into_owned(),
            reason: "the key is not text".to_owned(),
        }),
    }
}

/// The bookkeeping of transactions is nobody's data: ranges and streams leave it out.
pub(super) fn is_hidden(key: &[u8]) -> bool {
    key.starts_with(OUTCOMES_PREFIX.as_bytes())
}

/// Refuses keys that would be hidden.
pub(super) fn check_visible(key: &str) -> Result<()> {
    if !is_hidden(key.as_bytes()) {
        return Ok(());
    }
    Err(Error::InvalidKey {
        key: key.chars().take(80).collect(),
        reason: "what begins so is kept for the notes on transactions",
    })
}

/// A change and its revision, unless it is of what is hidden.
pub(super) fn change(event: &Event) -> Option<Result<(Revision, Change)>> {
    let kv = event.kv()?;
    if is_hidden(kv.key()) {
        return None;
    }
    let change = key(kv.key()).map(|key| match event.event_type() {
        EventType::Put => Change::Put {
            key,
            value: Bytes::copy_from_slice(kv.value()),
            created: from_etcd(kv.create_revision()),
        },
        EventType::Delete => Change::Delete { key },
    });
    Some(change.map(|change| (from_etcd(kv.mod_revision()), change)))
}

/// What a failed call means for what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It never left this machine.
    NotSent,
    /// It may have been carried out, or may still be.
    Lost,
    /// It was not carried out, and may be asked again.
    Busy,
    /// It was not carried out, and may be asked again with a new token.
    StaleToken,
    Compacted,
    FutureRevision,
    TooLarge,
    /// The server is out of space. It says so also of the very transaction that filled it up, so this
    /// does not mean that nothing was changed.
    NoSpace,
    Denied,
    /// Any other refusal.
    Refused,
}

/// Why a call failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) reason: String,
}

impl Failure {
    pub(super) fn lost(reason: impl Into<String>) -> Self {
        Failure {
            kind: Kind::Lost,
            reason: reason.into(),
        }
    }

    /// For a refusal that came as text, as a cancelled watch does.
    pub(super) fn denied(reason: impl Into<String>) -> Self {
        Failure {
            kind: Kind::Denied,
            reason: reason.into(),
        }
    }

    /// Whether a read may go through when it is simply asked again.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            Kind::NotSent | Kind::Lost | Kind::Busy | Kind::StaleToken
        )
    }

    /// For a call that changed nothing. What depends on the call, such as a compacted revision, is the
    /// caller's to tell.
    pub(super) fn into_error(self) -> Error {
        let reason = self.reason;
        match self.kind {
            Kind::TooLarge => Error::TooLarge {
                reason: format!("{reason}; etcd's limit is its option --max-request-bytes"),
            },
            Kind::NoSpace => Error::StorageFull {
                reason: format!(
                    "etcd has used up its space quota ({reason}): compact and defragment it, then \
                     disarm its alarm"
                ),
            },
            Kind::Denied => Error::Refused {
                reason: format!(
                    "{reason}; check the user, its password, and that its role may \
                     read and write the whole store and {OUTCOMES_PREFIX}"
                ),
            },
            Kind::Refused => Error::Refused { reason },
            _ => Error::Unavailable { reason },
        }
    }
}

impl From<etcd_client::Error> for Failure {
    fn from(error: etcd_client::Error) -> Self {
        let reason = describe(&error);
        let kind = match &error {
            // The request was still waiting for its connection.
            _ if never_connected(&error) => Kind::NotSent,
            etcd_client::Error::GRpcStatus(status) => kind_of(status.code(), status.message()),
            _ => Kind::Lost,
        };
        Failure { kind, reason }
    }
}

/// Only refusals that are known to come before anything is changed are told apart; all else counts as lost,
/// because a code alone may as well come from a proxy in between.
fn kind_of(code: Code, message: &str) -> Kind {
    if code == Code::ResourceExhausted && message.contains("larger than max") {
        return Kind::TooLarge;
    }
    let Some(text) = message.strip_prefix("etcdserver: ") else {
        return Kind::Lost;
    };
    match code {
        Code::OutOfRange if text.contains("compacted") => Kind::Compacted,
        Code::OutOfRange if text.contains("future revision") => Kind::FutureRevision,
        Code::ResourceExhausted if text.contains("space exceeded") => Kind::NoSpace,
        Code::ResourceExhausted if text.contains("too many requests") => Kind::Busy,
        Code::InvalidArgument if text.contains("too large") => Kind::TooLarge,
        Code::InvalidArgument if text.contains("auth store is old") => Kind::StaleToken,
        Code::InvalidArgument if text.contains("user name is empty") => Kind::Denied,
        Code::InvalidArgument if text.contains("authentication failed") => Kind::Denied,
        Code::FailedPrecondition if text.contains("authentication is not enabled") => Kind::Denied,
        Code::PermissionDenied | Code::Unauthenticated => Kind::Denied,
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Unimplemented => {
            Kind::Refused
        }
        _ => Kind::Lost,
    }
}

/// The message and its causes, each said once.
pub(super) fn describe(error: &etcd_client::Error) -> String {
    let (mut text, mut cause) = match error {
        etcd_client::Error::GRpcStatus(status) => (status.message().to_owned(), status.source()),
        etcd_client::Error::TransportError(error) => (error.to_string(), error.source()),
        other => (other.to_string(), None),
    };
    while let Some(error) = cause {
        let next = error.to_string();
        if text.is_empty() {
            text = next;
        } else if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

/// Whether the call failed for want of a connection.
fn never_connected(error: &etcd_client::Error) -> bool {
    let mut cause = match error {
        etcd_client::Error::GRpcStatus(status) => status.source(),
        etcd_client::Error::TransportError(error) => error.source(),
        _ => None,
    };
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_code_and_text() {
        for (code, message, expected) in [
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Kind::Compacted,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                Kind::FutureRevision,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                Kind::TooLarge,
            ),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (3000000 vs. 2097152)",
                Kind::TooLarge,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                Kind::NoSpace,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                Kind::Busy,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
                Kind::StaleToken,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                Kind::Refused,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                Kind::Denied,
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                Kind::Denied,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                Kind::Refused,
            ),
        ] {
            assert_eq!(kind_of(code, message), expected, "{code:?} {message}");
        }
    }

    #[test]
    fn whatever_may_have_been_carried_out_counts_as_lost() {
        for (code, message) in [
            (Code::Cancelled, "etcdserver: request cancelled"),
            (Code::Unknown, "transport error"),
            (Code::DeadlineExceeded, "deadline exceeded"),
            (Code::OutOfRange, "decoded message length too large"),
            (Code::Internal, "internal error"),
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::PermissionDenied, "forbidden by some proxy"),
        ] {
            assert_eq!(kind_of(code, message), Kind::Lost, "{code:?} {message}");
        }
    }

    #[test]
    fn revisions_outside_of_the_others_range_end_at_its_bounds() {
        assert_eq!(to_etcd(Revision::new(u64::MAX)), i64::MAX);
        assert_eq!(from_etcd(-1), Revision::ZERO);
        assert_eq!(from_etcd(to_etcd(Revision::new(7))), Revision::new(7));
    }
}
