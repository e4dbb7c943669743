//! Streams of changes over lost connections, compactions and slow readers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_store::etcd::{Etcd, Options};
use rhumb_store::{
    ChangeEvent, ChangeStream, Error, Expect, Range, Result, Revision, Store, Transaction,
};

use crate::etcd_server::EtcdServer;
use crate::proxy::Proxy;
use crate::{PATIENCE, connect, get, next_set, put};

pub(crate) async fn next_error(stream: &mut dyn ChangeStream) -> Error {
    let next = tokio::time::timeout(PATIENCE, stream.next()).await;
    next.expect("an answer in time")
        .expect_err("the stream is over")
}

/// Writes values of some size, each at a revision of its own.
async fn write(store: &Etcd, key: &str, count: usize, bytes: usize) -> Vec<Revision> {
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
async fn a_stream_goes_on_over_cuts_without_gap_or_repeat() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    let witness = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    for _ in 0..5 {
        let mut written = write(&witness, "/a", 10, 1).await;
        let mut seen = read(&mut *stream, 5).await;
        proxy.close().await;
        written.extend(write(&witness, "/a", 10, 1).await);
        proxy.open();
        seen.extend(read(&mut *stream, 15).await);
        assert_eq!(seen, written);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_gone_silent_is_given_up_and_the_stream_goes_on() {
    let probes = ["--grpc-keepalive-min-time", "100ms"];
    let server = EtcdServer::start_with("http", &probes).await;
    let proxy = Proxy::to(server.client_address()).await;
    let options = Options {
        keep_alive_interval: Duration::from_millis(500),
        keep_alive_timeout: Duration::from_millis(500),
        ..Options::new([proxy.endpoint()])
    };
    let store = Etcd::connect(options).await.unwrap();
    let witness = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    proxy.hold_requests();
    proxy.hold_responses();
    let written = write(&witness, "/a", 3, 1).await;
    assert_eq!(read(&mut *stream, 3).await, written);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_in_the_future_does_so_over_a_cut_as_well() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    let witness = connect(&server.endpoint()).await;
    // From now on each transaction takes one revision: the slot is there.
    let now = witness.commit(put("/warm", "x")).await.unwrap();
    let after = Revision::new(now.get() + 5);
    let mut stream = store.changes("/a", after).await.unwrap();
    write(&witness, "/a", 2, 1).await;
    proxy.cut().await;
    let written = write(&witness, "/a", 6, 1).await;
    assert_eq!(read(&mut *stream, 3).await, &written[3..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_compacted_during_a_cut_is_reported_and_ends_the_stream() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::to(server.client_address()).await;
    let store = connect(&proxy.endpoint()).await;
    let witness = connect(&server.endpoint()).await;
    let mut stream = store.changes("/a", Revision::ZERO).await.unwrap();
    let seen = write(&witness, "/a", 1, 1).await[0];
    assert_eq!(next_set(&mut *stream).await.revision, seen);
    proxy.close().await;
    let oldest = write(&witness, "/a", 5, 1).await[4];
    witness.compact(oldest).await.unwrap();
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

/// etcd itself accepts the first of these, and may have lost the delete.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_from_just_before_the_compaction_is_refused() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let written = store.commit(put("/a", "1")).await.unwrap();
    let deleted = store
        .commit(Transaction::new().delete("/a", Expect::At(written)))
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
        let refused = store.range(Range::prefix("/").at(before)).await;
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
        store.range(Range::prefix("/").at(ahead)).await.map(drop),
    ] {
        assert!(
            matches!(refused, Err(Error::FutureRevision { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_went_back_ends_the_stream() {
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
async fn stalled_readers_hold_nobody_and_miss_nothing() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let witness = connect(&server.endpoint()).await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(store.changes("/a", Revision::ZERO).await.unwrap());
    }
    // More than the windows of the connection and the readers' queues hold.
    let mut written = Vec::new();
    for _ in 0..8 {
        written.extend(write(&witness, "/a", 20, 100_000).await);
        store.commit(put("/b", "while others stall")).await.unwrap();
        get(&store, "/a").await.unwrap();
    }
    for stream in &mut streams {
        assert_eq!(read(&mut **stream, written.len()).await, written);
    }
}

/// What waits for slow readers fills the window of a connection: it must not be that of the calls.
#[tokio::test(flavor = "multi_thread")]
async fn streams_have_a_connection_of_their_own() {
    let server = EtcdServer::start().await;
    let proxy = Proxy::to(server.client_address()).await;
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
async fn slow_readers_slow_down_nobody_else() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let witness = connect(&server.endpoint()).await;
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
    write(&witness, "/big", 60, 500_000).await;
    let begun = Instant::now();
    for round in 0..100 {
        store.commit(put("/a", &round.to_string())).await.unwrap();
        get(&store, "/a").await.unwrap();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    for reader in readers {
        reader.abort();
    }
}

/// A long history comes in parts, which do not end where transactions do.
#[tokio::test(flavor = "multi_thread")]
async fn large_transactions_of_the_past_come_whole() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let mut written = Vec::new();
    for round in 0..40_usize {
        let transaction = (0..4).fold(Transaction::new(), |all, index| {
            let bytes = 1000 + (round * 37 + index * 101) % 300 * 1000;
            all.put(format!("/a/{index}"), vec![7; bytes], Expect::Any)
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
async fn the_bookkeeping_of_transactions_is_hidden() {
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
            .range(Range::prefix(prefix).limit(limit))
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
async fn a_large_range_comes_in_parts_of_one_revision() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    for batch in 0..12 {
        let all = (0..100).fold(Transaction::new(), |all, index| {
            all.put(
                format!("/a/{batch:02}-{index:02}"),
                vec![7; 10_000],
                Expect::Absent,
            )
        });
        store.commit(all).await.unwrap();
    }
    for limit in [0, 1, 499, 500, 501, 1199, 1200, 1201] {
        let page = store
            .range(Range::prefix("/a/").limit(limit))
            .await
            .unwrap();
        let expected = if limit == 0 { 1200 } else { limit.min(1200) };
        assert_eq!(page.entries.len(), expected, "{limit}");
        assert_eq!(page.more, (1..1200).contains(&limit), "{limit}");
        assert!(page.entries.is_sorted_by(|a, b| a.key < b.key));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_or_the_version_that_cannot() {
    let server = EtcdServer::start().await;
    let store = connect(&server.endpoint()).await;
    let mut stream = store.changes("/quiet", Revision::ZERO).await.unwrap();
    let revision = store.commit(put("/busy", "1")).await.unwrap();
    match stream.request_progress().await {
        Ok(()) => {
            let next = tokio::time::timeout(Duration::from_secs(10), stream.next()).await;
            match next.unwrap().unwrap() {
                ChangeEvent::Progress(at) => assert!(at >= revision),
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
        let next = tokio::time::timeout(PATIENCE, stream.next()).await;
        match next.unwrap().unwrap() {
            ChangeEvent::Changes(set) => {
                assert!(set.revision > progress, "{} after {progress}", set.revision);
                seen.push(set.revision);
            }
            ChangeEvent::Progress(at) => {
                assert!(at >= progress && Some(&at) >= seen.last());
                progress = at;
            }
        }
        stream.request_progress().await.unwrap();
    }
    assert_eq!(seen, writer.await.unwrap());
    assert!(progress > Revision::ZERO);
}
