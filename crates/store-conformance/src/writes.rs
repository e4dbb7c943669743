//! Cases about transactions: preconditions, atomicity, revisions, limits.

use std::sync::Arc;

use bytes::Bytes;
use rhumb_store::{
    Error, ExpectedRevision, OPERATIONS_MAX, RangeRequest, Revision, RevisionConflict, Store,
    Transaction, VALUE_BYTES_MAX,
};
use tokio::task::JoinSet;

use crate::ConformanceBackend;
use crate::support::{all, delete, get, put, value_of};

fn conflict<T: std::fmt::Debug>(result: Result<T, Error>) -> RevisionConflict {
    match result {
        Err(Error::Conflict(conflict)) => *conflict,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

pub async fn a_key_is_created_only_once(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let create =
        |value: &'static str| Transaction::new().put("/a/x", value, ExpectedRevision::Absent);
    let revision = store
        .commit(create("first"))
        .await
        .expect("commit creation");
    let entry = get(&*store, "/a/x").await.expect("entry exists");
    assert_eq!((entry.created, entry.modified), (revision, revision));
    conflict(store.commit(create("second")).await);
    assert_eq!(value_of(&*store, "/a/x").await.as_deref(), Some("first"));
}

pub async fn an_update_requires_the_current_revision(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let update = |at| Transaction::new().put("/a/x", "2", ExpectedRevision::At(at));
    let second = store.commit(update(first)).await.expect("commit update");
    assert!(second > first);
    conflict(store.commit(update(first)).await);
    conflict(store.commit(update(second.next())).await);
    let elsewhere = Transaction::new().put("/a/none", "2", ExpectedRevision::At(second));
    assert_eq!(conflict(store.commit(elsewhere).await).found, None);
    let before_everything =
        Transaction::new().put("/a/none", "2", ExpectedRevision::At(Revision::ZERO));
    assert_eq!(conflict(store.commit(before_everything).await).found, None);
    assert_eq!(all(&*store, "/a/").await, [("/a/x".into(), "2".into())]);
}

pub async fn a_deletion_requires_the_current_revision(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    let delete = |at| Transaction::new().delete("/a/x", ExpectedRevision::At(at));
    conflict(store.commit(delete(first)).await);
    let third = store.commit(delete(second)).await.expect("commit deletion");
    assert!(third > second);
    assert_eq!(get(&*store, "/a/x").await, None);
    assert_eq!(conflict(store.commit(delete(second)).await).found, None);
}

pub async fn a_conflict_returns_the_current_entry(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let (x, y) = (
        put(&*store, "/a/x", "1").await,
        put(&*store, "/a/y", "2").await,
    );
    let transaction = Transaction::new()
        .put("/a/x", "n", ExpectedRevision::At(x))
        .put("/a/y", "n", ExpectedRevision::Absent)
        .put("/a/z", "n", ExpectedRevision::At(x));
    let found = conflict(store.commit(transaction).await);
    assert_eq!(&*found.key, "/a/y");
    let entry = found.found.expect("conflict has the current entry");
    assert_eq!(
        (&entry.value[..], entry.modified, entry.created),
        (&b"2"[..], y, y)
    );
}

pub async fn deleting_a_missing_key_has_no_effect(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let before = put(&*store, "/a/x", "1").await;
    let mut stream = store.changes("/a/", before).await.expect("open stream");
    let revision = delete(&*store, "/a/none").await;
    assert!(revision >= before);
    let after = put(&*store, "/a/y", "2").await;
    let set = crate::support::next_set(&mut *stream).await;
    assert_eq!((set.revision, &**set.changes[0].key()), (after, "/a/y"));
}

pub async fn the_creation_revision_is_kept_until_the_key_is_deleted(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let first = put(&*store, "/a/x", "1").await;
    let second = put(&*store, "/a/x", "2").await;
    let entry = get(&*store, "/a/x").await.expect("entry exists");
    assert_eq!((entry.created, entry.modified), (first, second));
    delete(&*store, "/a/x").await;
    let third = put(&*store, "/a/x", "3").await;
    let entry = get(&*store, "/a/x").await.expect("entry exists");
    assert_eq!((entry.created, entry.modified), (third, third));
}

pub async fn revisions_increase_across_all_keys(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let mut last = store.revision().await.expect("read revision");
    assert!(last > Revision::ZERO);
    for key in ["/a/x", "/b/y", "/a/x", "/c/z"] {
        let revision = put(&*store, key, "v").await;
        assert!(revision > last, "{revision} after {last}");
        assert!(store.revision().await.expect("read revision") >= revision);
        last = revision;
    }
    assert!(delete(&*store, "/a/x").await > last);
}

pub async fn a_transaction_has_one_revision(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    put(&*store, "/b/gone", "0").await;
    let transaction = Transaction::new()
        .put("/a/x", "1", ExpectedRevision::Absent)
        .delete("/b/gone", ExpectedRevision::Any)
        .put("/c/z", "2", ExpectedRevision::Absent);
    let revision = store.commit(transaction).await.expect("commit transaction");
    for key in ["/a/x", "/c/z"] {
        assert_eq!(
            get(&*store, key).await.expect("entry exists").modified,
            revision
        );
    }
    assert_eq!(get(&*store, "/b/gone").await, None);
}

pub async fn a_transaction_is_atomic(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    put(&*store, "/a/x", "1").await;
    let before = all(&*store, "/").await;
    let transaction = Transaction::new()
        .put("/a/new", "2", ExpectedRevision::Absent)
        .delete("/a/x", ExpectedRevision::Any)
        .put("/a/y", "3", ExpectedRevision::At(Revision::new(1)));
    conflict(store.commit(transaction).await);
    assert_eq!(all(&*store, "/").await, before);
}

pub async fn a_check_guards_the_other_operations(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let guard = put(&*store, "/guard", "open").await;
    let write = |value: &'static str| {
        Transaction::new()
            .check("/guard", ExpectedRevision::At(guard))
            .check("/other", ExpectedRevision::Absent)
            .put("/a/x", value, ExpectedRevision::Any)
    };
    store
        .commit(write("1"))
        .await
        .expect("commit with matching guard");
    assert_eq!(
        get(&*store, "/guard")
            .await
            .expect("guard key exists")
            .modified,
        guard
    );
    put(&*store, "/guard", "closed").await;
    assert_eq!(&*conflict(store.commit(write("2")).await).key, "/guard");
    assert_eq!(value_of(&*store, "/a/x").await.as_deref(), Some("1"));
}

pub async fn of_concurrent_updates_from_one_revision_one_succeeds(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    let revision = put(&*store, "/a/x", "start").await;
    let mut writers = JoinSet::new();
    for writer in 0..100 {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let value = format!("writer {writer}");
            let update =
                Transaction::new().put("/a/x", value.clone(), ExpectedRevision::At(revision));
            (value, store.commit(update).await)
        });
    }
    let mut winners = Vec::new();
    for (value, result) in writers.join_all().await {
        match result {
            Ok(_) => winners.push(value),
            Err(Error::Conflict(conflict)) => {
                assert!(
                    conflict
                        .found
                        .expect("conflict has the winner's entry")
                        .modified
                        > revision
                );
            }
            Err(error) => panic!("expected success or conflict, got: {error}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(value_of(&*store, "/a/x").await, winners.pop());
}

pub async fn concurrent_increments_are_never_lost(harness: &mut impl ConformanceBackend) {
    const WRITERS: usize = 16;
    const INCREMENTS: usize = 10;
    let store = harness.store();
    put(&*store, "/counter", "0").await;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            for _ in 0..INCREMENTS {
                increment(&*store).await;
            }
        });
    }
    writers.join_all().await;
    let total = (WRITERS * INCREMENTS).to_string();
    assert_eq!(value_of(&*store, "/counter").await, Some(total));
}

