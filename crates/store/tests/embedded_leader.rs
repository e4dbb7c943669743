//! Writers of the embedded store are answered when the reader of the leading stream has dealt with what they wrote.

use std::time::Duration;

use rhumb_store::embedded::{Embedded, Options};
use rhumb_store::{ChangeEvent, ChangeStream, Error, Expect, Revision, Store, Transaction};
use tempfile::TempDir;
use tokio::time::timeout;

/// Far longer than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for an answer that does not wait.
const MOMENT: Duration = Duration::from_millis(50);

fn put(key: &str) -> Transaction {
    Transaction::new().put(key, "x", Expect::Any)
}

async fn new_store() -> (TempDir, Embedded) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Embedded::open(directory.path(), Options::default()).await;
    (directory, store.expect("a new store"))
}

/// The revision of the next change.
async fn next(stream: &mut dyn ChangeStream) -> Revision {
    match stream.next().await.expect("a change") {
        ChangeEvent::Changes(set) => set.revision,
        ChangeEvent::Progress(_) => panic!("nobody asked"),
    }
}

#[tokio::test]
async fn a_writer_waits_until_the_reader_asks_for_more() {
    let (_directory, store) = new_store().await;
    let start = store.revision().await.expect("the revision");
    let mut stream = store.lead("/k/", start).await.expect("a stream");
    // It leads only once somebody reads it.
    timeout(PATIENCE, store.commit(put("/k/first")))
        .await
        .expect("an answer")
        .expect("a write");
    next(&mut *stream).await;

    let mut second = Box::pin(store.commit(put("/k/second")));
    assert!(timeout(MOMENT, &mut second).await.is_err(), "it waits");
    let found = store.get("/k/second").await.expect("a read");
    assert!(found.is_some(), "what is durable can be read");
    let told = next(&mut *stream).await;
    assert!(
        timeout(MOMENT, &mut second).await.is_err(),
        "it still waits"
    );
    let asking = timeout(MOMENT, stream.next()).await;
    assert!(asking.is_err(), "there is no more");
    let answered = timeout(PATIENCE, second).await.expect("an answer");
    assert_eq!(answered.expect("a write"), told);
}

#[tokio::test]
async fn what_the_reader_does_not_see_is_not_waited_for() {
    let (_directory, store) = new_store().await;
    let start = store.revision().await.expect("the revision");
    let mut stream = store.lead("/k/", start).await.expect("a stream");
    let reading = tokio::spawn(async move { next(&mut *stream).await });
    timeout(PATIENCE, store.commit(put("/elsewhere")))
        .await
        .expect("an answer")
        .expect("a write");
    let lost = Transaction::new().put("/elsewhere", "x", Expect::Absent);
    let refused = timeout(PATIENCE, store.commit(lost)).await;
    let refused = refused.expect("an answer");
    assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    reading.abort();
}

#[tokio::test]
async fn a_reader_that_goes_or_hangs_holds_nobody() {
    let (_directory, store) = new_store().await;
    let start = store.revision().await.expect("the revision");
    let mut stream = store.lead("/k/", start).await.expect("a stream");
    assert!(timeout(MOMENT, stream.next()).await.is_err());
    let mut write = Box::pin(store.commit(put("/k/x")));
    assert!(timeout(MOMENT, &mut write).await.is_err(), "it waits");
    drop(stream);
    timeout(PATIENCE, write)
        .await
        .expect("an answer")
        .expect("a write");

    let now = store.revision().await.expect("the revision");
    let mut hanging = store.lead("/k/", now).await.expect("a stream");
    assert!(timeout(MOMENT, hanging.next()).await.is_err());
    timeout(PATIENCE, store.commit(put("/k/y")))
        .await
        .expect("an answer, in the end")
        .expect("a write");
}
