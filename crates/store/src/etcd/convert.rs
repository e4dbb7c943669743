//! Conversion between etcd and store types, and classification of failed etcd calls.

use std::error::Error as _;

use bytes::Bytes;
use etcd_client::{Event, EventType, KeyValue, ResponseHeader};
use tonic::{Code, ConnectError};

use super::OUTCOMES_PREFIX;
use crate::{Error, Key, KeyChange, Result, Revision, StoreEntry};

pub(super) fn to_etcd(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

pub(super) fn from_etcd(revision: i64) -> Revision {
    Revision::new(u64::try_from(revision).unwrap_or(0))
}

pub(super) fn header_revision(header: Option<&ResponseHeader>) -> Result<Revision, EtcdFailure> {
    header
        .map(|header| from_etcd(header.revision()))
        .ok_or_else(|| EtcdFailure::ambiguous("the response from etcd has no header"))
}

pub(super) fn entry(found: KeyValue) -> Result<StoreEntry> {
    let created = from_etcd(found.create_revision());
    let modified = from_etcd(found.mod_revision());
    let (key, value) = found.into_key_value();
    Ok(StoreEntry {
        key: self::key(&key)?,
        value: Bytes::from(value),
        created,
        modified,
    })
}

/// Decodes a key. Keys written by rhumb are UTF-8; keys written by others below the same prefix may not be.
pub(super) fn key(bytes: &[u8]) -> Result<Key> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) => Err(Error::Damaged {
            key: String::from_utf8_lossy(bytes).into_owned(),
            reason: "the key is not valid UTF-8".to_owned(),
        }),
    }
}

/// Whether a key belongs to the outcome slots, which ranges and change streams hide.
pub(super) fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(OUTCOMES_PREFIX.as_bytes())
}

/// Rejects keys that are reserved for outcome slots.
pub(super) fn reject_reserved_key(key: &str) -> Result<()> {
    if !is_reserved(key.as_bytes()) {
        return Ok(());
    }
    Err(Error::InvalidKey {
        key: key.chars().take(80).collect(),
        reason: "the prefix is reserved for transaction outcomes",
    })
}

/// Converts a watch event to a change and its revision; `None` for reserved keys.
pub(super) fn change(event: &Event) -> Option<Result<(Revision, KeyChange)>> {
    let kv = event.kv()?;
    if is_reserved(kv.key()) {
        return None;
    }
    let change = key(kv.key()).map(|key| match event.event_type() {
        EventType::Put => KeyChange::Put {
            key,
            value: Bytes::copy_from_slice(kv.value()),
            created: from_etcd(kv.create_revision()),
        },
        EventType::Delete => KeyChange::Delete { key },
    });
    Some(change.map(|change| (from_etcd(kv.mod_revision()), change)))
}

/// What a failed call means for the request: whether it may have been applied, and whether a retry can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EtcdFailureKind {
    /// The request was never sent.
    NotSent,
    /// The request may have been applied, or may still be.
    Ambiguous,
    /// Not applied; can be retried.
    Busy,
    /// Not applied; can be retried with a new token.
    StaleToken,
    Compacted,
    FutureRevision,
    TooLarge,
    /// The server is out of space. It also reports this for the very transaction that exceeded the quota, so this does
    /// not mean that nothing was changed.
    NoSpace,
    Denied,
    /// Rejected for any other reason.
    Refused,
}

/// A failed call to etcd.
#[derive(Debug, Clone)]
pub(super) struct EtcdFailure {
    pub(super) kind: EtcdFailureKind,
    pub(super) reason: String,
}

impl EtcdFailure {
    pub(super) fn ambiguous(reason: impl Into<String>) -> Self {
        EtcdFailure {
            kind: EtcdFailureKind::Ambiguous,
            reason: reason.into(),
        }
    }

    /// For a denial that is only known by its text, as in a cancelled watch.
    pub(super) fn denied(reason: impl Into<String>) -> Self {
        EtcdFailure {
            kind: EtcdFailureKind::Denied,
            reason: reason.into(),
        }
    }

