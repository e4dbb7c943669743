//! Watches: requests, events, and the dispatch of changes to watchers. Corresponds to upstream's `cacheWatcher` and
//! `indexedWatchers`.
//!
//! `watcher_index` finds the watchers of a change, `filter` decides which event each receives, and `watcher` queues and
//! reads the events.

mod filter;
mod trigger;
mod watcher;
mod watcher_index;

use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::{Revision, fields, labels};

use crate::object_change::ObjectChange;
use crate::{CacheEntry, EventKind};

pub(crate) use filter::WatchFilter;
pub(crate) use trigger::TriggerOptions;
pub(crate) use watcher::WatchQueue;
pub use watcher::{CacheWatcher, WatchNotifier};
pub(crate) use watcher_index::{PendingEvent, WatcherId, WatcherIndex};

/// What to watch, and from where.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    pub start: WatchStart,
    pub scope: WatchScope,
    pub labels: labels::Selector,
    pub fields: fields::Selector,
}

impl WatchRequest {
    /// All objects of the resource.
    pub fn everything(start: WatchStart) -> Self {
        WatchRequest {
            start,
            scope: WatchScope::All,
            labels: labels::Selector::everything(),
            fields: fields::Selector::everything(),
        }
    }
}

/// Where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// With the first change after this revision. Rejected if the history does not reach back that far. A future
    /// revision is allowed: changes up to it are skipped.
    After(Revision),
    /// With the next change.
    Latest,
    /// With all existing objects, each as [`EventKind::Added`], then [`WatchMessage::InitialEventsEnd`], then changes
    /// (upstream: `sendInitialEvents`).
    InitialList,
}

/// Which objects to watch: all, those of one namespace, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchScope {
    All,
    Namespace(Box<str>),
    /// `namespace` is absent for cluster-scoped resources.
    Object {
        namespace: Option<Box<str>>,
        name: Box<str>,
    },
}

/// What a watcher receives.
#[derive(Debug, Clone)]
pub enum WatchMessage {
    Event(WatchEvent),
    /// All objects as of this revision have been sent. Sent once, and only for [`WatchStart::InitialList`].
    InitialEventsEnd(Revision),
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The history no longer has the next change: the client has to list again.
    #[error("the history no longer has the next change")]
    Expired,
    /// The server is shutting down: the client can resume the watch on another server.
    #[error("the server is shutting down")]
    Closing,
    /// The resource is no longer served.
    #[error("the resource is no longer served")]
    Removed,
}

/// A watch event: one object, and what its change means for the watcher's selectors. Cheap to clone.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    kind: EventKind,
    payload: WatchEventPayload,
}

/// The object of a watch event, and the change that it came from.
#[derive(Debug, Clone)]
enum WatchEventPayload {
    Initial(Arc<CacheEntry>),
    /// The entry is the one that the change has for the event's kind.
    Changed(Arc<ObjectChange>, Arc<CacheEntry>),
}

impl WatchEvent {
    pub(crate) fn from_initial_list(entry: Arc<CacheEntry>) -> Self {
        WatchEvent {
            kind: EventKind::Added,
            payload: WatchEventPayload::Initial(entry),
        }
    }

    /// `None` for a kind that the change cannot have.
    pub(crate) fn from_change(change: Arc<ObjectChange>, kind: EventKind) -> Option<Self> {
        let entry = Arc::clone(change.entry_for(kind)?);
        Some(WatchEvent {
            kind,
            payload: WatchEventPayload::Changed(change, entry),
        })
    }

    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The object. For a deletion its last state, with the revision of the deletion.
    pub fn entry(&self) -> &Arc<CacheEntry> {
        match &self.payload {
            WatchEventPayload::Initial(entry) | WatchEventPayload::Changed(_, entry) => entry,
        }
    }

    /// The resourceVersion of the event's object.
    pub fn revision(&self) -> Revision {
        self.entry().revision()
    }

    /// The watch frame: `{"type":"ADDED","object":…}` and a line feed. Shared by all watchers of a change.
    pub fn frame(&self) -> Bytes {
        let shared = match &self.payload {
            WatchEventPayload::Initial(_) => None,
            WatchEventPayload::Changed(change, _) => change.frame(self.kind),
        };
        shared.unwrap_or_else(|| self.entry().frame(self.kind))
    }

    /// The event in another encoding, such as protobuf, identified by `name`. While the change is recent, `make` runs
    /// once for all watchers.
    pub fn get_or_encode<E>(
        &self,
        name: &Arc<str>,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        match &self.payload {
            WatchEventPayload::Initial(_) => make(),
            WatchEventPayload::Changed(change, _) => change.get_or_encode(name, self.kind, make),
        }
    }

    /// The object before the change, if it was served: for callers that convert or filter events themselves.
    pub fn previous(&self) -> Option<&Arc<CacheEntry>> {
        match &self.payload {
            WatchEventPayload::Initial(_) => None,
            WatchEventPayload::Changed(change, _) => change.old.as_ref(),
        }
    }
}
