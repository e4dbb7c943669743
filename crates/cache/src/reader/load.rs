//! Reads everything below a prefix as of one revision.

use std::collections::HashMap;

use bytes::Bytes;
use rhumb_meta::Revision;
use rhumb_store::{ChangeStream, Entry, Error, Range, Result, Store};

use super::{Reader, parse};
use crate::snapshot::Version;
use crate::{Cache, EventKind};

/// What was found at a key: a value, or why it cannot be read.
struct Found {
    key: String,
    modified: Revision,
    stored: Result<Bytes, String>,
}

/// Goes through a prefix page by page.
struct Cursor<'a> {
    prefix: &'a str,
    at: Revision,
    page_max: usize,
    after: Option<String>,
    /// One entry at a time, to find the damaged one among them.
    is_careful: bool,
    is_done: bool,
}

impl<'a> Cursor<'a> {
    fn new(prefix: &'a str, at: Revision, page_max: usize) -> Self {
        Cursor {
            prefix,
            at,
            page_max,
            after: None,
            is_careful: false,
            is_done: false,
        }
    }

    /// The next entries; none and `is_done` at the end.
    async fn next(&mut self, store: &dyn Store) -> Result<Vec<Found>> {
        let limit = if self.is_careful { 1 } else { self.page_max };
        let mut range = Range::prefix(self.prefix).limit(limit);
        range.after = self.after.as_deref();
        // An empty store has no revision to read at, and nothing to read.
        range.at = (self.at > Revision::ZERO).then_some(self.at);
        let page = match store.range(range).await {
            Ok(page) => page,
            Err(Error::Damaged { key, reason }) => return self.pass_over(key, reason),
            Err(error) => return Err(error),
        };
        self.is_done = !page.more;
        if let Some(last) = page.entries.last() {
            self.after = Some(last.key.to_string());
        }
        Ok(page.entries.into_iter().map(found).collect())
    }

    /// A page with a damaged entry is read entry by entry, and that one is left out.
    fn pass_over(&mut self, key: String, reason: String) -> Result<Vec<Found>> {
        if !self.is_careful {
            self.is_careful = true;
            return Ok(Vec::new());
        }
        let is_ahead = self.after.as_ref().is_none_or(|after| *after < key);
        if !key.starts_with(self.prefix) || !is_ahead {
            return Err(Error::Damaged { key, reason });
        }
        self.is_careful = false;
        self.after = Some(key.clone());
        Ok(vec![Found {
            key,
            modified: self.at,
            stored: Err(reason),
        }])
    }
}

fn found(entry: Entry) -> Found {
    Found {
        key: entry.key.to_string(),
        modified: entry.modified,
        stored: Ok(entry.value),
    }
}

impl Reader {
    /// Fills all caches with what there was at `at`, and follows from there. Watches end, as nobody can say
    /// what they missed.
    pub(super) async fn read_all(&mut self, at: Revision) -> Result<Box<dyn ChangeStream>> {
        let root = self.shared.root.clone();
        let mut cursor = Cursor::new(&root, at, self.shared.options.page_objects);
        let mut contents: HashMap<Box<str>, Version> = HashMap::new();
        while !cursor.is_done {
            for found in cursor.next(&*self.store).await? {
                let Some(cache) = self.shared.route(&found.key) else {
                    continue;
                };
                let prefix = cache.prefix().as_str().into();
                self.keep(&cache, found, contents.entry(prefix).or_default());
            }
            // Making entries of a page takes a while, and others have work as well.
            tokio::task::yield_now().await;
        }
        let stream = self.store.lead(&root, at).await?;
        for cache in self.shared.all() {
            let mut version = contents.remove(cache.prefix().as_str()).unwrap_or_default();
            version.revision = at;
            cache.inner().reset(version);
        }
        self.shared.progress.advance(at);
        Ok(stream)
    }

    /// What one cache has to hold as of `at`.
    pub(super) async fn read_one(&mut self, cache: &Cache, at: Revision) -> Result<Version> {
        let page_objects = self.shared.options.page_objects;
        let mut cursor = Cursor::new(cache.prefix().as_str(), at, page_objects);
        let mut version = Version {
            revision: at,
            ..Version::default()
        };
        while !cursor.is_done {
            for found in cursor.next(&*self.store).await? {
                // A longer prefix may have a cache of its own.
                if self.shared.route(&found.key).is_none_or(|other| {
                    other.prefix().as_str().len() < cache.prefix().as_str().len()
                }) {
                    self.keep(cache, found, &mut version);
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(version)
    }

    fn keep(&mut self, cache: &Cache, found: Found, version: &mut Version) {
        let Some((cache, key)) = parse(&found.key)(cache.clone()) else {
            return;
        };
        let stored = found.stored.as_ref().map(Some).map_err(String::as_str);
        // Nobody who watched all along is told of this entry, only those who begin with a list.
        let kind = EventKind::Added;
        let state = cache
            .inner()
            .state(&key, stored, found.modified, kind, &mut self.texts);
        version.set(&key, state);
    }
}
