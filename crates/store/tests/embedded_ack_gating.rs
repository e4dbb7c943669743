//! Commit acknowledgement of the embedded store: a commit returns when the reader of the gating stream has processed
//! its changes.

use std::time::Duration;

use rhumb_store::embedded::{EmbeddedOptions, EmbeddedStore};
use rhumb_store::{
    ChangeStream, ChangeStreamEvent, Error, ExpectedRevision, Revision, Store, Transaction,
};
use tempfile::TempDir;
use tokio::time::timeout;

/// Timeout for responses that must arrive.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Long enough for a commit that does not wait for a reader.
const SHORT_WAIT: Duration = Duration::from_millis(50);

fn put(key: &str) -> Transaction {
    Transaction::new().put(key, "x", ExpectedRevision::Any)
}

async fn new_store() -> (TempDir, EmbeddedStore) {
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store = EmbeddedStore::open(directory.path(), EmbeddedOptions::default()).await;
    (directory, store.expect("create store"))
}

/// The revision of the next change.
async fn next(stream: &mut dyn ChangeStream) -> Revision {
    match stream.next().await.expect("change event") {
        ChangeStreamEvent::Changes(set) => set.revision,
        ChangeStreamEvent::Progress(_) => panic!("unexpected progress event"),
    }
}

#[tokio::test]
async fn a_commit_waits_until_the_gating_reader_polls_again() {
    let (_directory, store) = new_store().await;
    let start = store.revision().await.expect("read revision");
    let mut stream = store
        .changes_gating_commits("/k/", start)
        .await
        .expect("open stream");
    // The stream gates commits only after the first read.
    timeout(RESPONSE_TIMEOUT, store.commit(put("/k/first")))
        .await
        .expect("response in time")
        .expect("commit write");
    next(&mut *stream).await;

    let mut second = Box::pin(store.commit(put("/k/second")));
    assert!(
        timeout(SHORT_WAIT, &mut second).await.is_err(),
        "the commit waits for the reader"
    );
    let found = store.get("/k/second").await.expect("read entry");
    assert!(found.is_some(), "a durable write is readable");
    let event = next(&mut *stream).await;
    assert!(
        timeout(SHORT_WAIT, &mut second).await.is_err(),
        "the commit still waits for the reader"
    );
    let next_event = timeout(SHORT_WAIT, stream.next()).await;
    assert!(next_event.is_err(), "unexpected further event");
    let answered = timeout(RESPONSE_TIMEOUT, second)
        .await
        .expect("response in time");
    assert_eq!(answered.expect("commit write"), event);
}

#[tokio::test]
async fn commits_outside_the_streams_prefix_do_not_wait() {
    let (_directory, store) = new_store().await;
    let start = store.revision().await.expect("read revision");
    let mut stream = store
        .changes_gating_commits("/k/", start)
        .await
        .expect("open stream");
    let reading = tokio::spawn(async move { next(&mut *stream).await });
    timeout(RESPONSE_TIMEOUT, store.commit(put("/elsewhere")))
        .await
        .expect("response in time")
        .expect("commit write");
    let lost = Transaction::new().put("/elsewhere", "x", ExpectedRevision::Absent);
    let refused = timeout(RESPONSE_TIMEOUT, store.commit(lost)).await;
    let refused = refused.expect("response in time");
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    reading.abort();
}

#[tokio::test]
async fn a_dropped_or_stalled_gating_reader_does_not_block_commits() {
    let (_directory, store) = new_store().await;
    let start = store.revision().await.expect("read revision");
    let mut stream = store
        .changes_gating_commits("/k/", start)
        .await
        .expect("open stream");
    assert!(timeout(SHORT_WAIT, stream.next()).await.is_err());
    let mut write = Box::pin(store.commit(put("/k/x")));
    assert!(
        timeout(SHORT_WAIT, &mut write).await.is_err(),
        "the commit waits for the reader"
    );
    drop(stream);
    timeout(RESPONSE_TIMEOUT, write)
        .await
        .expect("response in time")
        .expect("commit write");

    let now = store.revision().await.expect("read revision");
    let mut hanging = store
        .changes_gating_commits("/k/", now)
        .await
        .expect("open stream");
    assert!(timeout(SHORT_WAIT, hanging.next()).await.is_err());
    timeout(RESPONSE_TIMEOUT, store.commit(put("/k/y")))
        .await
        .expect("response after the ack timeout")
        .expect("commit write");
}
