//! What remains of the past.

use std::sync::Arc;

use rhumb_store::{ChangeEvent, ChangeStream, Error, Range, Revision, Store};

use crate::Harness;
use crate::support::{PATIENCE, all, delete, get, next_set, put, sketches};

fn is_compacted<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Compacted { .. }))
}

async fn compact(store: &dyn Store, revision: Revision) {
    store.compact(revision).await.expect("a compaction");
}

pub async fn compaction_keeps_current_entries(harness: &mut impl Harness) {
    let store = harness.store();
    for round in 0..5 {
        for key in ["/a/x", "/a/y", "/a/z"] {
            put(&*store, key, &format!("{key}{round}")).await;
        }
    }
    delete(&*store, "/a/y").await;
    let (before, x) = (all(&*store, "/a/").await, get(&*store, "/a/x").await);
    compact(&*store, store.revision().await.expect("the revision")).await;
    assert_eq!(all(&*store, "/a/").await, before);
    assert_eq!(get(&*store, "/a/x").await, x);
    assert_eq!(get(&*store, "/a/y").await, None);
    put(&*store, "/a/y", "again").await;
    let y = get(&*store, "/a/y").await.expect("the entry");
    assert_eq!(y.created, y.modified);
}

pub async fn what_is_compacted_is_refused(harness: &mut impl Harness) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    let third = put(&*store, "/a/x", "3").await;
    compact(&*store, second).await;
    match store.range(Range::prefix("/a/").at(first)).await {
        Err(Error::Compacted { requested, oldest }) => {
            assert_eq!(requested, first);
            assert!(oldest > first && oldest <= second, "{oldest}");
        }
        other => panic!("what is compacted was read: {other:?}"),
    }
    let stream = store.changes("/a/", first).await;
    assert!(is_compacted(&stream), "{stream:?}");
    let stream = store.changes("/a/", Revision::ZERO).await;
    assert!(is_compacted(&stream), "{stream:?}");
    let page = store
        .range(Range::prefix("/a/").at(second))
        .await
        .expect("still there");
    assert_eq!(&page.entries[0].value[..], b"2");
    let mut stream = store.changes("/a/", second).await.expect("a stream");
    assert_eq!(next_set(&mut *stream).await.revision, third);
}

/// etcd once lost it (etcd-io/etcd#19179).
pub async fn a_deletion_at_the_compacted_revision_is_not_lost(harness: &mut impl Harness) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let deletion = delete(&*store, "/a/x").await;
    let later = put(&*store, "/a/y", "2").await;
    compact(&*store, deletion).await;
    let before = store.changes("/a/", first).await;
    assert!(
        is_compacted(&before),
        "a stream that cannot tell the deletion: {before:?}"
    );
    let mut after = store.changes("/a/", deletion).await.expect("a stream");
    assert_eq!(next_set(&mut *after).await.revision, later);
    let page = store
        .range(Range::prefix("/a/").at(deletion))
        .await
        .expect("a range");
    assert_eq!(page.entries.len(), 0);
}

pub async fn compacting_twice_is_harmless(harness: &mut impl Harness) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    compact(&*store, second).await;
    compact(&*store, second).await;
    compact(&*store, first).await;
    let range = store.range(Range::prefix("/a/").at(first)).await;
    assert!(is_compacted(&range), "{range:?}");
}

pub async fn the_future_cannot_be_compacted(harness: &mut impl Harness) {
    let store = harness.store();
    let current = put(&*store, "/a/x", "1").await;
    let result = store.compact(Revision::new(current.get() + 100)).await;
    assert!(
        matches!(result, Err(Error::FutureRevision { .. })),
        "{result:?}"
    );
    store
        .range(Range::prefix("/a/").at(current))
        .await
        .expect("nothing was compacted");
}

/// A stream that has told everything loses nothing by a compaction.
pub async fn a_stream_that_keeps_up_survives_compaction(harness: &mut impl Harness) {
    let store = harness.store();
    let start = put(&*store, "/a/x", "0").await;
    let mut stream = store.changes("/a/", start).await.expect("a stream");
    for _ in 0..5 {
        put(&*store, "/a/x", "1").await;
        let last = delete(&*store, "/a/x").await;
        assert_eq!(sketches(&mut *stream, 2).await[1], "-/a/x");
        compact(&*store, last).await;
    }
}

/// Row 10: a complete stream or a refusal, never a gap, not even where the gap is a deletion.
pub async fn a_running_stream_survives_compaction_or_says_so(harness: &mut impl Harness) {
    const CHANGES: usize = 300;
    let store = harness.store();
    let start = store.revision().await.expect("the revision");
    let mut stream = store.changes("/a/", start).await.expect("a stream");
    let writer = tokio::spawn(write_and_compact(Arc::clone(&store), CHANGES));
    let seen = revisions_until_compacted(&mut *stream, CHANGES).await;
    let written = writer.await.expect("the writer");
    assert_eq!(seen, written[..seen.len()]);
    let mut now = store
        .changes("/a/", written[CHANGES - 1])
        .await
        .expect("a stream");
    put(&*store, "/a/end", "").await;
    assert_eq!(sketches(&mut *now, 1).await, ["+/a/end="]);
}

/// A stream that is read only after far more has happened than is kept for it, and compacted.
pub async fn a_stream_that_lags_behind_compaction_has_no_gap(harness: &mut impl Harness) {
    const WRITES: usize = 1500;
    let store = harness.store();
    let start = put(&*store, "/a/x", "0").await;
    let mut stream = store.changes("/a/", start).await.expect("a stream");
    let value = "v".repeat(500);
    let mut written = Vec::with_capacity(WRITES);
    for first in (0..WRITES).step_by(50) {
        let puts = (first..first + 50).map(|index| {
            let (store, value) = (Arc::clone(&store), value.clone());
            tokio::spawn(async move { put(&*store, &format!("/a/{}", index % 7), &value).await })
        });
        for put in puts.collect::<Vec<_>>() {
            written.push(put.await.expect("a put"));
        }
    }
    written.sort();
    compact(&*store, written[WRITES - 10]).await;
    // Gives the store time to remove what it has given up.
    for _ in 0..20 {
        put(&*store, "/b/other", "x").await;
    }
    let seen = revisions_until_compacted(&mut *stream, WRITES).await;
    assert_eq!(seen, written[..seen.len()], "complete, or a refusal");
}

/// The revisions of the next `count` changes, or of those that come before the stream is refused.
async fn revisions_until_compacted(stream: &mut dyn ChangeStream, count: usize) -> Vec<Revision> {
    let mut seen = Vec::new();
    while seen.len() < count {
        match tokio::time::timeout(PATIENCE, stream.next())
            .await
            .expect("an event in time")
        {
            Ok(ChangeEvent::Changes(set)) => seen.push(set.revision),
            Ok(event) => panic!("{event:?}"),
            Err(Error::Compacted { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    seen
}

/// Puts and deletes one key in turn, and compacts to where a slow reader may still be.
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
