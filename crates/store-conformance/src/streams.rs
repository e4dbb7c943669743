//! Cases about change streams: completeness, order, atomicity, progress.

use std::sync::Arc;
use std::time::Duration;

use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, Error, ExpectedRevision, RangeRequest, Revision,
    Store, Transaction,
};

use crate::ConformanceBackend;
use crate::support::{all, delete, format_changes, next_event, next_formatted, next_set, put};

async fn stream(store: &dyn Store, prefix: &str, after: Revision) -> Box<dyn ChangeStream> {
    store.changes(prefix, after).await.expect("open stream")
}

async fn now(store: &dyn Store) -> Revision {
    store.revision().await.expect("read revision")
}

pub async fn a_stream_delivers_future_changes(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    put(&*store, "/a/old", "0").await;
    let mut stream = stream(&*store, "/a/", now(&*store).await).await;
    put(&*store, "/a/x", "1").await;
    put(&*store, "/a/x", "2").await;
    delete(&*store, "/a/x").await;
    assert_eq!(
        next_formatted(&mut *stream, 3).await,
        ["+/a/x=1", "~/a/x=2", "-/a/x"]
    );
}

pub async fn a_stream_delivers_past_changes(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/y", "2").await;
    let third = delete(&*store, "/a/x").await;
    let mut stream = stream(&*store, "/a/", first).await;
    put(&*store, "/a/z", "3").await;
    let past = [next_set(&mut *stream).await, next_set(&mut *stream).await];
    assert_eq!([past[0].revision, past[1].revision], [second, third]);
    assert_eq!(
        [format_changes(&past[0]), format_changes(&past[1])],
        ["+/a/y=2", "-/a/x"]
    );
    assert_eq!(next_formatted(&mut *stream, 1).await, ["+/a/z=3"]);
}

pub async fn a_stream_is_limited_to_its_prefix(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let start = now(&*store).await;
    let mut pods = stream(&*store, "/pods/", start).await;
    for key in ["/podsets/a", "/pods/a", "/pod", "/pods0", "/pods/b"] {
        put(&*store, key, "v").await;
    }
    assert_eq!(
        next_formatted(&mut *pods, 2).await,
        ["+/pods/a=v", "+/pods/b=v"]
    );
    let mut again = stream(&*store, "/pods/", start).await;
    assert_eq!(
        next_formatted(&mut *again, 2).await,
        ["+/pods/a=v", "+/pods/b=v"]
    );
}

pub async fn a_transaction_arrives_as_a_whole(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    put(&*store, "/a/y", "0").await;
    let start = now(&*store).await;
    let mut live = stream(&*store, "/", start).await;
    let mut part = stream(&*store, "/a/", start).await;
    let transaction = Transaction::new()
        .put("/a/x", "1", ExpectedRevision::Absent)
        .put("/b/z", "2", ExpectedRevision::Absent)
        .delete("/a/y", ExpectedRevision::Any);
    let revision = store.commit(transaction).await.expect("commit transaction");
    let mut past = stream(&*store, "/", start).await;
    for stream in [&mut live, &mut past] {
        let set = next_set(&mut **stream).await;
        assert_eq!(set.revision, revision);
        assert_eq!(
            format_changes(&set),
            "+/a/x=1 +/b/z=2 -/a/y",
            "order of the transaction"
        );
    }
    assert_eq!(format_changes(&next_set(&mut *part).await), "+/a/x=1 -/a/y");
}

pub async fn creation_and_update_are_distinguishable(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let mut stream = stream(&*store, "/a/", now(&*store).await).await;
    put(&*store, "/a/x", "1").await;
    put(&*store, "/a/x", "2").await;
    delete(&*store, "/a/x").await;
    put(&*store, "/a/x", "3").await;
    let expected = ["+/a/x=1", "~/a/x=2", "-/a/x", "+/a/x=3"];
    assert_eq!(next_formatted(&mut *stream, 4).await, expected);
}

