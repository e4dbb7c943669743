//! Helpers of the conformance cases.

use std::time::Duration;

use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, ExpectedRevision, KeyChange, RangeRequest,
    Revision, Store, StoreEntry, Transaction,
};

/// Timeout of a single event, long enough for a busy machine.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    let transaction = Transaction::new().put(key, value.to_owned(), ExpectedRevision::Any);
    store
        .commit(transaction)
        .await
        .expect("commit unconditional put")
}

pub(crate) async fn delete(store: &dyn Store, key: &str) -> Revision {
    let transaction = Transaction::new().delete(key, ExpectedRevision::Any);
    store
        .commit(transaction)
        .await
        .expect("commit unconditional deletion")
}

pub(crate) async fn get(store: &dyn Store, key: &str) -> Option<StoreEntry> {
    store.get(key).await.expect("read entry")
}

pub(crate) async fn value_of(store: &dyn Store, key: &str) -> Option<String> {
    get(store, key).await.map(|entry| text(&entry))
}

pub(crate) fn text(entry: &StoreEntry) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}

/// All keys below a prefix with their values.
pub(crate) async fn all(store: &dyn Store, prefix: &str) -> Vec<(String, String)> {
    let page = store
        .range(RangeRequest::prefix(prefix))
        .await
        .expect("range read");
    let pair = |entry: &StoreEntry| (entry.key.to_string(), text(entry));
    page.entries.iter().map(pair).collect()
}

/// Waits for the next change set.
pub(crate) async fn next_set(stream: &mut dyn ChangeStream) -> ChangeSet {
    match next_event(stream).await {
        ChangeStreamEvent::Changes(set) => set,
        ChangeStreamEvent::Progress(revision) => panic!("unexpected progress event at {revision}"),
    }
}

pub(crate) async fn next_event(stream: &mut dyn ChangeStream) -> ChangeStreamEvent {
    tokio::time::timeout(EVENT_TIMEOUT, stream.next())
        .await
        .expect("event within the timeout")
        .expect("change event")
}

/// Formats changes as `+key=value` (created), `~key=value` (updated) or `-key` (deleted).
pub(crate) fn format_changes(set: &ChangeSet) -> String {
    let one = |change: &KeyChange| match change {
        KeyChange::Put {
            key,
            value,
            created,
        } => {
            let mark = if *created == set.revision { '+' } else { '~' };
            format!("{mark}{key}={}", String::from_utf8_lossy(value))
        }
        KeyChange::Delete { key } => format!("-{key}"),
    };
    let changes: Vec<_> = set.changes.iter().map(one).collect();
    changes.join(" ")
}

/// Reads the next `count` change sets and formats them.
pub(crate) async fn next_formatted(stream: &mut dyn ChangeStream, count: usize) -> Vec<String> {
    let mut formatted = Vec::with_capacity(count);
    for _ in 0..count {
        formatted.push(format_changes(&next_set(stream).await));
    }
    formatted
}
