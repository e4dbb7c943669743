//! What remains of the past.

use std::sync::Arc;

use rhumb_store::{Error, Range, Revision, Store};

use crate::Harness;
use crate::support::{all, delete, get, next_set, put, sketches};

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
    let range = store.range(Range::prefix("/a/").at(first)).await;
    assert!(is_compacted(&range), "{range:?}");
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

/// Row 10: a complete stream or a refusal, never a gap.
pub async fn a_running_stream_survives_compaction_or_says_so(harness: &mut impl Harness) {
    let store = harness.store();
    let start = store.revision().await.expect("the revision");
    let mut stream = store.changes("/a/", start).await.expect("a stream");
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            for index in 0..300 {
                revisions.push(put(&*store, "/a/x", &index.to_string()).await);
                if index % 50 == 49 {
                    let back = revisions[index - 20];
                    store.compact(back).await.expect("a compaction");
                }
            }
            revisions
        })
    };
    let mut seen = Vec::new();
    while seen.len() < 300 {
        match stream.next().await {
            Ok(rhumb_store::ChangeEvent::Changes(set)) => seen.push(set.revision),
            Ok(event) => panic!("{event:?}"),
            Err(Error::Compacted { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let written = writer.await.expect("the writer");
    assert_eq!(seen, written[..seen.len()]);
    let mut now = store.changes("/a/", written[299]).await.expect("a stream");
    put(&*store, "/a/end", "").await;
    assert_eq!(sketches(&mut *now, 1).await, ["+/a/end="]);
}
