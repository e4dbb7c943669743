//! A resource without meaning, and short forms for what every test does.

// Each test binary that includes this uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod memory;
pub mod random;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rhumb_cache::{
    Attribute, Cache, Entry, EventKind, Hub, Message, Options, Projection, ProjectionError,
    Projector, Resource, Start, Texts, WatchEnd, WatchRequest, Watcher,
};
use rhumb_meta::{ObjectKey, Revision, StoragePrefix};
use rhumb_store::{Expect, Store, Transaction};
use tokio::time::{Instant, timeout};

pub const ROOT: &str = "/registry/";

/// Far longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Objects are stored as `labels;fields;body`: `app=web,tier=a;node-1,Running;hello`.
#[derive(Debug)]
pub struct Plain(pub Vec<Arc<str>>);

impl Projector for Plain {
    fn fields(&self) -> &[Arc<str>] {
        &self.0
    }

    fn project(
        &self,
        _: &ObjectKey,
        stored: &Bytes,
        revision: Revision,
        texts: &mut Texts,
    ) -> Result<Projection, ProjectionError> {
        let text = std::str::from_utf8(stored).map_err(|_| ProjectionError("not text".into()))?;
        let mut parts = text.splitn(3, ';');
        let (Some(labels), Some(fields), Some(body)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(ProjectionError("not three parts".into()));
        };
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(key, value)| (texts.text(key), texts.text(value)));
        Ok(Projection {
            json: format!("{{\"rv\":{revision},\"body\":\"{body}\"}}").into(),
            labels: labels.collect(),
            fields: fields.split(',').map(|field| texts.text(field)).collect(),
        })
    }

    fn with_revision(&self, entry: &Entry, revision: Revision) -> Bytes {
        let json = String::from_utf8(entry.json().to_vec()).expect("text");
        let (_, rest) = json.split_once(',').expect("a body");
        format!("{{\"rv\":{revision},{rest}").into()
    }
}

pub fn prefix(resource: &str) -> StoragePrefix {
    StoragePrefix::new(resource).expect(resource)
}

/// With two selectable fields, `node` and `phase`, and some indexes.
pub fn resource(name: &str) -> Resource {
    Resource {
        prefix: prefix(name),
        projector: Arc::new(Plain(vec!["node".into(), "phase".into()])),
        indexes: vec![Attribute::Label("app".into()), Attribute::Field(0)],
    }
}

pub async fn start(store: &Arc<dyn Store>, options: Options) -> Hub {
    let resources = ["pods", "services/specs", "services/endpoints"];
    let resources = resources.map(resource).to_vec();
    let hub = Hub::start(Arc::clone(store), ROOT, resources, options).await;
    hub.expect("the store can be read")
}

pub fn pods(hub: &Hub) -> Cache {
    hub.cache(&prefix("pods")).expect("pods are cached")
}

pub fn key(text: &str) -> ObjectKey {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(text),
    }
    .expect(text)
}

pub async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    let put = Transaction::new().put(format!("{ROOT}{key}"), value.to_owned(), Expect::Any);
    store.commit(put).await.expect("a put")
}

pub async fn delete(store: &dyn Store, key: &str) -> Revision {
    let delete = Transaction::new().delete(format!("{ROOT}{key}"), Expect::Any);
    store.commit(delete).await.expect("a deletion")
}

pub async fn wait(hub: &Hub, revision: Revision) {
    let deadline = Instant::now() + PATIENCE;
    hub.wait_for(revision, deadline).await.expect("it comes");
}

pub async fn current(hub: &Hub) -> Revision {
    let deadline = Instant::now() + PATIENCE;
    hub.current(deadline).await.expect("a consistent read")
}

pub fn watch(cache: &Cache, start: Start) -> Watcher {
    cache
        .watch(WatchRequest::everything(start))
        .expect("a watch")
}

pub async fn next(watcher: &mut Watcher) -> Result<Message, WatchEnd> {
    timeout(PATIENCE, watcher.next())
        .await
        .expect("a message in time")
}

/// A message as `+a/b@7`, `~a/b@8`, `-a/b@9` or `=9` for the end of the list.
pub fn sketch(message: &Message) -> String {
    match message {
        Message::InitialEnd(revision) => format!("={revision}"),
        Message::Event(event) => {
            let mark = match event.kind() {
                EventKind::Added => '+',
                EventKind::Modified => '~',
                EventKind::Deleted => '-',
            };
            format!("{mark}{}@{}", event.entry().key(), event.revision())
        }
    }
}

pub async fn next_sketch(watcher: &mut Watcher) -> String {
    sketch(&next(watcher).await.expect("a message"))
}

/// Everything that is there already.
pub fn drain(watcher: &mut Watcher) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(message) = watcher.try_next().expect("a live watch") {
        all.push(sketch(&message));
    }
    all
}

/// All objects as key and JSON.
pub fn contents(snapshot: &rhumb_cache::Snapshot) -> BTreeMap<String, String> {
    let pair = |entry: &Arc<Entry>| {
        let json = String::from_utf8(entry.json().to_vec()).expect("text");
        (entry.key().to_string(), json)
    };
    snapshot.range(None, None).map(pair).collect()
}

/// Waits for a condition.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
