//! The id of a request, by which the answer that a client has and the line in the log find each other.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Longer ids of clients are replaced by ours.
const BYTES_MAX: usize = 64;

/// Makes ids. They need not be secret, only different: a counter behind two keyed hashes costs no system call.
#[derive(Debug, Default)]
pub struct AuditIds {
    count: AtomicU64,
    high: RandomState,
    low: RandomState,
}

impl AuditIds {
    /// The id that the client gave, or a new one.
    pub fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(AUDIT_ID) {
            Some(given) if (1..=BYTES_MAX).contains(&given.len()) && given.to_str().is_ok() => {
                given.clone()
            }
            _ => self.next(),
        }
    }

    fn next(&self) -> HeaderValue {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.high.hash_one(count).to_ne_bytes());
        bytes[8..].copy_from_slice(&self.low.hash_one(count).to_ne_bytes());
        let id = uuid::Builder::from_random_bytes(bytes).into_uuid();
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        HeaderValue::from_str(id.hyphenated().encode_lower(&mut text))
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_and_those_of_clients_are_kept_if_they_are_short() {
        let ids = AuditIds::default();
        let made: HashSet<HeaderValue> = (0..1000).map(|_| ids.of(&HeaderMap::new())).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|id| id.len() == 36));
        let long = "x".repeat(BYTES_MAX + 1);
        for (given, kept) in [("mine", true), ("", false), (long.as_str(), false)] {
            let headers = HeaderMap::from_iter([(AUDIT_ID, HeaderValue::from_str(given).unwrap())]);
            assert_eq!(ids.of(&headers) == given, kept, "{given:?}");
        }
    }
}
