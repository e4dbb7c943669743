//! Entries that are no objects of the API: the server keeps notes of its own beside them.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_cache::{Entry, Projection, ProjectionError, Projector, Texts};
use rhumb_meta::{ObjectKey, Revision};

/// Keeps what is stored as it is.
#[derive(Debug)]
pub struct AsStored;

impl Projector for AsStored {
    fn fields(&self) -> &[Arc<str>] {
        &[]
    }

    fn project(
        &self,
        _key: &ObjectKey,
        stored: &Bytes,
        _revision: Revision,
        _texts: &mut Texts,
    ) -> Result<Projection, ProjectionError> {
        Ok(Projection {
            json: stored.clone(),
            ..Projection::default()
        })
    }

    fn with_revision(&self, entry: &Entry, _revision: Revision) -> Bytes {
        entry.json()
    }
}
