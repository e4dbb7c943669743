//! Expiry of events that are not updated.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::make::object;
use crate::support::TestServer;
use crate::waiting::wait_until_deleted;

fn event(name: &str) -> Event {
    object(json!({
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Tested",
    }))
}

/// TTL of events in this test.
const TTL: Duration = Duration::from_secs(5);
const TTL_FLAGS: [&str; 2] = ["--event-ttl", "5s"];
/// Number of attempts, in case the machine stalls.
const ROUNDS_MAX: usize = 5;

#[tokio::test]
async fn events_expire_unless_updated() {
    let server = TestServer::start_with(&TTL_FLAGS);
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    for round in 0..ROUNDS_MAX {
        let (old, kept) = (format!("old-{round}"), format!("kept-{round}"));
        let seen = write_one_of(&events, &old, &kept).await;
        if seen.pause < TTL {
            assert_eq!(seen.first, old);
            assert!(seen.is_kept);
            wait_until_deleted(&events, &kept).await;
            return;
        }
    }
    panic!("this machine stood still for {TTL:?} in each of {ROUNDS_MAX} rounds");
}

/// Observation of two events, of which one was updated repeatedly.
struct EventTtlObservation {
    /// The first event that expired.
    first: String,
    /// Whether the other event existed at that time.
    is_kept: bool,
    /// The longest interval between updates.
    pause: Duration,
}

async fn write_one_of(events: &Api<Event>, old: &str, kept: &str) -> EventTtlObservation {
    let params = PostParams::default();
    let created = events.create(&params, &event(old)).await;
    created.expect("an event");
    let mut begun = Instant::now();
    let created = events.create(&params, &event(kept)).await;
    let version = created.expect("an event").resource_version();
    let version = version.expect("a version");
    let watched = events.watch(&WatchParams::default(), &version).await;
    let mut watched = pin!(watched.expect("a watch"));
    let expired = async {
        loop {
            match watched.next().await.expect("more").expect("no error") {
                WatchEvent::Deleted(event) => break event.name_any(),
                WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let mut pause = Duration::ZERO;
    let write = async {
        for count in 2.. {
            let before = std::mem::replace(&mut begun, Instant::now());
            let patch = Patch::Merge(json!({"count": count}));
            let written = events.patch(kept, &PatchParams::default(), &patch).await;
            pause = pause.max(before.elapsed());
            match written {
                // The expiry is sent to watchers as well.
                Err(kube::Error::Api(status)) if status.code == 404 => break,
                written => written.expect("an event"),
            };
            sleep(Duration::from_millis(300)).await;
        }
        std::future::pending::<()>().await;
    };
    let first = tokio::select! {
        expired = timeout(Duration::from_secs(60), expired) => expired.expect("an event goes"),
        () = write => String::new(),
    };
    let remaining = events.get_opt(kept).await.expect("a read");
    EventTtlObservation {
        first,
        is_kept: remaining.is_some(),
        pause: pause.max(begun.elapsed()),
    }
}

#[tokio::test]
async fn events_created_before_a_restart_expire() {
    let mut server = TestServer::start_with(&TTL_FLAGS);
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    let params = PostParams::default();
    events
        .create(&params, &event("old"))
        .await
        .expect("an event");
    server.stop();
    server.start_again();
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    wait_until_deleted(&events, "old").await;
}
