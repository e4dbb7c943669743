//! Compactions that race with watches and ranges, and a history that goes back.

use std::sync::Arc;
use std::time::Duration;

use rhumb_store::{
    ChangeStreamEvent, Error, ExpectedRevision, KEY_BYTES_MAX, RangeRequest, Revision, Store,
    Transaction,
};

use crate::proxy::TcpFaultProxy;
use crate::streams::next_error;
use crate::{CONDITION_TIMEOUT, connect, get, put};
use rhumb_etcd_harness::EtcdServer;

/// A stream has a position even before it has delivered any change.
#[tokio::test(flavor = "multi_thread")]
async fn a_revision_rollback_ends_an_idle_stream() {
    let mut server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    for _ in 0..5 {
        store.commit(put("/a/x", "1")).await.unwrap();
    }
    let listed = store
        .range(RangeRequest::prefix("/a/"))
        .await
        .unwrap()
        .revision;
    let mut stream = store.changes("/a/", listed).await.unwrap();
    server.kill();
    server.lose_data();
    server.restart().await;
    match next_error(&mut *stream).await {
        Error::FutureRevision { requested, .. } => assert_eq!(requested, listed),
        other => panic!("{other}"),
    }
}

/// etcd processes new watches ten times a second; a compaction may come before that.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_during_stream_creation_hides_no_deletion() {
    let server = EtcdServer::start().await;
    let store = Arc::new(connect(&server.endpoint()).await);
    for round in 0..24 {
        let written = store.commit(put("/a/x", "1")).await.unwrap();
        let delete = Transaction::new().delete("/a/x", ExpectedRevision::At(written));
        let deleted = store.commit(delete).await.unwrap();
        store.commit(put("/a/y", "1")).await.unwrap();
        let compactor = tokio::spawn({
            let store = store.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(round % 12)).await;
                store.compact(deleted).await.unwrap();
            }
        });
        let opened = store.changes("/a/", written).await;
        compactor.await.unwrap();
        let first = match opened {
            Ok(mut stream) => tokio::time::timeout(CONDITION_TIMEOUT, stream.next())
                .await
                .unwrap(),
            Err(error) => Err(error),
        };
        match first {
            Ok(ChangeStreamEvent::Changes(set)) => assert_eq!(set.revision, deleted),
            Err(Error::Compacted { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_restarts_when_its_revision_is_compacted() {
    let server = EtcdServer::start().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let store = Arc::new(connect(&proxy.endpoint()).await);
    let direct_store = connect(&server.endpoint()).await;
    fill(&direct_store, 600).await;
    proxy.hold_responses();
    let range = tokio::spawn({
        let store = store.clone();
        async move { store.range(RangeRequest::prefix("/a/")).await }
    });
    proxy.holds_response_with("/a/0000").await;
    let changed = direct_store.commit(put("/a/0599", "new")).await.unwrap();
    direct_store.compact(changed).await.unwrap();
    proxy.release_responses().await;
    let page = range.await.unwrap().unwrap();
    assert_eq!((page.revision, page.entries.len()), (changed, 600));
    assert_eq!(page.entries[599].modified, changed);
}

async fn fill(store: &rhumb_store::etcd::EtcdStore, count: usize) {
    let keys: Vec<String> = (0..count).map(|index| format!("/a/{index:04}")).collect();
    for keys in keys.chunks(100) {
        let all = keys.iter().fold(Transaction::new(), |all, key| {
            all.put(key.as_str(), "0", ExpectedRevision::Absent)
        });
        store.commit(all).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_range_is_consistent_during_writes_and_compactions() {
    let server = EtcdServer::start().await;
    let store = Arc::new(connect(&server.endpoint()).await);
    fill(&store, 700).await;
    // The first and the last entry are on different pages.
    let both = |value: String| put("/a/0000", &value).put("/a/0699", value, ExpectedRevision::Any);
    store.commit(both("0".to_owned())).await.unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for round in 1.. {
                let revision = store.commit(both(round.to_string())).await.unwrap();
                if round % 50 == 0 {
                    store.compact(revision).await.unwrap();
                }
            }
        }
    });
    let mut revisions = Vec::new();
    while revisions.len() < 30 {
        let page = match store.range(RangeRequest::prefix("/a/")).await {
            Ok(page) => page,
            // Every retry was overtaken by a compaction.
            Err(Error::Compacted { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(page.entries.len(), 700);
        let (first, last) = (&page.entries[0], &page.entries[699]);
        assert_eq!(first.value, last.value);
        assert!(first.modified == last.modified && first.modified <= page.revision);
        revisions.push(page.revision);
    }
    assert!(revisions.is_sorted() && revisions[0] < revisions[29]);
    writer.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn expecting_revision_zero_is_a_conflict() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    for transaction in [
        Transaction::new().put("/a", "1", ExpectedRevision::At(Revision::ZERO)),
        Transaction::new().delete("/a", ExpectedRevision::At(Revision::ZERO)),
        Transaction::new().check("/a", ExpectedRevision::At(Revision::ZERO)),
    ] {
        let refused = store.commit(transaction).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
    }
    assert_eq!(get(&store, "/a").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefix_longer_than_any_key_is_rejected() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let longest = "x".repeat(KEY_BYTES_MAX);
    assert!(store.changes(&longest, Revision::ZERO).await.is_ok());
    let refused = store.changes(&format!("{longest}x"), Revision::ZERO).await;
    assert!(
        matches!(refused, Err(Error::InvalidKey { .. })),
        "{refused:?}"
    );
}
