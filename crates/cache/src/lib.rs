//! The watch cache: snapshots, change history and watches, served from memory. It corresponds to kube-apiserver's
//! `storage/cacher`.
//!
//! The entry point is [`CacheManager`]. It loads the store once and then reads one change stream for all resources, so
//! that a single applied revision holds for every cache. Each resource has a [`ResourceCache`]:
//! - [`ResourceCache::snapshot`] and [`ResourceCache::snapshot_at`] return all objects as of one revision; snapshots
//!   are immutable and cheap to take.
//! - [`ResourceCache::watch`] returns a [`CacheWatcher`] that receives every change that matches its selectors;
//!   [`ResourceCache::watch_with_restarts`] one that starts over when it expires.
//!
//! The cache knows neither JSON nor kinds: an [`ObjectProjector`] converts stored bytes to served JSON, labels and
//! selectable fields.
//!
//! Guarantees (each has a test in `tests/guarantees`):
//! - Ordered, unique, reliable: a watcher receives every matching change exactly once, in revision order.
//! - Atomic: the changes of a transaction become visible together.
//! - Resumable: a watch from a revision continues without gap or repeat, or is rejected as expired.
//! - Bookmarkable: after [`CacheWatcher::progress`] returned a revision, no older event follows.
//! - A slow watcher does not delay other watchers, and its queue is bounded.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod applied_revision;
mod cache_entry;
mod compacted_revision;
mod error;
mod history;
mod index;
mod manager;
mod object_change;
mod options;
mod projector;
mod resource_cache;
mod restarting_watcher;
mod revision_query;
mod snapshot;
mod stats;
mod store_reflector;
mod string_interner;
mod watch;
mod watch_state;

pub use cache_entry::CacheEntry;
pub use error::{CorruptObject, Error, HistoryError};
pub use index::{
    IndexMeasurement, IndexOrigin, IndexStats, IndexedAttribute, ListQuery, MatchingEntries,
};
pub use manager::{CacheHealth, CacheManager, ResourceCacheConfig};
pub use object_change::EventKind;
pub use options::{COMPACTION_INTERVAL, CacheOptions, IndexOptions};
pub use projector::{ObjectProjection, ObjectProjector, ProjectionError};
pub use resource_cache::{CacheContentsTag, ResourceCache};
pub use restarting_watcher::{RestartingWatchMessage, RestartingWatcher};
pub use snapshot::CacheSnapshot;
pub use stats::{CacheStats, HistogramSnapshot, IndexUsage};
pub use string_interner::StringInterner;
pub use watch::{
    CacheWatcher, WatchEnd, WatchEvent, WatchMessage, WatchNotifier, WatchRequest, WatchScope,
    WatchStart,
};