pub async fn a_stream_may_start_at_a_future_revision(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let current = put(&*store, "/a/x", "0").await;
    let future = Revision::new(current.get() + 2);
    let mut stream = stream(&*store, "/a/", future).await;
    let mut last = current;
    let mut expected = None;
    while expected.is_none() {
        let revision = put(&*store, "/a/x", &last.next().to_string()).await;
        expected = (revision > future).then_some(revision);
        last = revision;
    }
    assert_eq!(Some(next_set(&mut *stream).await.revision), expected);
}

pub async fn cancelling_next_loses_no_change(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let mut stream = stream(&*store, "/a/", now(&*store).await).await;
    let mut seen = Vec::new();
    for index in 0..50 {
        put(&*store, "/a/x", &index.to_string()).await;
        let wait = Duration::from_micros(index * 20);
        if let Ok(event) = tokio::time::timeout(wait, stream.next()).await {
            seen.push(revision_of(&event.expect("change event")));
        }
    }
    while seen.len() < 50 {
        seen.push(next_set(&mut *stream).await.revision);
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

fn revision_of(event: &ChangeStreamEvent) -> Revision {
    match event {
        ChangeStreamEvent::Changes(set) => set.revision,
        ChangeStreamEvent::Progress(_) => panic!("unexpected progress event"),
    }
}

pub async fn all_streams_see_the_same_order(harness: &mut impl ConformanceBackend) {
    const WRITERS: usize = 8;
    const WRITES: usize = 25;
    let store = harness.store();
    let start = now(&*store).await;
    let mut live = stream(&*store, "/a/", start).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for index in 0..WRITES {
                    put(
                        &*store,
                        &format!("/a/{}", index % 3),
                        &format!("{writer}.{index}"),
                    )
                    .await;
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    for _ in 0..WRITERS * WRITES {
        seen.push(next_set(&mut *live).await);
    }
    for writer in writers {
        writer.await.expect("writer task");
    }
    assert!(seen.is_sorted_by(|a, b| a.revision < b.revision));
    let mut past = stream(&*store, "/a/", start).await;
    for set in &seen {
        assert_eq!(&next_set(&mut *past).await, set);
    }
    let writer = |set: &ChangeSet| {
        format_changes(set)
            .split_once('=')
            .map(|(_, value)| value.to_owned())
    };
    for index in 0..WRITERS {
        let own = seen
            .iter()
            .filter_map(writer)
            .filter(|v| v.starts_with(&format!("{index}.")));
        let expected: Vec<_> = (0..WRITES)
            .map(|write| format!("{index}.{write}"))
            .collect();
        assert_eq!(own.collect::<Vec<_>>(), expected);
    }
}

/// Writes more than a stream buffers before the first change is read.
pub async fn a_slow_stream_misses_nothing(harness: &mut impl ConformanceBackend) {
    const WRITES: usize = 3000;
    let store = harness.store();
    let start = now(&*store).await;
    let mut stream = stream(&*store, "/a/", start).await;
    let value = "v".repeat(500);
    let mut expected = Vec::with_capacity(WRITES);
    for first in (0..WRITES).step_by(100) {
        let puts = (first..first + 100).map(|index| {
            let (store, value) = (Arc::clone(&store), value.clone());
            tokio::spawn(async move { put(&*store, &format!("/a/{index}"), &value).await })
        });
        for put in puts.collect::<Vec<_>>() {
            expected.push(put.await.expect("put task"));
        }
    }
    expected.sort();
    for revision in expected {
        assert_eq!(next_set(&mut *stream).await.revision, revision);
    }
}

/// Lists during concurrent writes, then applies the stream from that revision: the result must equal the stored state.
pub async fn a_stream_from_a_range_revision_has_no_gap(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for index in 0..60 {
                    let key = format!("/a/{}", (index * 7 + writer) % 10);
                    if index % 5 == 4 {
                        delete(&*store, &key).await;
                    } else {
                        put(&*store, &key, &format!("{writer}.{index}")).await;
                    }
                }
            })
        })
        .collect();
    while all(&*store, "/a/").await.is_empty() {
        tokio::task::yield_now().await;
    }
    let page = store
        .range(RangeRequest::prefix("/a/"))
        .await
        .expect("range read");
    let mut stream = stream(&*store, "/", page.revision).await;
    for writer in writers {
        writer.await.expect("writer task");
    }
    put(&*store, "/end", "").await;
    let mut state: std::collections::BTreeMap<_, _> = page
        .entries
        .iter()
        .map(|e| (e.key.to_string(), crate::support::text(e)))
        .collect();
    loop {
        let set = next_set(&mut *stream).await;
        if &**set.changes[0].key() == "/end" {
            break;
        }
        for change in format_changes(&set).split(' ') {
            match change.split_once('=') {
                Some((key, value)) => state.insert(key[1..].to_owned(), value.to_owned()),
                None => state.remove(&change[1..]),
            };
        }
    }
    assert_eq!(
        state.into_iter().collect::<Vec<_>>(),
        all(&*store, "/a/").await
    );
}

