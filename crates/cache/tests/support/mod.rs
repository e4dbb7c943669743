//! Helpers of the cache tests: a text-based resource, and shorthands for common steps.

// Each test binary uses only a part of this module.
#![allow(dead_code, unreachable_pub)]

pub mod gated_store;
pub mod memory_store;
pub mod random;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rhumb_cache::{
    CacheEntry, CacheManager, CacheOptions, CacheWatcher, EventKind, IndexedAttribute,
    ObjectProjection, ObjectProjector, ProjectionError, ResourceCache, ResourceCacheConfig,
    StringInterner, WatchEnd, WatchMessage, WatchRequest, WatchStart,
};
use rhumb_meta::{ObjectKey, Revision, StoragePrefix};
use rhumb_store::{ExpectedRevision, Store, Transaction};
use tokio::time::{Instant, timeout};

pub const ROOT: &str = "/registry/";

/// Timeout of every wait; far longer than any step takes.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A projector of objects that are stored as text, `labels;fields;body`: `app=web,tier=a;node-1,Running;hello`.
#[derive(Debug)]
pub struct TextProjector(pub Vec<Arc<str>>);

impl ObjectProjector for TextProjector {
    fn field_names(&self) -> &[Arc<str>] {
        &self.0
    }

    fn project(
        &self,
        _: &ObjectKey,
        stored: &Bytes,
        revision: Revision,
        interner: &mut StringInterner,
    ) -> Result<ObjectProjection, ProjectionError> {
        let text = std::str::from_utf8(stored).map_err(|_| ProjectionError("not text".into()))?;
        let mut parts = text.splitn(3, ';');
        let (Some(labels), Some(fields), Some(body)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(ProjectionError("not three parts".into()));
        };
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(key, value)| (interner.intern(key), interner.intern(value)));
        Ok(ObjectProjection {
            json: format!("{{\"rv\":{revision},\"body\":\"{body}\"}}").into(),
            labels: labels.collect(),
            fields: fields
                .split(',')
                .map(|field| interner.intern(field))
                .collect(),
        })
    }

    fn with_revision(&self, entry: &CacheEntry, revision: Revision) -> Bytes {
        let json = String::from_utf8(entry.json().to_vec()).expect("text");
        let (_, rest) = json.split_once(',').expect("a body");
        format!("{{\"rv\":{revision},{rest}").into()
    }
}

pub fn prefix(resource: &str) -> StoragePrefix {
    StoragePrefix::new(resource).expect(resource)
}

/// With two selectable fields, `node` and `phase`, and some indexes.
pub fn resource(name: &str) -> ResourceCacheConfig {
    ResourceCacheConfig {
        prefix: prefix(name),
        projector: Arc::new(TextProjector(vec!["node".into(), "phase".into()])),
        indexes: vec![
            IndexedAttribute::Label("app".into()),
            IndexedAttribute::Field(0),
        ],
    }
}

pub async fn start(store: &Arc<dyn Store>, options: CacheOptions) -> CacheManager {
    let resources = ["pods", "services/specs", "services/endpoints"];
    let resources = resources.map(resource).to_vec();
    let manager = CacheManager::start(Arc::clone(store), ROOT, resources, options).await;
    manager.expect("the cache manager starts")
}

pub fn pods(manager: &CacheManager) -> ResourceCache {
    manager.cache(&prefix("pods")).expect("pods are cached")
}

pub fn key(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(text),
    }
    .expect(text)
}

pub async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    let put = Transaction::new().put(
        format!("{ROOT}{key}"),
        value.to_owned(),
        ExpectedRevision::Any,
    );
    store.commit(put).await.expect("a put")
}

pub async fn delete(store: &dyn Store, key: &str) -> Revision {
    let delete = Transaction::new().delete(format!("{ROOT}{key}"), ExpectedRevision::Any);
    store.commit(delete).await.expect("a deletion")
}

pub async fn wait(manager: &CacheManager, revision: Revision) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    manager
        .wait_for_revision(revision, deadline)
        .await
        .expect("the revision is applied in time");
}

pub async fn current(manager: &CacheManager) -> Revision {
    let deadline = Instant::now() + TEST_TIMEOUT;
    manager
        .wait_until_consistent(deadline)
        .await
        .expect("a consistent read")
}

pub fn watch(cache: &ResourceCache, start: WatchStart) -> CacheWatcher {
    cache
        .watch(WatchRequest::everything(start))
        .expect("a watch")
}

pub async fn next(watcher: &mut CacheWatcher) -> Result<WatchMessage, WatchEnd> {
    timeout(TEST_TIMEOUT, watcher.next())
        .await
        .expect("a message in time")
}

/// A message as text: `+a/b@7` (added), `~a/b@8` (modified), `-a/b@9` (deleted), `=9` (end of the initial list).
pub fn summarize(message: &WatchMessage) -> String {
    match message {
        WatchMessage::InitialEventsEnd(revision) => format!("={revision}"),
        WatchMessage::Event(event) => {
            let mark = match event.kind() {
                EventKind::Added => '+',
                EventKind::Modified => '~',
                EventKind::Deleted => '-',
            };
            format!("{mark}{}@{}", event.entry().key(), event.revision())
        }
    }
}

pub async fn next_summary(watcher: &mut CacheWatcher) -> String {
    summarize(&next(watcher).await.expect("a message"))
}

/// All messages that are available without waiting.
pub fn drain(watcher: &mut CacheWatcher) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(message) = watcher.try_next().expect("a live watch") {
        all.push(summarize(&message));
    }
    all
}

/// All objects of a snapshot by key, as JSON.
pub fn contents(snapshot: &rhumb_cache::CacheSnapshot) -> BTreeMap<String, String> {
    let pair = |entry: &Arc<CacheEntry>| {
        let json = String::from_utf8(entry.json().to_vec()).expect("text");
        (entry.key().to_string(), json)
    };
    snapshot.range(None, None).map(pair).collect()
}

/// Polls until the condition holds.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < TEST_TIMEOUT,
            "timed out waiting until {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
