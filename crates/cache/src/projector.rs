//! The interface between the cache and the encoding of objects. The API server implements [`ObjectProjector`] for each
//! resource. Corresponds to upstream's storage codec together with `GetAttrs`.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision};

use crate::{CacheEntry, StringInterner};

/// Converts the objects of one resource from their stored to their served encoding.
///
/// Called by a single task for all resources, once per change: it should be fast and must not block.
pub trait ObjectProjector: Debug + Send + Sync + 'static {
    /// The names of the values in [`ObjectProjection::fields`], in the same order: the fields that field selectors
    /// support besides `metadata.name` and `metadata.namespace`, which the cache handles itself.
    fn field_names(&self) -> &[Arc<str>];

    /// Decodes a stored object. Labels and field values are interned with `interner`. `revision` is that of the
    /// object's last change and becomes its resourceVersion.
    fn project(
        &self,
        key: &ObjectKey,
        stored: &Bytes,
        revision: Revision,
        interner: &mut StringInterner,
    ) -> Result<ObjectProjection, ProjectionError>;

    /// The JSON of an entry with another resourceVersion: a DELETED event carries the last state of the object with
    /// the revision of the deletion. Called lazily, at most once per change.
    fn with_revision(&self, entry: &CacheEntry, revision: Revision) -> Bytes;
}

/// The served JSON of an object, and the labels and fields that selectors match.
#[derive(Debug, Clone, Default)]
pub struct ObjectProjection {
    /// The complete object as sent to clients, including its resourceVersion.
    pub json: Bytes,
    /// In any order, keys unique; the cache sorts them.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// One value for each of [`ObjectProjector::field_names`]. Missing trailing values count as empty.
    pub fields: Vec<Arc<str>>,
}

/// Why a stored object failed to decode. Shown to clients that request the object: it must not contain object data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProjectionError(pub String);
