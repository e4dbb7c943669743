//! Projects internal records, which are not API objects (such as node port records), into the cache unchanged.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_cache::{CacheEntry, ObjectProjection, ObjectProjector, ProjectionError, StringInterner};
use rhumb_meta::{ObjectKey, Revision};

/// A projector that caches the stored bytes as they are.
#[derive(Debug)]
pub struct RawProjector;

impl ObjectProjector for RawProjector {
    fn field_names(&self) -> &[Arc<str>] {
        &[]
    }

    fn project(
        &self,
        _key: &ObjectKey,
        stored: &Bytes,
        _revision: Revision,
        _interner: &mut StringInterner,
    ) -> Result<ObjectProjection, ProjectionError> {
        Ok(ObjectProjection {
            json: stored.clone(),
            ..ObjectProjection::default()
        })
    }

    fn with_revision(&self, entry: &CacheEntry, _revision: Revision) -> Bytes {
        entry.json()
    }
}
