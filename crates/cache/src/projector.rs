//! What makes of a stored object what is served. Given by the API server, one per resource.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision};

use crate::{Entry, Texts};

/// Knows the form in which the objects of one resource are stored and served.
///
/// Called by one task for all resources, once for each change: it should be quick and must not block.
pub trait Projector: Debug + Send + Sync + 'static {
    /// The names of the fields that [`Projection::fields`] holds, in the same order: those that field selectors
    /// may ask for beside `metadata.name` and `metadata.namespace`, which the cache knows by itself.
    fn fields(&self) -> &[Arc<str>];

    /// What is served of an object, its labels and fields by way of `texts`. `revision` is that of its last change, to be
    /// shown as its resourceVersion.
    fn project(
        &self,
        key: &ObjectKey,
        stored: &Bytes,
        revision: Revision,
        texts: &mut Texts,
    ) -> Result<Projection, ProjectionError>;

    /// The JSON of an entry with another resourceVersion: the last state of an object that is gone is shown
    /// with the revision at which it went. Called at most once for each change, and only if somebody asks.
    fn with_revision(&self, entry: &Entry, revision: Revision) -> Bytes;
}

/// What is served of an object, and what selectors can ask of it.
#[derive(Debug, Clone, Default)]
pub struct Projection {
    /// The whole object as it is sent to clients, its resourceVersion included.
    pub json: Bytes,
    /// In any order, each key once; the cache sorts them.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// One value for each of [`Projector::fields`]. What is missing at the end counts as empty.
    pub fields: Vec<Arc<str>>,
}

/// Why a stored object cannot be served. Shown to whoever asks for that object, so it must not tell contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProjectionError(pub String);
