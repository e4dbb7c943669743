//! Audit IDs, which connect a response (header `Audit-Id`) with its events in the audit log.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Longer IDs sent by clients are replaced.
const BYTES_MAX: usize = 64;

/// Generates IDs. They must be unique, not secret: hashing a counter with two keys needs no system call.
#[derive(Debug, Default)]
pub struct AuditIdGenerator {
    count: AtomicU64,
    high: RandomState,
    low: RandomState,
}

impl AuditIdGenerator {
    /// The ID that the client sent, or a new one.
    pub fn id_for(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(AUDIT_ID) {
            Some(client_id)
                if (1..=BYTES_MAX).contains(&client_id.len()) && client_id.to_str().is_ok() =>
            {
                client_id.clone()
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
    fn generated_ids_are_unique_and_short_client_ids_are_kept() {
        let ids = AuditIdGenerator::default();
        let generated: HashSet<HeaderValue> =
            (0..1000).map(|_| ids.id_for(&HeaderMap::new())).collect();
        assert_eq!(generated.len(), 1000);
        assert!(generated.iter().all(|id| id.len() == 36));
        let long = "x".repeat(BYTES_MAX + 1);
        for (client_id, is_kept) in [("mine", true), ("", false), (long.as_str(), false)] {
            let headers =
                HeaderMap::from_iter([(AUDIT_ID, HeaderValue::from_str(client_id).unwrap())]);
            assert_eq!(ids.id_for(&headers) == client_id, is_kept, "{client_id:?}");
        }
    }
}
