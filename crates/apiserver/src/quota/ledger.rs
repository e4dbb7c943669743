//! The book of one namespace, and the watches that keep it true.

use rhumb_cache::{Bell, Cache, CacheVersion, Entry, EventKind, Message, Scope, Start};
use rhumb_cache::{WatchEnd, WatchRequest, Watcher};
use rhumb_meta::{ObjectKey, Revision, Timestamp, fields, labels};
use rhumb_quota::{Book, HoldId, Meter, Quota};
use serde::Deserialize;

use crate::resources::{Registry, Resource};

#[derive(Debug)]
pub(super) struct Ledger {
    namespace: Box<str>,
    quotas: Cache,
    /// When the quotas were last looked at.
    version: Option<CacheVersion>,
    known: Vec<Known>,
    /// The book is of other quotas than these.
    is_outdated: bool,
    shown: Revision,
    pub(super) book: Book,
    /// In the order of the book's sheets.
    follows: Vec<Follow>,
    /// Written, and to be released once the watches have come so far.
    written: Vec<(HoldId, Revision)>,
}

/// A quota, and which version of it was read.
#[derive(Debug, Clone)]
struct Known {
    key: ObjectKey,
    revision: Revision,
    quota: Quota,
}

/// The objects of one resource that quotas count.
#[derive(Debug)]
struct Follow {
    meter: Meter,
    watcher: Option<Watcher>,
}

impl Ledger {
    pub(super) fn new(namespace: &str, quotas: Cache) -> Ledger {
        Ledger {
            namespace: namespace.into(),
            quotas,
            version: None,
            known: Vec::new(),
            is_outdated: false,
            shown: Revision::ZERO,
            book: Book::default(),
            follows: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Reads quotas that have changed. Returns whether they count other things now, so that the book has to be begun
    /// anew.
    pub(super) fn look_at_quotas(&mut self) -> bool {
        let version = self.quotas.version();
        if self.version == Some(version) {
            return self.is_outdated;
        }
        let snapshot = self.quotas.snapshot();
        let entries = snapshot.range(Some(&self.namespace), None);
        let mut before = std::mem::take(&mut self.known).into_iter().peekable();
        let (mut is_other, mut is_changed) = (false, false);
        for entry in entries {
            // Both are in the order of their names.
            while before.next_if(|known| known.key < *entry.key()).is_some() {
                is_other = true;
            }
            let old = before.next_if(|known| known.key == *entry.key());
            let known = match old {
                Some(old) if old.revision == entry.revision() => old,
                old => {
                    let Some(known) = read(entry) else {
                        is_other |= old.is_some();
                        continue;
                    };
                    is_changed = true;
                    is_other |= old.is_none_or(|old| !old.quota.counts_as(&known.quota));
                    known
                }
            };
            self.known.push(known);
        }
        is_other |= before.next().is_some();
        self.version = Some(version);
        self.is_outdated |= is_other;
        if is_changed && !self.is_outdated {
            let quotas = self.known.iter().map(|known| known.quota.clone());
            self.book.set_quotas(quotas.collect());
        }
        self.is_outdated
    }

    /// Whether the book has to be begun anew.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Begins the book anew, for what the quotas count now.
    pub(super) fn begin(&mut self, registry: &Registry) {
        let quotas: Vec<Quota> = self.known.iter().map(|known| known.quota.clone()).collect();
        let is_counted = |meter: &Meter| {
            let mut names = quotas.iter().flat_map(|quota| quota.hard.names());
            names.any(|name| meter.covers(name))
        };
        self.follows = registry
            .iter()
            .filter(|resource| resource.meter.as_ref().is_some_and(is_counted))
            .filter_map(|resource| Follow::new(resource, &self.namespace))
            .collect();
        let meters = self.follows.iter().map(|follow| follow.meter.clone());
        let book = Book::new(quotas, meters.collect());
        self.book = book.with_holds_of(std::mem::take(&mut self.book));
        self.is_outdated = false;
    }

    /// Enters all that the caches show by now. Afterwards the book may be outdated, because a watch has ended.
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        self.shown = Revision::MAX;
        for (sheet, follow) in self.follows.iter_mut().enumerate() {
            match follow.catch_up(&mut self.book, sheet) {
                Some(reached) => self.shown = self.shown.min(reached),
                None => self.is_outdated = true,
            }
        }
        self.book.pass_time(now);
        let (book, shown) = (&mut self.book, self.shown);
        self.written.retain(|&(id, revision)| {
            let is_shown = revision <= shown;
            if is_shown {
                book.release(id);
            }
            !is_shown
        });
    }

    /// How far the caches had come when the book was last brought up to date.
    pub(super) fn shown(&self) -> Revision {
        self.shown
    }

    /// What was held for a write is released when the watches have come to it.
    pub(super) fn note_written(&mut self, id: HoldId, revision: Revision) {
        self.written.push((id, revision));
    }

    /// The names of the quotas, in the order in which the book has them.
    pub(super) fn quota_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.known.iter().map(|known| &known.key)
    }