async fn increment(store: &dyn Store) {
    let mut entry = get(store, "/counter").await;
    loop {
        let current = entry.expect("counter exists");
        let count: u64 = crate::support::text(&current).parse().expect("number");
        let next = (count + 1).to_string();
        let update =
            Transaction::new().put("/counter", next, ExpectedRevision::At(current.modified));
        match store.commit(update).await {
            Ok(_) => return,
            Err(Error::Conflict(conflict)) => entry = conflict.found,
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn invalid_transactions_are_rejected(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let twice = Transaction::new()
        .put("/a", "1", ExpectedRevision::Any)
        .delete("/a", ExpectedRevision::Any);
    let too_many = (0..=OPERATIONS_MAX).fold(Transaction::new(), |transaction, index| {
        transaction.put(format!("/a/{index}"), "1", ExpectedRevision::Any)
    });
    for (name, transaction) in [
        ("empty", Transaction::new()),
        ("twice", twice),
        ("many", too_many),
    ] {
        let result = store.commit(transaction).await;
        assert!(
            matches!(result, Err(Error::InvalidTransaction { .. })),
            "{name}: {result:?}"
        );
    }
    for key in ["", "a\0b", &"k".repeat(5000)] {
        let put = Transaction::new().put(key, "1", ExpectedRevision::Any);
        assert!(matches!(
            store.commit(put).await,
            Err(Error::InvalidKey { .. })
        ));
        assert!(matches!(
            store.get(key).await,
            Err(Error::InvalidKey { .. })
        ));
    }
    for prefix in ["a\0b", &"k".repeat(5000)] {
        let range = store.range(RangeRequest::prefix(prefix)).await;
        assert!(matches!(range, Err(Error::InvalidKey { .. })), "{range:?}");
        let stream = store.changes(prefix, Revision::ZERO).await;
        assert!(
            matches!(stream, Err(Error::InvalidKey { .. })),
            "{stream:?}"
        );
    }
    assert_eq!(all(&*store, "/").await, []);
}

pub async fn the_largest_transaction_succeeds(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let transaction = (0..OPERATIONS_MAX).fold(Transaction::new(), |transaction, index| {
        transaction.put(format!("/a/{index:03}"), "1", ExpectedRevision::Absent)
    });
    let revision = store.commit(transaction).await.expect("commit transaction");
    let page = store
        .range(RangeRequest::prefix("/a/"))
        .await
        .expect("range read");
    assert_eq!(page.entries.len(), OPERATIONS_MAX);
    assert!(page.entries.iter().all(|entry| entry.modified == revision));
}

pub async fn values_round_trip_byte_for_byte(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let every_byte: Vec<u8> = (0..=255).collect();
    let megabyte: Vec<u8> = every_byte.iter().copied().cycle().take(1 << 20).collect();
    let values = [Bytes::new(), every_byte.into(), megabyte.into()];
    for (index, value) in values.iter().enumerate() {
        let key = format!("/ключ/{index}");
        let create = Transaction::new().put(&*key, value.clone(), ExpectedRevision::Absent);
        store.commit(create).await.expect("commit creation");
        assert_eq!(
            &get(&*store, &key).await.expect("entry exists").value,
            value
        );
    }
    let page = store
        .range(RangeRequest::prefix("/ключ/"))
        .await
        .expect("range read");
    let read: Vec<_> = page.entries.into_iter().map(|entry| entry.value).collect();
    assert_eq!(read, values);
}

pub async fn a_value_too_large_is_rejected_without_effect(harness: &mut impl ConformanceBackend) {
    let store = harness.store();
    let huge = Transaction::new().put(
        "/a/x",
        vec![b'x'; VALUE_BYTES_MAX + 1],
        ExpectedRevision::Any,
    );
    let result = store.commit(huge).await;
    assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
    assert_eq!(get(&*store, "/a/x").await, None);
    put(&*store, "/a/x", "small").await;
    assert_eq!(value_of(&*store, "/a/x").await.as_deref(), Some("small"));
}

/// A caller that drops its commit does not know the outcome, but the transaction is applied completely or not at all,
/// and later transactions work.
pub async fn a_cancelled_commit_is_applied_completely_or_not_at_all(
    harness: &mut impl ConformanceBackend,
) {
    let store = harness.store();
    for round in 0..30 {
        let value = round.to_string();
        let transaction = Transaction::new()
            .put("/a/left", value.clone(), ExpectedRevision::Any)
            .put("/a/right", value, ExpectedRevision::Any);
        let delay = std::time::Duration::from_micros(round * 50);
        let _ = tokio::time::timeout(delay, store.commit(transaction)).await;
    }
    let last = Transaction::new()
        .put("/a/left", "last", ExpectedRevision::Any)
        .put("/a/right", "last", ExpectedRevision::Any);
    let revision = store.commit(last).await.expect("commit transaction");
    let mut stream = store
        .changes("/a/", Revision::new(1))
        .await
        .expect("open stream");
    loop {
        let set = crate::support::next_set(&mut *stream).await;
        assert_eq!(set.changes.len(), 2, "incomplete transaction: {set:?}");
        if set.revision >= revision {
            break;
        }
    }
}
