//! Short forms for what every case does.

use std::time::Duration;

use rhumb_store::{
    Change, ChangeEvent, ChangeSet, ChangeStream, Entry, Expect, Range, Revision, Store,
    Transaction,
};

/// Long enough for a busy machine; a case that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    let transaction = Transaction::new().put(key, value.to_owned(), Expect::Any);
    store
        .commit(transaction)
        .await
        .expect("an unconditional put")
}

pub(crate) async fn delete(store: &dyn Store, key: &str) -> Revision {
    let transaction = Transaction::new().delete(key, Expect::Any);
    store
        .commit(transaction)
        .await
        .expect("an unconditional deletion")
}

pub(crate) async fn get(store: &dyn Store, key: &str) -> Option<Entry> {
    store.get(key).await.expect("a read")
}

pub(crate) async fn value_of(store: &dyn Store, key: &str) -> Option<String> {
    get(store, key).await.map(|entry| text(&entry))
}

pub(crate) fn text(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}

/// All keys below a prefix with their values.
pub(crate) async fn all(store: &dyn Store, prefix: &str) -> Vec<(String, String)> {
    let page = store.range(Range::prefix(prefix)).await.expect("a range");
    let pair = |entry: &Entry| (entry.key.to_string(), text(entry));
    page.entries.iter().map(pair).collect()
}

/// The next change set, which must come.
pub(crate) async fn next_set(stream: &mut dyn ChangeStream) -> ChangeSet {
    match next_event(stream).await {
        ChangeEvent::Changes(set) => set,
        ChangeEvent::Progress(revision) => panic!("progress to {revision} where nobody asked"),
    }
}

pub(crate) async fn next_event(stream: &mut dyn ChangeStream) -> ChangeEvent {
    tokio::time::timeout(PATIENCE, stream.next())
        .await
        .expect("an event in time")
        .expect("an event")
}

/// A change as `+key=value` (created), `~key=value` (updated) or `-key`.
pub(crate) fn sketch(set: &ChangeSet) -> String {
    let one = |change: &Change| match change {
        Change::Put {
            key,
            value,
            created,
        } => {
            let mark = if *created == set.revision { '+' } else { '~' };
            format!("{mark}{key}={}", String::from_utf8_lossy(value))
        }
        Change::Delete { key } => format!("-{key}"),
    };
    let changes: Vec<_> = set.changes.iter().map(one).collect();
    changes.join(" ")
}

/// The next `count` sets as sketches.
pub(crate) async fn sketches(stream: &mut dyn ChangeStream, count: usize) -> Vec<String> {
    let mut sketches = Vec::with_capacity(count);
    for _ in 0..count {
        sketches.push(sketch(&next_set(stream).await));
    }
    sketches
}