    pub(super) fn has_quotas(&self) -> bool {
        !self.known.is_empty()
    }

    /// What rings when something changes that is counted.
    pub(super) fn bells(&self) -> Vec<Bell> {
        let watchers = self.follows.iter();
        let watchers = watchers.filter_map(|follow| follow.watcher.as_ref());
        watchers.map(Watcher::bell).collect()
    }
}

fn read(entry: &Entry) -> Option<Known> {
    let object = serde_json::from_slice(entry.json_slice()).ok()?;
    Some(Known {
        key: entry.key().clone(),
        revision: entry.revision(),
        quota: Quota::parse(&object),
    })
}

impl Follow {
    fn new(resource: &Resource, namespace: &str) -> Option<Follow> {
        let storage = resource.storage.as_ref()?;
        let request = WatchRequest {
            start: Start::List,
            scope: Scope::Namespace(namespace.into()),
            labels: labels::Selector::everything(),
            fields: fields::Selector::everything(),
        };
        Some(Follow {
            meter: resource.meter.clone()?,
            // Refused only when the server ends: then nothing is written any more.
            watcher: storage.cache.watch(request).ok(),
        })
    }

    /// Enters what its watch tells, and returns how far that goes; `None` if some of it is lost.
    fn catch_up(&mut self, book: &mut Book, sheet: usize) -> Option<Revision> {
        let Some(watcher) = &mut self.watcher else {
            return Some(Revision::ZERO);
        };
        loop {
            match watcher.try_next() {
                Ok(Some(Message::Event(event))) => {
                    let is_gone = event.kind() == EventKind::Deleted;
                    enter(&self.meter, book, sheet, event.entry(), is_gone);
                }
                Ok(Some(Message::InitialEnd(_))) => {}
                Ok(None) => {
                    if let Some(reached) = watcher.progress() {
                        return Some(reached);
                    }
                }
                Err(WatchEnd::Expired) => return None,
                Err(WatchEnd::Closing) => return Some(Revision::ZERO),
                Err(WatchEnd::Removed) => {
                    book.clear(sheet);
                    return Some(Revision::MAX);
                }
            }
        }
    }
}

/// All of an object that says which one it is.
#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

#[derive(Deserialize)]
struct Identity<'a> {
    #[serde(default)]
    uid: &'a str,
}

fn enter(meter: &Meter, book: &mut Book, sheet: usize, entry: &Entry, is_gone: bool) {
    let name = entry.key().name();
    if is_gone {
        return book.enter(sheet, name, None);
    }
    let json = entry.json_slice();
    if book.awaits_new()
        && let Ok(object) = serde_json::from_slice::<Identified<'_>>(json)
    {
        book.arrived(object.metadata.uid);
    }
    // What cannot be read is served to nobody, and is not counted.
    book.enter(sheet, name, meter.measure_json(json).ok());
}
