//! Watches: what is asked for, and what is told.

mod benches;
mod filter;
mod place;
mod places;
mod watcher;

use std::sync::Arc;

use bytes::Bytes;
use rhumb_meta::{Revision, fields, labels};

use crate::change::Change;
use crate::{Entry, EventKind};

pub(crate) use filter::Filter;
pub(crate) use places::{Delivery, Places};
pub(crate) use watcher::Mailbox;
pub use watcher::{Bell, Watcher};

/// Which changes to be told of.
#[derive(Debug, Clone)]
pub struct WatchRequest {
    pub start: Start,
    pub scope: Scope,
    pub labels: labels::Selector,
    pub fields: fields::Selector,
}

impl WatchRequest {
    /// Everything in the resource.
    pub fn everything(start: Start) -> Self {
        WatchRequest {
            start,
            scope: Scope::All,
            labels: labels::Selector::everything(),
            fields: fields::Selector::everything(),
        }
    }
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first change after this revision. Refused when the history does not reach back that far. A
    /// revision of the future is allowed: changes up to it are passed over.
    After(Revision),
    /// With the next change.
    Latest,
    /// With all objects there are, each as [`EventKind::Added`], then [`Message::InitialEnd`], then the changes.
    List,
}

/// Which objects, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    All,
    Namespace(Box<str>),
    /// The namespace is absent for resources of the cluster.
    Object {
        namespace: Option<Box<str>>,
        name: Box<str>,
    },
}

/// What a watcher is told.
#[derive(Debug, Clone)]
pub enum Message {
    Event(Event),
    /// All objects there were as of this revision have been told. Comes once, and only after [`Start::List`].
    InitialEnd(Revision),
}

/// Why a watch is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The history no longer has what comes next: list again.
    #[error("the history no longer has what comes next")]
    Expired,
    /// The server ends: watch again elsewhere from where this one was.
    #[error("the server is closing")]
    Closing,
    /// The resource is no longer served.
    #[error("the resource is no longer served")]
    Removed,
}

/// What happened to one object, seen by one selector. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Event {
    kind: EventKind,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Listed(Arc<Entry>),
    /// The change has an entry for the kind: [`Filter::judge`] said so.
    Changed(Arc<Change>, Arc<Entry>),
}

impl Event {
    pub(crate) fn listed(entry: Arc<Entry>) -> Self {
        Event {
            kind: EventKind::Added,
            source: Source::Listed(entry),
        }
    }

    /// `None` for a kind that the change never is.
    pub(crate) fn changed(change: Arc<Change>, kind: EventKind) -> Option<Self> {
        let entry = Arc::clone(change.entry(kind)?);
        Some(Event {
            kind,
            source: Source::Changed(change, entry),
        })
    }

    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The object. One that is gone is shown in its last state, with the revision at which it went.
    pub fn entry(&self) -> &Arc<Entry> {
        match &self.source {
            Source::Listed(entry) | Source::Changed(_, entry) => entry,
        }
    }

    /// The resourceVersion that the event shows.
    pub fn revision(&self) -> Revision {
        self.entry().revision()
    }

    /// One line of a watch: `{"type":"ADDED","object":…}` and a line feed. Made once for all who ask.
    pub fn frame(&self) -> Bytes {
        let shared = match &self.source {
            Source::Listed(_) => None,
            Source::Changed(change, _) => change.frame(self.kind),
        };
        shared.unwrap_or_else(|| self.entry().frame(self.kind))
    }

    /// The event in a form that the caller knows by name, such as protobuf. Made once for all who are told of a
    /// change about when it happens.
    pub fn form<E>(
        &self,
        name: &Arc<str>,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        match &self.source {
            Source::Listed(_) => make(),
            Source::Changed(change, _) => change.form(name, self.kind, make),
        }
    }

    /// What the object was before, if it was served: for those who convert or filter events themselves.
    pub fn previous(&self) -> Option<&Arc<Entry>> {
        match &self.source {
            Source::Listed(_) => None,
            Source::Changed(change, _) => change.old.as_ref(),
        }
    }
}