    /// Whether a retry of a read may succeed.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            EtcdFailureKind::NotSent
                | EtcdFailureKind::Ambiguous
                | EtcdFailureKind::Busy
                | EtcdFailureKind::StaleToken
        )
    }

    /// Converts the failure of a call that changed nothing. Kinds that depend on the request, such as a compacted
    /// revision, are handled by the caller.
    pub(super) fn into_error(self) -> Error {
        let reason = self.reason;
        match self.kind {
            EtcdFailureKind::TooLarge => Error::TooLarge {
                reason: format!("{reason}; the limit is etcd's option --max-request-bytes"),
            },
            EtcdFailureKind::NoSpace => Error::StorageFull {
                reason: format!(
                    "etcd has exceeded its space quota ({reason}): compact and defragment it, then \
                     disarm its alarm"
                ),
            },
            EtcdFailureKind::Denied => Error::Refused {
                reason: format!(
                    "{reason}; check the user, its password, and that its role can \
                     read and write the whole store and {OUTCOMES_PREFIX}"
                ),
            },
            EtcdFailureKind::Refused => Error::Refused { reason },
            _ => Error::Unavailable { reason },
        }
    }
}

impl From<etcd_client::Error> for EtcdFailure {
    fn from(error: etcd_client::Error) -> Self {
        let reason = describe(&error);
        let kind = match &error {
            // The request was still waiting for a connection.
            _ if never_connected(&error) => EtcdFailureKind::NotSent,
            etcd_client::Error::GRpcStatus(status) => classify(status.code(), status.message()),
            _ => EtcdFailureKind::Ambiguous,
        };
        EtcdFailure { kind, reason }
    }
}

/// Classifies a gRPC status. Only rejections that etcd sends before it changes anything are distinguished; everything
/// else is ambiguous, because a status code alone may also come from a proxy.
fn classify(code: Code, message: &str) -> EtcdFailureKind {
    if code == Code::ResourceExhausted && message.contains("larger than max") {
        return EtcdFailureKind::TooLarge;
    }
    let Some(text) = message.strip_prefix("etcdserver: ") else {
        return EtcdFailureKind::Ambiguous;
    };
    match code {
        Code::OutOfRange if text.contains("compacted") => EtcdFailureKind::Compacted,
        Code::OutOfRange if text.contains("future revision") => EtcdFailureKind::FutureRevision,
        Code::ResourceExhausted if text.contains("space exceeded") => EtcdFailureKind::NoSpace,
        Code::ResourceExhausted if text.contains("too many requests") => EtcdFailureKind::Busy,
        Code::InvalidArgument if text.contains("too large") => EtcdFailureKind::TooLarge,
        Code::InvalidArgument if text.contains("auth store is old") => EtcdFailureKind::StaleToken,
        Code::InvalidArgument if text.contains("user name is empty") => EtcdFailureKind::Denied,
        Code::InvalidArgument if text.contains("authentication failed") => EtcdFailureKind::Denied,
        Code::FailedPrecondition if text.contains("authentication is not enabled") => {
            EtcdFailureKind::Denied
        }
        Code::PermissionDenied | Code::Unauthenticated => EtcdFailureKind::Denied,
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Unimplemented => {
            EtcdFailureKind::Refused
        }
        _ => EtcdFailureKind::Ambiguous,
    }
}

/// The error message with its causes, without repetition.
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

/// Whether the call failed because no connection could be established.
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
    fn failures_are_classified_by_code_and_message() {
        for (code, message, expected) in [
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                EtcdFailureKind::Compacted,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision is a future revision",
                EtcdFailureKind::FutureRevision,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: request is too large",
                EtcdFailureKind::TooLarge,
            ),
            (
                Code::ResourceExhausted,
                "grpc: received message larger than max (3000000 vs. 2097152)",
                EtcdFailureKind::TooLarge,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                EtcdFailureKind::NoSpace,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: too many requests",
                EtcdFailureKind::Busy,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: revision of auth store is old",
                EtcdFailureKind::StaleToken,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                EtcdFailureKind::Refused,
            ),
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                EtcdFailureKind::Denied,
            ),
            (
                Code::Unauthenticated,
                "etcdserver: invalid auth token",
                EtcdFailureKind::Denied,
            ),
            (
                Code::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                EtcdFailureKind::Refused,
            ),
        ] {
            assert_eq!(classify(code, message), expected, "{code:?} {message}");
        }
    }

    #[test]
    fn failures_of_possibly_applied_requests_are_ambiguous() {
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
            assert_eq!(
                classify(code, message),
                EtcdFailureKind::Ambiguous,
                "{code:?} {message}"
            );
        }
    }

    #[test]
    fn revisions_are_clamped_to_the_range_of_the_other_type() {
        assert_eq!(to_etcd(Revision::new(u64::MAX)), i64::MAX);
        assert_eq!(from_etcd(-1), Revision::ZERO);
        assert_eq!(from_etcd(to_etcd(Revision::new(7))), Revision::new(7));
    }
}
