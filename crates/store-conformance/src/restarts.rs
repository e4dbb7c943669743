//! Cases about restarts: entries, revisions, history and compaction persist.

use rhumb_store::{Error, ExpectedRevision, RangeRequest, Transaction};

use crate::ConformanceBackend;
use crate::support::{all, delete, get, next_formatted, put};

pub async fn all_writes_survive_a_restart(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    for index in 0..20 {
        put(&*store, &format!("/a/{index:02}"), &index.to_string()).await;
    }
    put(&*store, "/a/03", "changed").await;
    delete(&*store, "/a/04").await;
    let (before, entry) = (all(&*store, "/a/").await, get(&*store, "/a/03").await);
    drop(store);
    harness.restart().await;
    let store = harness.store();
    assert_eq!(all(&*store, "/a/").await, before);
    assert_eq!(get(&*store, "/a/03").await, entry);
    let revision = entry.expect("entry exists").modified;
    let update = Transaction::new().put("/a/03", "again", ExpectedRevision::At(revision));
    store
        .commit(update)
        .await
        .expect("commit update after the restart");
}

pub async fn revisions_continue_after_a_restart(harness: &mut impl ConformanceBackend) {
    let mut last = put(&*harness.store(), "/a/x", "0").await;
    for round in 0..3 {
        // The latest revision may be that of a compacted deletion: it must not be reused either.
        let store = harness.store();
        last = last.max(put(&*store, "/a/y", "1").await);
        last = last.max(delete(&*store, "/a/y").await);
        store.compact(last).await.expect("compact");
        drop(store);
        harness.restart().await;
        let store = harness.store();
        assert!(store.revision().await.expect("read revision") >= last);
        let next = put(&*store, "/a/x", "1").await;
        assert!(next > last, "round {round}: {next} after {last}");
        last = next;
    }
}

pub async fn a_stream_resumes_from_before_a_restart(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let seen = put(&*store, "/a/x", "1").await;
    put(&*store, "/a/x", "2").await;
    delete(&*store, "/a/x").await;
    drop(store);
    harness.restart().await;
    let store = harness.store();
    let mut stream = store.changes("/a/", seen).await.expect("open stream");
    put(&*store, "/a/y", "3").await;
    let expected = ["~/a/x=2", "-/a/x", "+/a/y=3"];
    assert_eq!(next_formatted(&mut *stream, 3).await, expected);
}

pub async fn compaction_holds_after_a_restart(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    store.compact(second).await.expect("compact");
    drop(store);
    harness.restart().await;
    let store = harness.store();
    let stream = store.changes("/a/", first).await;
    assert!(matches!(stream, Err(Error::Compacted { .. })), "{stream:?}");
    let range = store.range(RangeRequest::prefix("/a/").at(first)).await;
    assert!(matches!(range, Err(Error::Compacted { .. })), "{range:?}");
    assert_eq!(all(&*store, "/a/").await, [("/a/x".into(), "2".into())]);
}