pub async fn requested_progress_is_reported(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let mut stream = stream(&*store, "/a/", now(&*store).await).await;
    let change = put(&*store, "/a/x", "1").await;
    let elsewhere = put(&*store, "/b/y", "2").await;
    let requested = stream.request_progress().await;
    if !harness.supports_progress() {
        assert!(
            matches!(requested, Err(Error::Unsupported { .. })),
            "{requested:?}"
        );
        return;
    }
    requested.expect("progress request");
    let mut delivered = Revision::ZERO;
    loop {
        match next_event(&mut *stream).await {
            ChangeStreamEvent::Changes(set) => delivered = set.revision,
            ChangeStreamEvent::Progress(revision) => {
                assert!(revision >= delivered);
                assert_eq!(delivered, change, "progress came before a change it covers");
                assert!(revision >= elsewhere);
                break;
            }
        }
    }
    let later = put(&*store, "/a/x", "2").await;
    assert_eq!(next_set(&mut *stream).await.revision, later);
}

/// Many large transactions, streamed from the history: each arrives as one change set.
pub async fn large_past_transactions_arrive_as_a_whole(harness: &mut impl ConformanceBackend) {
    const PUTS: usize = 100;
    const TRANSACTIONS: usize = 12;
    let store = harness.store();
    let start = now(&*store).await;
    let value = "v".repeat(700);
    for round in 0..TRANSACTIONS {
        let puts = (0..PUTS).fold(Transaction::new(), |transaction, index| {
            transaction.put(
                format!("/a/{round}/{index}"),
                value.clone(),
                ExpectedRevision::Absent,
            )
        });
        store.commit(puts).await.expect("commit large transaction");
    }
    let mut stream = stream(&*store, "/a/", start).await;
    let mut last = start;
    for _ in 0..TRANSACTIONS {
        let set = next_set(&mut *stream).await;
        assert!(set.revision > last, "{} after {last}", set.revision);
        assert_eq!(set.changes.len(), PUTS);
        last = set.revision;
    }
}

/// The progress revision is never later than the revision of the store.
pub async fn progress_never_runs_ahead_of_the_store(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let current = put(&*store, "/a/x", "1").await;
    let future = Revision::new(current.get() + 1000);
    let mut stream = stream(&*store, "/a/", future).await;
    if stream.request_progress().await.is_err() {
        assert!(!harness.supports_progress());
        return;
    }
    match next_event(&mut *stream).await {
        ChangeStreamEvent::Progress(revision) => {
            assert!(
                revision >= current && revision <= now(&*store).await,
                "{revision}"
            );
        }
        ChangeStreamEvent::Changes(set) => panic!("unexpected change event: {set:?}"),
    }
}
