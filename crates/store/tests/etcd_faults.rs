//! The etcd backend with a real etcd under faults: crashes, lost connections, full quota, wrong configuration.

#[path = "etcd_faults/auth.rs"]
mod auth;
#[path = "etcd_faults/cluster.rs"]
mod cluster;
#[path = "etcd_faults/crash.rs"]
mod crash;
#[path = "etcd_faults/cut.rs"]
mod cut;
#[path = "etcd_faults/full.rs"]
mod full;
#[path = "etcd_faults/history.rs"]
mod history;
#[path = "etcd_faults/proxy.rs"]
mod proxy;
#[path = "etcd_faults/slots.rs"]
mod slots;
#[path = "etcd_faults/streams.rs"]
mod streams;
#[path = "etcd_faults/users.rs"]
mod users;

use std::time::{Duration, Instant};

use rhumb_store::etcd::{EtcdOptions, EtcdStore};
use rhumb_store::{
    ChangeSet, ChangeStream, ChangeStreamEvent, ExpectedRevision, Store, StoreEntry, Transaction,
};

/// Timeout of every wait in these tests.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(30);

async fn connect(endpoint: &str) -> EtcdStore {
    let options = EtcdOptions {
        request_timeout: Duration::from_secs(5),
        ..EtcdOptions::new([endpoint])
    };
    EtcdStore::connect(options).await.expect("connect to etcd")
}

/// Polls a condition until it holds.
async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < CONDITION_TIMEOUT, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn next_set(stream: &mut dyn ChangeStream) -> ChangeSet {
    let next = tokio::time::timeout(CONDITION_TIMEOUT, stream.next()).await;
    match next
        .expect("event within the timeout")
        .expect("change event")
    {
        ChangeStreamEvent::Changes(set) => set,
        other => panic!("expected a change, got {other:?}"),
    }
}

fn put(key: &str, value: &str) -> Transaction {
    Transaction::new().put(key, value.to_owned(), ExpectedRevision::Any)
}

async fn get(store: &EtcdStore, key: &str) -> Option<StoreEntry> {
    store.get(key).await.expect("read entry")
}

/// The text of an expected error.
fn error_text<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.expect_err("must fail").to_string()
}
