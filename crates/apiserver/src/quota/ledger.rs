//! The book of one namespace, and the watches that keep it true.

use rhumb_cache::{Bell, Cache, CacheVersion, Entry, EventKind, Message, Scope, Start};
use rhumb_cache::{WatchEnd, WatchRequest, Watcher};
use rhumb_meta::{ObjectKey, Revision, Timestamp, fields, labels};
use rhumb_quota::{Book, HoldId, Meter, Quota};
use serde::Deserialize;

use crate::resources::Registry;

#[derive(Debug)]
pub(super) struct Ledger {
    namespace: Box<str>,
    quotas: Cache,
    /// When the quotas were last looked at.
    version: Option<CacheVersion>,
    known: Vec<Known>,
    /// The book is of other quotas than these.
    is_outdated: bool,
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
    cache: Cache,
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
        let mut is_other = false;
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
                    is_other |= old.is_none_or(|old| !old.quota.counts_as(&known.quota));
                    known
                }
            };
            self.known.push(known);
        }
        is_other |= before.next().is_some();
        self.version = Some(version);
        self.is_outdated |= is_other;
        if !self.is_outdated {
            let quotas = self.known.iter().map(|known| known.quota.clone());
            self.book.set_quotas(quotas.collect());
        }
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
            .filter_map(|resource| {
                let storage = resource.storage.as_ref()?;
                let meter = resource.meter.clone()?;
                is_counted(&meter).then(|| Follow {
                    meter,
                    cache: storage.cache.clone(),
                    watcher: None,
                })
            })
            .collect();
        let meters = self.follows.iter().map(|follow| follow.meter.clone());
        let book = Book::new(quotas, meters.collect());
        self.book = book.with_holds_of(std::mem::take(&mut self.book));
        self.is_outdated = false;
    }

    /// Enters all that the caches show by now.
    pub(super) fn catch_up(&mut self, now: Timestamp) {
        let mut shown: Option<Revision> = None;
        for (sheet, follow) in self.follows.iter_mut().enumerate() {
            let reached = follow.catch_up(&self.namespace, &mut self.book, sheet);
            shown = Some(shown.map_or(reached, |shown| shown.min(reached)));
        }
        self.book.pass_time(now);
        let book = &mut self.book;
        self.written.retain(|&(id, revision)| {
            let is_shown = shown.is_none_or(|shown| revision <= shown);
            if is_shown {
                book.release(id);
            }
            !is_shown
        });
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
    /// Enters what its watch tells, and returns how far that goes.
    fn catch_up(&mut self, namespace: &str, book: &mut Book, sheet: usize) -> Revision {
        loop {
            let Some(watcher) = &mut self.watcher else {
                let request = WatchRequest {
                    start: Start::List,
                    scope: Scope::Namespace(namespace.into()),
                    labels: labels::Selector::everything(),
                    fields: fields::Selector::everything(),
                };
                book.clear(sheet);
                match self.cache.watch(request) {
                    Ok(watcher) => self.watcher = Some(watcher),
                    // The server ends, and nothing is written any more.
                    Err(_) => return Revision::ZERO,
                }
                continue;
            };
            match watcher.try_next() {
                Ok(Some(Message::Event(event))) => {
                    let is_gone = event.kind() == EventKind::Deleted;
                    enter(&self.meter, book, sheet, event.entry(), is_gone);
                }
                Ok(Some(Message::InitialEnd(_))) => {}
                Ok(None) => {
                    if let Some(reached) = watcher.progress() {
                        return reached;
                    }
                }
                Err(WatchEnd::Expired) => self.watcher = None,
                Err(WatchEnd::Closing | WatchEnd::Removed) => return Revision::ZERO,
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
