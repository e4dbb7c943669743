//! The etcd backend against a real etcd that crashes, a network that loses things, and people who mistype.

mod etcd_server;

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

use rhumb_store::etcd::{Etcd, Options};
use rhumb_store::{ChangeEvent, ChangeSet, ChangeStream, Entry, Expect, Store, Transaction};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(endpoint: &str) -> Etcd {
    let options = Options {
        request_timeout: Duration::from_secs(5),
        ..Options::new([endpoint])
    };
    Etcd::connect(options).await.expect("etcd lets us in")
}

/// Waits for a condition.
async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn next_set(stream: &mut dyn ChangeStream) -> ChangeSet {
    let next = tokio::time::timeout(PATIENCE, stream.next()).await;
    match next.expect("a change in time").expect("a change") {
        ChangeEvent::Changes(set) => set,
        other => panic!("{other:?} instead of a change"),
    }
}

fn put(key: &str, value: &str) -> Transaction {
    Transaction::new().put(key, value.to_owned(), Expect::Any)
}

async fn get(store: &Etcd, key: &str) -> Option<Entry> {
    store.get(key).await.expect("a read")
}

/// Of an error that must be one, its text.
fn text_of<T: std::fmt::Debug, E: std::fmt::Display>(result: Result<T, E>) -> String {
    result.expect_err("must be refused").to_string()
}
