//! Objects in memory: snapshots, history, and who is told of a change.
//!
//! A [`Hub`] reads the store once and then follows one stream of changes for all resources, so that one number,
//! the applied revision, says how far every cache is. Each resource has a [`Cache`]:
//! - [`Cache::snapshot`] and [`Cache::snapshot_at`] give all objects as of one revision, immutable and cheap.
//! - [`Cache::watch`] tells a [`Watcher`] of every change that concerns its selector.
//!
//! The cache knows neither JSON nor kinds: a [`Projector`] makes of what is stored what is served.
//!
//! The promises, each a named test:
//! - Ordered, unique, reliable: a watcher is told every change that concerns it once, in the order of revisions.
//! - Atomic: the changes of a transaction become visible together.
//! - Resumable: a watch from a revision on continues exactly, or is refused as expired.
//! - Bookmarkable: nothing older comes after what [`Watcher::progress`] said.
//! - A slow watcher holds nobody, and costs a bounded queue.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod cache;
mod change;
mod entry;
mod error;
mod history;
mod hub;
mod index;
mod inquiry;
mod intern;
mod options;
mod progress;
mod projector;
mod reader;
mod snapshot;
mod stats;
mod watch;

pub use cache::{Cache, CacheVersion};
pub use change::EventKind;
pub use entry::Entry;
pub use error::{Error, HistoryError, Unreadable};
pub use hub::{Health, Hub, Resource};
pub use index::{Asked, Attribute, IndexStats, Origin, Selection};
pub use intern::Texts;
pub use options::{IndexOptions, Options};
pub use projector::{Projection, ProjectionError, Projector};
pub use snapshot::Snapshot;
pub use stats::{Distribution, ListCount, Stats};
pub use watch::{Bell, Event, Message, Scope, Start, WatchEnd, WatchRequest, Watcher};
