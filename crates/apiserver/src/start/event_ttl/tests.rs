use http::Method;
use rhumb_meta::ManualClock;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::testing::{TestServer, TestServerOptions};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const TTL: Duration = Duration::from_secs(60);
const START: Timestamp = Timestamp::from_unix(1_800_000_000, 0);

/// A server and an expiry queue that the test drives step by step.
struct EventTtlHarness {
    server: TestServer,
    cache: ResourceCache,
    watcher: RestartingWatcher,
    expiry: EventExpiryQueue,
    _directory: TempDir,
}

impl EventTtlHarness {
    async fn new(directory: TempDir, wall: Timestamp) -> EventTtlHarness {
        let setup = TestServerOptions {
            clock: Arc::new(ManualClock::new(wall)),
            ..TestServerOptions::default()
        };
        let server = TestServer::open(directory.path(), setup).await;
        let events = server
            .state
            .registry
            .find("", "events")
            .expect("events are registered");
        let cache = events
            .storage
            .as_ref()
            .expect("resource is stored")
            .cache
            .clone();
        let request = WatchRequest::everything(WatchStart::InitialList);
        let mut watcher = cache.watch_with_restarts(request);
        let mut expiry = EventExpiryQueue {
            ttl: TTL,
            deadlines: BTreeMap::new(),
        };
        let registry = Arc::downgrade(&server.state.registry);
        let listed = read_list(&registry, &mut watcher, &mut expiry).await;
        listed.expect("server is alive");
        EventTtlHarness {
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
        let (code, response) = self.server.create(EVENTS, event).await;
        assert_eq!(code, 201, "{response}");
    }

    async fn write_again(&self, name: &str) {
        let path = format!("{EVENTS}/{name}");
        let patch = json!({"count": 2});
        let (code, response) = self.server.request(Method::PATCH, &path, patch).await;
        assert_eq!(code, 200, "{response}");
    }

    /// Processes `count` watch events as of a time and returns them.
    async fn process_watch_events(
        &mut self,
        count: usize,
        now: Duration,
    ) -> Vec<(EventKind, String)> {
        let mut events = Vec::new();
        while events.len() < count {
            let message = self.watcher.next().await;
            if let RestartingWatchMessage::Event(event) = message.expect("watch message") {
                self.expiry.record_write(&event, now);
                events.push((event.kind(), event.entry().key().name().to_owned()));
            }
        }
        events
    }

    async fn delete(&mut self, expired: ExpiredEvents) {
        let deleted = delete(&self.server.state.registry, &self.cache, expired).await;
        deleted.expect("store accepts the delete");
    }

    async fn event_names(&self) -> Vec<String> {
        let (_, list) = self.server.get(EVENTS).await;
        let items = list["items"].as_array().expect("JSON list");
        let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
        items.iter().filter_map(name).collect()
    }
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("create temporary directory")
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn each_write_restarts_the_ttl() {
    let mut harness = EventTtlHarness::new(directory(), START).await;
    harness.create("a").await;
    harness.create("b").await;
    harness.process_watch_events(2, at(0)).await;
    harness.write_again("a").await;
    harness.process_watch_events(1, at(30)).await;
    assert_eq!(harness.expiry.take_expired(at(59)), []);
    let expired = harness.expiry.take_expired(at(60));
    harness.delete(expired).await;
    assert_eq!(harness.event_names().await, ["a"]);
    let events = harness.process_watch_events(1, at(60)).await;
    assert_eq!(events, [(EventKind::Deleted, "b".to_owned())]);
    let expired = harness.expiry.take_expired(at(90));
    harness.delete(expired).await;
    assert!(harness.event_names().await.is_empty());
    harness.process_watch_events(1, at(90)).await;
    assert!(harness.expiry.deadlines.is_empty());
}

#[tokio::test]
async fn concurrently_changed_events_do_not_block_the_batch() {
    let mut harness = EventTtlHarness::new(directory(), START).await;
    for name in ["a", "b", "c", "d"] {
        harness.create(name).await;
    }
    harness.process_watch_events(4, at(0)).await;
    let expired = harness.expiry.take_expired(at(60));
    harness.write_again("b").await;
    harness.server.delete(&format!("{EVENTS}/c")).await;
    harness.delete(expired).await;
    assert_eq!(harness.event_names().await, ["b"]);
}

#[tokio::test]
async fn events_from_before_a_restart_expire_by_their_timestamps() {
    let first_start = EventTtlHarness::new(directory(), START).await;
    first_start.create("old").await;
    let EventTtlHarness {
        server, _directory, ..
    } = first_start;
    server.close().await;
    let mut second_start = EventTtlHarness::new(_directory, START.saturating_add(at(50))).await;
    second_start.create("new").await;
    second_start.process_watch_events(1, at(0)).await;
    assert_eq!(second_start.expiry.take_expired(at(9)), []);
    let expired = second_start.expiry.take_expired(at(10));
    second_start.delete(expired).await;
    assert_eq!(second_start.event_names().await, ["new"]);
}

#[tokio::test]
async fn expired_events_are_deleted_in_batches() {
    let mut harness = EventTtlHarness::new(directory(), START).await;
    for number in 0..BATCH + 3 {
        harness.create(&format!("e{number}")).await;
    }
    harness.process_watch_events(BATCH + 3, at(0)).await;
    for size in [BATCH, 3] {
        let expired = harness.expiry.take_expired(at(60));
        assert_eq!(expired.len(), size);
        harness.delete(expired).await;
    }
    assert!(harness.event_names().await.is_empty());
}

#[test]
fn the_age_is_computed_from_the_newest_timestamp() {
    let now = "2030-01-01T01:00:00Z".parse().expect("valid timestamp");
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
fn deadlines_follow_the_revision_order() {
    let key = |name: &str| ObjectKey::namespaced("default", name).expect("valid key");
    let mut expiry = EventExpiryQueue {
        ttl: TTL,
        deadlines: BTreeMap::new(),
    };
    for (revision, seconds, name) in [(1, 5, "a"), (2, 9, "b"), (3, 7, "c")] {
        let expires_at = at(seconds);
        let key = key(name);
        let deadline = EventDeadline { expires_at, key };
        expiry.deadlines.insert(Revision::new(revision), deadline);
    }
    expiry.make_deadlines_monotonic();
    assert_eq!(expiry.take_expired(at(4)), []);
    assert_eq!(expiry.take_expired(at(8)), [(Revision::new(1), key("a"))]);
    let remaining = expiry.take_expired(at(9));
    assert_eq!(remaining.len(), 2);
    expiry.requeue(remaining, at(14));
    assert_eq!(expiry.take_expired(at(13)), []);
    assert_eq!(expiry.take_expired(at(14)).len(), 2);
}
