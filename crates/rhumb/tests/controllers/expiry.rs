//! Events go when nobody has written them for a while.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use crate::make::object;
use crate::support::Server;
use crate::waiting::gone;

fn event(name: &str) -> Event {
    object(json!({
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "Tested",
    }))
}

#[tokio::test]
async fn events_expire_unless_they_are_written_again() {
    let server = Server::start_with(&["--event-ttl", "5s"]);
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    let params = PostParams::default();
    events
        .create(&params, &event("old"))
        .await
        .expect("an event");
    let kept = events.create(&params, &event("kept")).await;
    let version = kept
        .expect("an event")
        .resource_version()
        .expect("a version");
    let watched = events.watch(&WatchParams::default(), &version).await;
    let mut watched = pin!(watched.expect("a watch"));
    let told = async {
        loop {
            match watched.next().await.expect("more").expect("no error") {
                WatchEvent::Deleted(event) => break event.name_any(),
                WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let write = async {
        for count in 2.. {
            let patch = Patch::Merge(json!({"count": count}));
            let written = events.patch("kept", &PatchParams::default(), &patch).await;
            written.expect("it is still there");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    };
    let first = tokio::select! {
        told = timeout(Duration::from_secs(60), told) => told.expect("an event goes"),
        () = write => String::new(),
    };
    assert_eq!(first, "old");
    gone(&events, "kept").await;
}

#[tokio::test]
async fn events_of_before_a_restart_expire() {
    let mut server = Server::start_with(&["--event-ttl", "5s"]);
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    let params = PostParams::default();
    events
        .create(&params, &event("old"))
        .await
        .expect("an event");
    server.stop();
    server.start_again();
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    gone(&events, "old").await;
}
