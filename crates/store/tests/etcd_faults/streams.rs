//! Change streams across lost connections, compactions and slow readers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store::{
    ChangeStream, ChangeStreamEvent, Error, ExpectedRevision, RangeRequest, Result, Revision,
    Store, Transaction,
};

use crate::proxy::TcpFaultProxy;
use crate::{CONDITION_TIMEOUT, connect, get, next_set, put};
use rhumb_etcd_harness::EtcdServer;

pub(crate) async fn next_error(stream: &mut dyn ChangeStream) -> Error {
    let next = tokio::time::timeout(CONDITION_TIMEOUT, stream.next()).await;
    next.expect("event within the timeout")
        .expect_err("stream must fail")
}

/// Writes `count` values of a size, each in its own transaction.
async fn write(store: &EtcdStore, key: &str, count: usize, bytes: usize) -> Vec<Revision> {
    let mut revisions = Vec::new();
    for _ in 0..count {
        let value = "x".repeat(bytes);
        revisions.push(store.commit(put(key, &value)).await.unwrap());
    }
    revisions
}

async fn read(stream: &mut dyn ChangeStream, count: usize) -> Vec<Revision> {
    let mut revisions = Vec::new();
    for _ in 0..count {
        revisions.push(next_set(stream).await.revision);
    }
    revisions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_over_disconnects_without_gap_or_repeat() {
    let server = EtcdServer::start().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    let direct_store = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    for _ in 0..5 {
        let mut written = write(&direct_store, "/a", 10, 1).await;
        let mut seen = read(&mut *stream, 5).await;
        proxy.close().await;
        written.extend(write(&direct_store, "/a", 10, 1).await);
        proxy.open();
        seen.extend(read(&mut *stream, 15).await);
        assert_eq!(seen, written);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_is_replaced_and_the_stream_continues() {
    let probes = ["--grpc-keepalive-min-time", "100ms"];
    let server = EtcdServer::start_with("http", &probes).await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let options = EtcdOptions {
        keep_alive_interval: Duration::from_millis(500),
        keep_alive_timeout: Duration::from_millis(500),
        ..EtcdOptions::new([proxy.endpoint()])
    };
    let store = EtcdStore::connect(options).await.unwrap();
    let direct_store = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    proxy.hold_requests();
    proxy.hold_responses();
    let written = write(&direct_store, "/a", 3, 1).await;
    assert_eq!(read(&mut *stream, 3).await, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_from_a_future_revision_survives_a_disconnect() {
    let server = EtcdServer::start().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    let direct_store = connect(&server.endpoint()).await;
    // The slot exists now, so each further transaction takes exactly one revision.
    let now = direct_store.commit(put("/warm", "x")).await.unwrap();
    let after = Revision::new(now.get() + 5);
    let mut stream = store.changes("/a", after).await.unwrap();
    write(&direct_store, "/a", 2, 1).await;
    proxy.cut().await;
    let written = write(&direct_store, "/a", 6, 1).await;
    assert_eq!(read(&mut *stream, 3).await, &written[3..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_during_a_disconnect_ends_the_stream() {
    let server = EtcdServer::start().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    let direct_store = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    let seen = write(&direct_store, "/a", 1, 1).await[0];
    assert_eq!(next_set(&mut *stream).await.revision, seen);
    proxy.close().await;
    let oldest = write(&direct_store, "/a", 5, 1).await[4];
    direct_store.compact(oldest).await.unwrap();
    proxy.open();
    match next_error(&mut *stream).await {
        Error::Compacted {
            requested,
            oldest: told,
        } => assert_eq!((requested, told), (seen, oldest)),
        other => panic!("{other}"),
    }
    assert!(matches!(next_error(&mut *stream).await, Error::Closed));
}

/// etcd itself accepts the first of these watches, and may have lost the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_from_just_before_the_compaction_is_rejected() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let written = store.commit(put("/a", "1")).await.unwrap();
    let deleted = store
        .commit(Transaction::new().delete("/a", ExpectedRevision::At(written)))
        .await
        .unwrap();
    store.compact(deleted).await.unwrap();
    store.compact(deleted).await.unwrap();
    for before in [Revision::ZERO, Revision::new(1), written] {
        let refused: Result<_> = store.changes("/a", before).await;
        match refused {
            Err(Error::Compacted { requested, oldest }) => {
                assert_eq!((requested, oldest), (before, deleted));
            }
            other => panic!("{other:?}"),
        }
        let refused = store.range(RangeRequest::prefix("/").at(before)).await;
        assert!(
            matches!(refused, Err(Error::Compacted { .. })),
            "{refused:?}"
        );
    }
    let mut stream = store.changes("/a", deleted).await.unwrap();
    let written = write(&store, "/a", 1, 1).await;
    assert_eq!(read(&mut *stream, 1).await, written);
    let ahead = Revision::new(written[0].get() + 1);
    for refused in [
        store.compact(ahead).await,
        store
            .range(RangeRequest::prefix("/").at(ahead))
            .await
            .map(drop),
    ] {
        assert!(
            matches!(refused, Err(Error::FutureRevision { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_rollback_ends_the_stream() {
    let mut server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    let seen = write(&store, "/a", 3, 1).await;
    assert_eq!(read(&mut *stream, 3).await, seen);
    server.kill();
    server.lose_data();
    server.restart().await;
    let error = next_error(&mut *stream).await;
    assert!(matches!(error, Error::FutureRevision { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_do_not_block_others_and_miss_nothing() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let direct_store = connect(&server.endpoint()).await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(store.changes("/a", Revision::ZERO).await.unwrap());
    }
    // More data than the HTTP/2 window and the readers' queues hold.
    let mut written = Vec::new();
    for _ in 0..8 {
        written.extend(write(&direct_store, "/a", 20, 100_000).await);
        store.commit(put("/b", "while others stall")).await.unwrap();
        get(&store, "/a").await.unwrap();
    }
    for stream in &mut streams {
        assert_eq!(read(&mut **stream, written.len()).await, written);
    }
}

/// Data for slow readers fills the HTTP/2 window of a connection, which must not be the one used for calls.
#[tokio::test(flavor = "multi_thread")]
async fn streams_use_a_separate_connection() {
    let server = EtcdServer::start().await;
    let proxy = TcpFaultProxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    store.commit(put("/a", "1")).await.unwrap();
    let before = proxy.connection_count();
    let _stream = store.changes("/a", Revision::ZERO).await.unwrap();
    assert_eq!(proxy.connection_count(), before + 1);
    proxy.hold_responses_after(before);
    for round in 0..20 {
        let revision = store.commit(put("/a", &round.to_string())).await.unwrap();
        assert_eq!(get(&store, "/a").await.unwrap().modified, revision);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_do_not_slow_down_others() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let direct_store = connect(&server.endpoint()).await;
    let mut readers = Vec::new();
    for _ in 0..8 {
        let mut stream = store.changes("/big", Revision::ZERO).await.unwrap();
        readers.push(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(700)).await;
                stream.next().await.unwrap();
            }
        }));
    }
    write(&direct_store, "/big", 60, 500_000).await;
    let started = Instant::now();
    for round in 0..100 {
        store.commit(put("/a", &round.to_string())).await.unwrap();
        get(&store, "/a").await.unwrap();
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    for reader in readers {
        reader.abort();
    }
}

/// A long history arrives in fragments that may split transactions.
#[tokio::test(flavor = "multi_thread")]
async fn large_past_transactions_are_delivered_as_a_whole() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let mut written = Vec::new();
    for round in 0..40_usize {
        let transaction = (0..4).fold(Transaction::new(), |all, index| {
            let bytes = 1000 + (round * 37 + index * 101) % 300 * 1000;
            all.put(format!("/a/{index}"), vec![7; bytes], ExpectedRevision::Any)
        });
        written.push(store.commit(transaction).await.unwrap());
    }
    let mut stream = store.changes("/a/", Revision::ZERO).await.unwrap();
    for revision in written {
        let set = next_set(&mut *stream).await;
        assert_eq!((set.revision, set.changes.len()), (revision, 4));
    }
    let last = store.commit(put("/a/0", "small")).await.unwrap();
    assert_eq!(next_set(&mut *stream).await.revision, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn outcome_slots_are_hidden_from_streams_and_ranges() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let mut stream = store.changes("", Revision::ZERO).await.unwrap();
    for key in ["/a", "/s", "/z"] {
        let revision = store.commit(put(key, "1")).await.unwrap();
        let set = next_set(&mut *stream).await;
        assert_eq!((set.revision, set.changes.len()), (revision, 1));
    }
    for (prefix, limit, expected, more) in [
        ("", 0, &["/a", "/s", "/z"][..], false),
        ("/", 1, &["/a"], true),
        ("/", 2, &["/a", "/s"], true),
        ("/", 3, &["/a", "/s", "/z"], false),
        ("/rhumb/outcomes/", 0, &[], false),
        ("/r", 0, &[], false),
        ("/s", 1, &["/s"], false),
    ] {
        let page = store
            .range(RangeRequest::prefix(prefix).limit(limit))
            .await
            .unwrap();
        let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(
            (keys.as_slice(), page.more),
            (expected, more),
            "{prefix:?} {limit}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_large_range_have_one_revision() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    for batch in 0..12 {
        let all = (0..100).fold(Transaction::new(), |all, index| {
            all.put(
                format!("/a/{batch:02}-{index:02}"),
                vec![7; 10_000],
                ExpectedRevision::Absent,
            )
        });
        store.commit(all).await.unwrap();
    }
    for limit in [0, 1, 499, 500, 501, 1199, 1200, 1201] {
        let page = store
            .range(RangeRequest::prefix("/a/").limit(limit))
            .await
            .unwrap();
        let expected = if limit == 0 { 1200 } else { limit.min(1200) };
        assert_eq!(page.entries.len(), expected, "{limit}");
        assert_eq!(page.more, (1..1200).contains(&limit), "{limit}");
        assert!(page.entries.is_sorted_by(|a, b| a.key < b.key));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_reported_or_the_unsupported_version_named() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let mut stream = store.changes("/quiet", Revision::ZERO).await.unwrap();
    let revision = store.commit(put("/busy", "1")).await.unwrap();
    match stream.request_progress().await {
        Ok(()) => {
            let next = tokio::time::timeout(Duration::from_secs(10), stream.next()).await;
            match next.unwrap().unwrap() {
                ChangeStreamEvent::Progress(at) => assert!(at >= revision),
                other => panic!("{other:?}"),
            }
        }
        Err(Error::Unsupported { reason }) => assert!(reason.contains("etcd 3."), "{reason}"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_never_overtakes_changes() {
    let server = EtcdServer::start().await;
    let store = Arc::new(connect(&server.endpoint()).await);
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    if let Err(Error::Unsupported { .. }) = stream.request_progress().await {
        return;
    }
    let writer = tokio::spawn({
        let store = store.clone();
        async move { write(&store, "/a", 500, 1).await }
    });
    let mut seen = Vec::new();
    let mut progress = Revision::ZERO;
    while seen.len() < 500 {
        let next = tokio::time::timeout(CONDITION_TIMEOUT, stream.next()).await;
        match next.unwrap().unwrap() {
            ChangeStreamEvent::Changes(set) => {
                assert!(set.revision > progress, "{} after {progress}", set.revision);
                seen.push(set.revision);
            }
            ChangeStreamEvent::Progress(at) => {
                assert!(at >= progress && Some(&at) >= seen.last());
                progress = at;
            }
        }
        stream.request_progress().await.unwrap();
    }
    assert_eq!(seen, writer.await.unwrap());
    assert!(progress > Revision::ZERO);
}
