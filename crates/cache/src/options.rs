//! Options and limits of the caches.

use std::sync::Arc;
use std::time::Duration;

use rhumb_meta::{Clock, SystemClock};

/// The interval at which upstream compacts its store (`--etcd-compaction-interval`).
pub const COMPACTION_INTERVAL: Duration = Duration::from_secs(300);

/// Limits that apply to each cache, and the clock.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Changes younger than this are kept, subject to the limits below.
    pub history_age: Duration,
    /// Approximate bytes that the history of one resource may take.
    pub history_bytes_max: usize,
    /// Maximum number of changes in the history of one resource.
    pub history_changes_max: usize,
    /// Past contents are served for at least this long, and for at most twice as long, also those of a resource without
    /// changes; if the history has them.
    pub compaction_interval: Duration,
    /// How many past revisions are loaded into the history at startup, as far as the store still has them, so that
    /// watches interrupted by a restart can resume.
    pub startup_history_revisions: u64,
    /// Capacity of a watcher's queue. When it is full, the watcher catches up from the history.
    pub watcher_queue_max: usize,
    /// Objects per page when the store is listed.
    pub page_objects: usize,
    pub index: IndexOptions,
    /// Maximum backoff between attempts to reconnect to the store.
    pub backoff_max: Duration,
    /// Measures the age of changes and the idle time of indexes.
    pub clock: Arc<dyn Clock>,
}

/// Indexes of objects and watchers by labels and fields.
#[derive(Debug, Clone, Copy)]
pub struct IndexOptions {
    /// If false, only the fields that the kind declares are indexed, for lists and for watchers.
    pub by_label: bool,
    /// Whether indexes are built automatically for frequent selective lists.
    pub adaptive: bool,
    /// Approximate memory limit of all adaptive indexes together.
    pub adaptive_bytes_max: usize,
    /// An adaptive index that no list has used for this long is dropped.
    pub adaptive_idle: Duration,
}

impl Default for IndexOptions {
    fn default() -> Self {
        IndexOptions {
            by_label: true,
            adaptive: true,
            adaptive_bytes_max: 64 * 1024 * 1024,
            adaptive_idle: Duration::from_secs(600),
        }
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            history_age: Duration::from_secs(75),
            history_bytes_max: 64 * 1024 * 1024,
            history_changes_max: 200_000,
            compaction_interval: COMPACTION_INTERVAL,
            startup_history_revisions: 10_000,
            watcher_queue_max: 256,
            page_objects: 500,
            index: IndexOptions::default(),
            backoff_max: Duration::from_secs(5),
            clock: Arc::new(SystemClock::new()),
        }
    }
}
