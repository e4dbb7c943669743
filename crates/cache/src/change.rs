//! One change of one object, shared by the history and all who are told of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use rhumb_meta::{ObjectKey, Revision};

use crate::{Entry, Projector, Unreadable};

/// What a watcher is told of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It came to be, or into the watcher's selection.
    Added,
    Modified,
    /// It is gone, or left the watcher's selection.
    Deleted,
}

impl EventKind {
    /// Upstream's name of it.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        }
    }

    /// What precedes the object in a line of a watch.
    pub(crate) const fn frame_start(self) -> &'static [u8] {
        match self {
            EventKind::Added => b"{\"type\":\"ADDED\",\"object\":",
            EventKind::Modified => b"{\"type\":\"MODIFIED\",\"object\":",
            EventKind::Deleted => b"{\"type\":\"DELETED\",\"object\":",
        }
    }
}

/// About what a change takes in memory beside its objects, with its part of the snapshots kept for it.
const CHANGE_BYTES: usize = 512;

/// What there is of an object.
#[derive(Debug, Clone)]
pub(crate) enum State {
    Absent,
    Served(Arc<Entry>),
    /// Stored, but not to be served: for watchers and lists it is not there.
    Unreadable(Arc<Unreadable>),
}

impl State {
    pub(crate) fn served(&self) -> Option<&Arc<Entry>> {
        match self {
            State::Served(entry) => Some(entry),
            State::Absent | State::Unreadable(_) => None,
        }
    }
}

/// What happened to one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// Its place in the order of all changes of the resource, without gaps.
    pub(crate) sequence: u64,
    pub(crate) revision: Revision,
    pub(crate) key: ObjectKey,
    /// What was served before, if anything.
    pub(crate) old: Option<Arc<Entry>>,
    pub(crate) new: State,
    projector: Arc<dyn Projector>,
    /// The old state with the new revision, made when the first watcher is told that the object left.
    departed: OnceLock<Arc<Entry>>,
    /// The frame for those who see the object for the first time though it was there before.
    arrived: OnceLock<Bytes>,
    /// The event in further forms, as long as it is young.
    forms: Mutex<Vec<(Arc<str>, EventKind, Bytes)>>,
    /// Nothing more is kept in further forms.
    is_old: AtomicBool,
}

/// How many forms of an event are kept. There are as many as there are media and versions, which is few.
const FORMS_MAX: usize = 16;

impl Change {
    pub(crate) fn new(
        sequence: u64,
        revision: Revision,
        key: ObjectKey,
        old: Option<Arc<Entry>>,
        new: State,
        projector: Arc<dyn Projector>,
    ) -> Self {
        Change {
            sequence,
            revision,
            key,
            old,
            new,
            projector,
            departed: OnceLock::new(),
            arrived: OnceLock::new(),
            forms: Mutex::default(),
            is_old: AtomicBool::new(false),
        }
    }

    /// The object as it is told with this kind of event. `None` only for a kind that this change never is.
    pub(crate) fn entry(&self, kind: EventKind) -> Option<&Arc<Entry>> {
        match kind {
            EventKind::Added | EventKind::Modified => self.new.served(),
            EventKind::Deleted => {
                let old = self.old.as_ref()?;
                Some(self.departed.get_or_init(|| {
                    let json = self.projector.with_revision(old, self.revision);
                    Arc::new(old.departed(self.revision, &json))
                }))
            }
        }
    }

    /// The line of a watch. Made once, whoever asks.
    pub(crate) fn frame(&self, kind: EventKind) -> Option<Bytes> {
        let entry = self.entry(kind)?;
        if kind == entry.kind() {
            return Some(entry.frame(kind));
        }
        Some(self.arrived.get_or_init(|| entry.frame(kind)).clone())
    }

    /// The event in a form that the caller knows. Made once, whoever asks while it is young.
    pub(crate) fn form<E>(
        &self,
        name: &Arc<str>,
        kind: EventKind,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        // Held while it is made: the others would make the same.
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        let known = forms
            .iter()
            .find(|(other, of, _)| *of == kind && other == name);
        if let Some((_, _, bytes)) = known {
            return Ok(bytes.clone());
        }
        let bytes = make()?;
        if forms.len() < FORMS_MAX && !self.is_old.load(Ordering::Relaxed) {
            forms.push((Arc::clone(name), kind, bytes.clone()));
        }
        Ok(bytes)
    }

    /// Whoever asks for further forms from now on makes them.
    pub(crate) fn forget_forms(&self) {
        self.is_old.store(true, Ordering::Relaxed);
        // Who holds it is just making one, and the dispatcher does not wait for that.
        if let Ok(mut forms) = self.forms.try_lock() {
            *forms = Vec::new();
        }
    }

    /// About what the history keeps for it. The last state of what is gone is there as it was, and as it is told.
    pub(crate) fn weight(&self) -> usize {
        let new = self.new.served().map(|entry| entry.bytes());
        let gone = || self.old.as_ref().map(|entry| 2 * entry.bytes());
        CHANGE_BYTES + new.or_else(gone).unwrap_or_default()
    }
}
