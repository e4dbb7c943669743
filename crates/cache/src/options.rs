//! Limits of the caches.

use std::sync::Arc;
use std::time::Duration;

use rhumb_meta::{Clock, SystemClock};

/// How much of everything the caches may use.
#[derive(Debug, Clone)]
pub struct Options {
    /// Changes younger than this are kept, unless that takes more than the limits below.
    pub history_age: Duration,
    /// About how many bytes the history of one resource may take.
    pub history_bytes_max: usize,
    /// How many changes the history of one resource may have.
    pub history_changes_max: usize,
    /// How many revisions of the past are read at the start, as far as the store still has them, so that
    /// watches which a restart interrupted go on.
    pub warm_revisions: u64,
    /// How many events wait for one watcher before it has to catch up from the history.
    pub watcher_queue_max: usize,
    /// How many objects are read at a time.
    pub page_objects: usize,
    pub index: IndexOptions,
    /// The longest pause before the store is tried again.
    pub backoff_max: Duration,
    /// Measures the age of changes.
    pub clock: Arc<dyn Clock>,
}

/// What is kept to find objects and watchers by their labels and fields.
#[derive(Debug, Clone, Copy)]
pub struct IndexOptions {
    /// Without it lists look at every object of their namespace, and changes at every watcher of it.
    pub enabled: bool,
    /// Whether lists get indexes that nobody asked for, as soon as those would pay.
    pub adaptive: bool,
    /// About what all such indexes may take together.
    pub adaptive_bytes_max: usize,
    /// One that no list used for so long is dropped.
    pub adaptive_idle: Duration,
}

impl Default for IndexOptions {
    fn default() -> Self {
        IndexOptions {
            enabled: true,
            adaptive: true,
            adaptive_bytes_max: 64 * 1024 * 1024,
            adaptive_idle: Duration::from_secs(600),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            history_age: Duration::from_secs(75),
            history_bytes_max: 64 * 1024 * 1024,
            history_changes_max: 200_000,
            warm_revisions: 10_000,
            watcher_queue_max: 256,
            page_objects: 500,
            index: IndexOptions::default(),
            backoff_max: Duration::from_secs(5),
            clock: Arc::new(SystemClock::new()),
        }
    }
}
