use http::Method;
use rhumb_meta::ManualClock;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::testing::{Server, Setup};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const TTL: Duration = Duration::from_secs(60);
const START: Timestamp = Timestamp::from_unix(1_800_000_000, 0);

/// A server whose events the test lets expire itself, one step at a time.
struct Bench {
    server: Server,
    cache: Cache,
    watcher: Watcher,
    expiry: Expiry,
    _directory: TempDir,
}

impl Bench {
    async fn new(directory: TempDir, wall: Timestamp) -> Bench {
        let setup = Setup {
            clock: Arc::new(ManualClock::new(wall)),
            ..Setup::default()
        };
        let server = Server::open(directory.path(), setup).await;
        let events = server.api.registry.find("", "events").expect("events");
        let cache = events.storage.as_ref().expect("stored").cache.clone();
        let everything = WatchRequest::everything(Start::List);
        let mut watcher = cache.watch(everything).expect("a watch");
        let mut expiry = Expiry {
            ttl: TTL,
            written: BTreeMap::new(),
        };
        let api = Arc::downgrade(&server.api);
        let read = read_list(&api, &mut watcher, &mut expiry).await;
        read.expect("a server");
        Bench {
            server,
            cache,
            watcher,
            expiry,
            _directory: directory,
        }
    }

    async fn create(&self, name: &str) {
        let event = json!({
            "metadata": {"name": name, "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            "reason": "Tested",
        });
        let (code, answer) = self.server.create(EVENTS, event).await;
        assert_eq!(code, 201, "{answer}");
    }

    async fn write_again(&self, name: &str) {
        let path = format!("{EVENTS}/{name}");
        let patch = json!({"count": 2});
        let (code, answer) = self.server.ask(Method::PATCH, &path, patch).await;
        assert_eq!(code, 200, "{answer}");
    }

    /// Notes what happened as of a time, and tells it.
    async fn note(&mut self, count: usize, at: Duration) -> Vec<(EventKind, String)> {
        let mut told = Vec::new();
        while told.len() < count {
            if let Message::Event(event) = self.watcher.next().await.expect("a message") {
                self.expiry.note(&event, at);
                told.push((event.kind(), event.entry().key().name().to_owned()));
            }
        }
        told
    }

    async fn delete(&mut self, due: Due) {
        let deleted = delete(&self.server.api, &self.cache, due).await;
        deleted.expect("the store takes it");
    }

    async fn names(&self) -> Vec<String> {
        let (_, list) = self.server.get(EVENTS).await;
        let items = list["items"].as_array().expect("a list");
        let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
        items.iter().filter_map(name).collect()
    }
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn each_write_starts_the_time_of_an_event_anew() {
    let mut bench = Bench::new(directory(), START).await;
    bench.create("a").await;
    bench.create("b").await;
    bench.note(2, at(0)).await;
    bench.write_again("a").await;
    bench.note(1, at(30)).await;
    assert_eq!(bench.expiry.take_due(at(59)), []);
    let due = bench.expiry.take_due(at(60));
    bench.delete(due).await;
    assert_eq!(bench.names().await, ["a"]);
    let told = bench.note(1, at(60)).await;
    assert_eq!(told, [(EventKind::Deleted, "b".to_owned())]);
    let due = bench.expiry.take_due(at(90));
    bench.delete(due).await;
    assert!(bench.names().await.is_empty());
    bench.note(1, at(90)).await;
    assert!(bench.expiry.written.is_empty());
}

#[tokio::test]
async fn what_was_written_or_deleted_meanwhile_does_not_hold_the_others() {
    let mut bench = Bench::new(directory(), START).await;
    for name in ["a", "b", "c", "d"] {
        bench.create(name).await;
    }
    bench.note(4, at(0)).await;
    let due = bench.expiry.take_due(at(60));
    bench.write_again("b").await;
    bench.server.delete(&format!("{EVENTS}/c")).await;
    bench.delete(due).await;
    assert_eq!(bench.names().await, ["b"]);
}

#[tokio::test]
async fn events_older_than_the_server_go_by_the_times_they_tell() {
    let before = Bench::new(directory(), START).await;
    before.create("old").await;
    let Bench {
        server, _directory, ..
    } = before;
    server.close().await;
    let mut again = Bench::new(_directory, START.saturating_add(at(50))).await;
    again.create("new").await;
    again.note(1, at(0)).await;
    assert_eq!(again.expiry.take_due(at(9)), []);
    let due = again.expiry.take_due(at(10));
    again.delete(due).await;
    assert_eq!(again.names().await, ["new"]);
}

#[tokio::test]
async fn no_transaction_deletes_more_than_a_few() {
    let mut bench = Bench::new(directory(), START).await;
    for number in 0..BATCH + 3 {
        bench.create(&format!("e{number}")).await;
    }
    bench.note(BATCH + 3, at(0)).await;
    for size in [BATCH, 3] {
        let due = bench.expiry.take_due(at(60));
        assert_eq!(due.len(), size);
        bench.delete(due).await;
    }
    assert!(bench.names().await.is_empty());
}

#[test]
fn age_is_by_the_newest_time_that_an_event_tells() {
    let now = "2030-01-01T01:00:00Z".parse().expect("a time");
    let check = |event: Value, seconds: u64| {
        let age = age(event.to_string().as_bytes(), now);
        assert_eq!(age, Duration::from_secs(seconds), "{event}");
    };
    let created = json!({"creationTimestamp": "2030-01-01T00:00:00Z"});
    check(json!({"metadata": {}}), 0);
    check(json!({"metadata": created}), 3600);
    check(
        json!({"metadata": created, "lastTimestamp": "2030-01-01T00:59:00Z", "eventTime": null}),
        60,
    );
    check(
        json!({"metadata": created, "series": {"lastObservedTime": "2030-01-01T00:58:00.000000Z"}}),
        120,
    );
    check(
        json!({"metadata": {
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "managedFields": [{"time": "2030-01-01T00:57:00Z"}, {}],
        }}),
        180,
    );
    check(
        json!({"metadata": created, "lastTimestamp": "2031-01-01T00:00:00Z"}),
        0,
    );
    check(json!({"metadata": 7}), 0);
}

#[test]
fn what_was_written_later_goes_later() {
    let key = |name: &str| ObjectKey::namespaced("default", name).expect("a key");
    let mut expiry = Expiry {
        ttl: TTL,
        written: BTreeMap::new(),
    };
    for (revision, due, name) in [(1, 5, "a"), (2, 9, "b"), (3, 7, "c")] {
        let due = at(due);
        let key = key(name);
        let written = Written { due, key };
        expiry.written.insert(Revision::new(revision), written);
    }
    expiry.settle();
    assert_eq!(expiry.take_due(at(4)), []);
    assert_eq!(expiry.take_due(at(8)), [(Revision::new(1), key("a"))]);
    let rest = expiry.take_due(at(9));
    assert_eq!(rest.len(), 2);
    expiry.put_back(rest, at(14));
    assert_eq!(expiry.take_due(at(13)), []);
    assert_eq!(expiry.take_due(at(14)).len(), 2);
}
