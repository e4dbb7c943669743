//! The list phase of the store reflector: reads everything below a prefix at one revision, page by page.

use std::collections::HashMap;

use bytes::Bytes;
use rhumb_meta::Revision;
use rhumb_store::{ChangeStream, Error, RangeRequest, Result, Store, StoreEntry};

use super::{StoreReflector, parse_object_key};
use crate::manager::CacheManagerState;
use crate::snapshot::CacheContents;
use crate::{EventKind, ResourceCache, StringInterner};

/// A stored entry: its bytes, or the reason why it cannot be read.
struct LoadedEntry {
    key: String,
    modified: Revision,
    stored: Result<Bytes, String>,
}

/// Reads a prefix page by page and skips damaged entries.
struct PrefixPager<'a> {
    prefix: &'a str,
    at: Revision,
    page_max: usize,
    after: Option<String>,
    /// Read one entry at a time, to isolate the damaged one.
    reads_single_entries: bool,
    is_done: bool,
}

impl<'a> PrefixPager<'a> {
    fn new(prefix: &'a str, at: Revision, page_max: usize) -> Self {
        PrefixPager {
            prefix,
            at,
            page_max,
            after: None,
            reads_single_entries: false,
            is_done: false,
        }
    }

    /// The next entries; empty with `is_done` set at the end.
    async fn next_page(&mut self, store: &dyn Store) -> Result<Vec<LoadedEntry>> {
        let limit = if self.reads_single_entries {
            1
        } else {
            self.page_max
        };
        let mut range = RangeRequest::prefix(self.prefix).limit(limit);
        range.after = self.after.as_deref();
        // An empty store has no revision to read at, and nothing to read.
        range.at = (self.at > Revision::ZERO).then_some(self.at);
        let page = match store.range(range).await {
            Ok(page) => page,
            Err(Error::Damaged { key, reason }) => return self.skip_damaged(key, reason),
            Err(error) => return Err(error),
        };
        self.is_done = !page.more;
        if let Some(last) = page.entries.last() {
            self.after = Some(last.key.to_string());
        }
        Ok(page.entries.into_iter().map(loaded_entry).collect())
    }

    /// Handles a damaged entry: the first error switches to single entries, the second skips the damaged one.
    fn skip_damaged(&mut self, key: String, reason: String) -> Result<Vec<LoadedEntry>> {
        if !self.reads_single_entries {
            self.reads_single_entries = true;
            return Ok(Vec::new());
        }
        let is_ahead = self.after.as_ref().is_none_or(|after| *after < key);
        if !key.starts_with(self.prefix) || !is_ahead {
            return Err(Error::Damaged { key, reason });
        }
        self.reads_single_entries = false;
        self.after = Some(key.clone());
        Ok(vec![LoadedEntry {
            key,
            modified: self.at,
            stored: Err(reason),
        }])
    }
}

fn loaded_entry(entry: StoreEntry) -> LoadedEntry {
    LoadedEntry {
        key: entry.key.to_string(),
        modified: entry.modified,
        stored: Ok(entry.value),
    }
}

impl StoreReflector {
    /// Loads all caches at revision `at` and opens the change stream from there. All watches end as expired, because
    /// the changes they missed are unknown.
    pub(super) async fn load_all(&mut self, at: Revision) -> Result<Box<dyn ChangeStream>> {
        let root = self.shared.root.clone();
        let mut cursor = PrefixPager::new(&root, at, self.shared.options.page_objects);
        let mut contents: HashMap<Box<str>, CacheContents> = HashMap::new();
        while !cursor.is_done {
            for found in cursor.next_page(&*self.store).await? {
                let Some(cache) = self.shared.cache_for_key(&found.key) else {
                    continue;
                };
                let prefix = cache.prefix().as_str().into();
                let version = contents.entry(prefix).or_default();
                insert_loaded(&cache, found, version, &mut self.interner);
            }
            // Decoding a page takes a while: let other tasks run.
            tokio::task::yield_now().await;
        }
        let stream = self.store.changes_gating_commits(&root, at).await?;
        for cache in self.shared.all_caches() {
            let mut version = contents.remove(cache.prefix().as_str()).unwrap_or_default();
            version.revision = at;
            cache.inner().reset(version);
        }
        self.restart_loads(at);
        self.shared.progress.advance(at);
        Ok(stream)
    }
}

/// Loads the contents of one cache at revision `at`.
pub(super) async fn load_resource(
    store: &dyn Store,
    shared: &CacheManagerState,
    cache: &ResourceCache,
    at: Revision,
) -> Result<CacheContents> {
    let prefix = cache.prefix().as_str();
    // Strings are not shared with those of the other caches, as their interner is in use.
    let mut interner = StringInterner::new();
    let mut cursor = PrefixPager::new(prefix, at, shared.options.page_objects);
    let mut version = CacheContents {
        revision: at,
        ..CacheContents::default()
    };
    while !cursor.is_done {
        for found in cursor.next_page(store).await? {
            // Skip keys that belong to the cache of a longer prefix.
            let other = shared.cache_for_key(&found.key);
            if other.is_none_or(|other| other.prefix().as_str().len() < prefix.len()) {
                insert_loaded(cache, found, &mut version, &mut interner);
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(version)
}

fn insert_loaded(
    cache: &ResourceCache,
    found: LoadedEntry,
    version: &mut CacheContents,
    interner: &mut StringInterner,
) {
    let Some((cache, key)) = parse_object_key(&found.key)(cache.clone()) else {
        return;
    };
    let stored = found.stored.as_ref().map(Some).map_err(String::as_str);
    // Loading produces no events; only initial lists send this entry, as ADDED.
    let kind = EventKind::Added;
    let state = cache
        .inner()
        .project(&key, stored, found.modified, kind, interner);
    version.set(&key, state);
}
