//! Cases about compaction and the history that remains after it.

use std::sync::Arc;

use rhumb_store::{ChangeStream, ChangeStreamEvent, Error, RangeRequest, Revision, Store};

use crate::ConformanceBackend;
use crate::support::{EVENT_TIMEOUT, all, delete, get, next_formatted, next_set, put};

fn is_compacted<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Compacted { .. }))
}

async fn compact(store: &dyn Store, revision: Revision) {
    store.compact(revision).await.expect("compact");
}

pub async fn compaction_keeps_current_entries(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    for round in 0..5 {
        for key in ["/a/x", "/a/y", "/a/z"] {
            put(&*store, key, &format!("{key}{round}")).await;
        }
    }
    delete(&*store, "/a/y").await;
    let (before, x) = (all(&*store, "/a/").await, get(&*store, "/a/x").await);
    compact(&*store, store.revision().await.expect("read revision")).await;
    assert_eq!(all(&*store, "/a/").await, before);
    assert_eq!(get(&*store, "/a/x").await, x);
    assert_eq!(get(&*store, "/a/y").await, None);
    put(&*store, "/a/y", "again").await;
    let y = get(&*store, "/a/y").await.expect("entry exists");
    assert_eq!(y.created, y.modified);
}

pub async fn compacted_revisions_are_rejected(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    let third = put(&*store, "/a/x", "3").await;
    compact(&*store, second).await;
    match store.range(RangeRequest::prefix("/a/").at(first)).await {
        Err(Error::Compacted { requested, oldest }) => {
            assert_eq!(requested, first);
            assert!(oldest > first && oldest <= second, "{oldest}");
        }
        other => panic!("expected Compacted, got {other:?}"),
    }
    let stream = store.changes("/a/", first).await;
    assert!(is_compacted(&stream), "{stream:?}");
    let stream = store.changes("/a/", Revision::ZERO).await;
    assert!(is_compacted(&stream), "{stream:?}");
    let page = store
        .range(RangeRequest::prefix("/a/").at(second))
        .await
        .expect("revision is not compacted");
    assert_eq!(&page.entries[0].value[..], b"2");
    let mut stream = store.changes("/a/", second).await.expect("open stream");
    assert_eq!(next_set(&mut *stream).await.revision, third);
}

/// Older etcd versions lose the deletion (etcd-io/etcd#19179).
pub async fn a_deletion_at_the_compacted_revision_is_not_lost(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let deletion = delete(&*store, "/a/x").await;
    let later = put(&*store, "/a/y", "2").await;
    compact(&*store, deletion).await;
    let before = store.changes("/a/", first).await;
    assert!(
        is_compacted(&before),
        "a stream without the deletion: {before:?}"
    );
    let mut after = store.changes("/a/", deletion).await.expect("open stream");
    assert_eq!(next_set(&mut *after).await.revision, later);
    let page = store
        .range(RangeRequest::prefix("/a/").at(deletion))
        .await
        .expect("range read");
    assert_eq!(page.entries.len(), 0);
}

pub async fn compacting_twice_is_harmless(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    compact(&*store, second).await;
    compact(&*store, second).await;
    compact(&*store, first).await;
    let range = store.range(RangeRequest::prefix("/a/").at(first)).await;
    assert!(is_compacted(&range), "{range:?}");
}

pub async fn future_revisions_cannot_be_compacted(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let current = put(&*store, "/a/x", "1").await;
    let result = store.compact(Revision::new(current.get() + 100)).await;
    assert!(
        matches!(result, Err(Error::FutureRevision { .. })),
        "{result:?}"
    );
    store
        .range(RangeRequest::prefix("/a/").at(current))
        .await
        .expect("revision is not compacted");
}

/// A compaction does not affect a stream that has delivered everything.
pub async fn a_stream_that_keeps_up_survives_compaction(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let start = put(&*store, "/a/x", "0").await;
    let mut stream = store.changes("/a/", start).await.expect("open stream");
    for _ in 0..5 {
        put(&*store, "/a/x", "1").await;
        let last = delete(&*store, "/a/x").await;
        assert_eq!(next_formatted(&mut *stream, 2).await[1], "-/a/x");
        compact(&*store, last).await;
    }
}

/// Row 10: the stream is complete or ends with `Compacted`; it never has a gap, not even for a deletion.
pub async fn a_running_stream_survives_compaction_or_reports_it(
    harness: &mut impl ConformanceBackend,
) {
    const CHANGES: usize = 300;
    let store = harness.store();
    let start = store.revision().await.expect("read revision");
    let mut stream = store.changes("/a/", start).await.expect("open stream");
    let writer = tokio::spawn(write_and_compact(Arc::clone(&store), CHANGES));
    let seen = revisions_until_compacted(&mut *stream, CHANGES).await;
    let written = writer.await.expect("writer task");
    assert_eq!(seen, written[..seen.len()]);
    let mut now = store
        .changes("/a/", written[CHANGES - 1])
        .await
        .expect("open stream");
    put(&*store, "/a/end", "").await;
    assert_eq!(next_formatted(&mut *now, 1).await, ["+/a/end="]);
}

/// A stream that is read only after more changes than its buffer holds were written and compacted.
pub async fn a_stream_that_lags_behind_compaction_has_no_gap(
    harness: &mut impl ConformanceBackend,
) {
    const WRITES: usize = 1500;
    let store = harness.store();
    let start = put(&*store, "/a/x", "0").await;
    let mut stream = store.changes("/a/", start).await.expect("open stream");
    let value = "v".repeat(500);
    let mut written = Vec::with_capacity(WRITES);
    for first in (0..WRITES).step_by(50) {
        let puts = (first..first + 50).map(|index| {
            let (store, value) = (Arc::clone(&store), value.clone());
            tokio::spawn(async move { put(&*store, &format!("/a/{}", index % 7), &value).await })
        });
        for put in puts.collect::<Vec<_>>() {
            written.push(put.await.expect("put task"));
        }
    }
    written.sort();
    compact(&*store, written[WRITES - 10]).await;
    // Give the store time to remove compacted data.
    for _ in 0..20 {
        put(&*store, "/b/other", "x").await;
    }
    let seen = revisions_until_compacted(&mut *stream, WRITES).await;
    assert_eq!(
        seen,
        written[..seen.len()],
        "the stream is complete or ends with Compacted"
    );
}

/// The revisions of the next `count` change sets, or of those before the stream ends with `Compacted`.
async fn revisions_until_compacted(stream: &mut dyn ChangeStream, count: usize) -> Vec<Revision> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match tokio::time::timeout(EVENT_TIMEOUT, stream.next())
            .await
            .expect("event within the timeout")
        {
            Ok(ChangeStreamEvent::Changes(set)) => seen.push(set.revision),
            Ok(event) => panic!("{event:?}"),
            Err(Error::Compacted { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    seen
}

/// Puts and deletes one key alternately, and compacts to a revision that a slow reader may not have read yet.
async fn write_and_compact(store: Arc<dyn Store>, changes: usize) -> Vec<Revision> {
    let mut revisions = Vec::with_capacity(changes);
    for index in 0..changes {
        let revision = if index % 2 == 0 {
            put(&*store, "/a/x", &index.to_string()).await
        } else {
            delete(&*store, "/a/x").await
        };
        revisions.push(revision);
        if index % 50 == 49 {
            compact(&*store, revisions[index - 20]).await;
        }
    }
    revisions
}
