//! Watches, raw and with kube's watcher and reflector.

use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::make::{config_map, labelled, pod};
use crate::support::TestServer;

const PATIENCE: Duration = Duration::from_secs(20);

async fn maps(server: &TestServer) -> Api<ConfigMap> {
    Api::namespaced(server.client().await, "default")
}

async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    let created = api
        .create(&PostParams::default(), &labelled(name, "test", "watch"))
        .await;
    created.expect("a creation")
}

/// The next item of a stream, which must arrive soon and be no error.
async fn next<T, E: std::fmt::Debug>(stream: &mut (impl Stream<Item = Result<T, E>> + Unpin)) -> T {
    let next = tokio::time::timeout(PATIENCE, stream.try_next()).await;
    next.expect("in time")
        .expect("no error")
        .expect("not the end")
}

/// A short form of an event.
fn short(event: &WatchEvent<ConfigMap>) -> String {
    match event {
        WatchEvent::Added(map) => format!("+{}", map.name_any()),
        WatchEvent::Modified(map) => format!("~{}", map.name_any()),
        WatchEvent::Deleted(map) => format!("-{}", map.name_any()),
        WatchEvent::Bookmark(_) => "bookmark".into(),
        WatchEvent::Error(status) => format!("{} {}", status.code, status.reason),
    }
}

async fn relabel(api: &Api<ConfigMap>, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {"test": value}}}));
    api.patch(name, &PatchParams::default(), &patch)
        .await
        .expect("a patch");
}

#[tokio::test]
async fn deleted_pod_causes_modified_then_deleted_events() {
    let server = TestServer::start();
    let api: Api<Pod> = Api::namespaced(server.client_for_pods().await, "default");
    let made = api.create(&PostParams::default(), &pod("a")).await;
    let from = made.expect("a pod").resource_version().expect("a version");
    let params = WatchParams::default().disable_bookmarks();
    let mut events = api.watch(&params, &from).await.expect("a watch").boxed();
    let at_once = DeleteParams::default().grace_period(0);
    api.delete("a", &at_once).await.expect("a deletion");
    let (WatchEvent::Modified(ending), WatchEvent::Deleted(gone)) =
        (next(&mut events).await, next(&mut events).await)
    else {
        panic!("other events");
    };
    for pod in [&ending, &gone] {
        assert!(pod.metadata.deletion_timestamp.is_some());
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(0));
    }
    assert_ne!(ending.resource_version(), gone.resource_version());
    assert!(api.get_opt("a").await.expect("an answer").is_none());
}

#[tokio::test]
async fn watch_events_respect_the_selector() {
    let server = TestServer::start();
    let api = maps(&server).await;
    let from = create(&api, "before")
        .await
        .resource_version()
        .expect("a version");
    let params = WatchParams::default()
        .labels("test=watch")
        .disable_bookmarks();
    let mut events = api.watch(&params, &from).await.expect("a watch").boxed();
    create(&api, "a").await;
    api.create(&PostParams::default(), &config_map("unseen", "1"))
        .await
        .expect("a creation");
    relabel(&api, "a", "hidden").await;
    relabel(&api, "a", "watch").await;
    api.patch(
        "a",
        &PatchParams::default(),
        &Patch::Merge(json!({"data": {"x": "y"}})),
    )
    .await
    .expect("a patch");
    api.delete("a", &Default::default())
        .await
        .expect("a deletion");
    let mut told = Vec::new();
    let mut versions = Vec::new();
    while told.len() < 5 {
        let event = next(&mut events).await;
        if let WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) =
            &event
        {
            versions.push(
                map.resource_version()
                    .expect("a version")
                    .parse::<u64>()
                    .expect("a number"),
            );
        }
        told.push(short(&event));
    }
    assert_eq!(told, ["+a", "-a", "+a", "~a", "-a"]);
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[tokio::test]
async fn watcher_receives_objects_with_list_and_streaming_list() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let server = TestServer::start();
        let api = maps(&server).await;
        for name in ["a", "b", "c"] {
            create(&api, name).await;
        }
        let mut events = watcher(api.clone(), config.labels("test").page_size_if_listing()).boxed();
        let mut told = Vec::new();
        loop {
            match next(&mut events).await {
                watcher::Event::Init => told.push("init".to_owned()),
                watcher::Event::InitApply(map) => told.push(format!("={}", map.name_any())),
                watcher::Event::InitDone => {
                    told.push("done".to_owned());
                    create(&api, "d").await;
                    api.delete("a", &Default::default())
                        .await
                        .expect("a deletion");
                }
                watcher::Event::Apply(map) => told.push(format!("+{}", map.name_any())),
                watcher::Event::Delete(map) => {
                    told.push(format!("-{}", map.name_any()));
                    break;
                }
            }
        }
        assert_eq!(told, ["init", "=a", "=b", "=c", "done", "+d", "-a"]);
    }
}

/// A small page size, for watchers that list.
trait WatcherConfigExt {
    fn page_size_if_listing(self) -> Self;
}

impl WatcherConfigExt for watcher::Config {
    fn page_size_if_listing(mut self) -> Self {
        if self.initial_list_strategy == watcher::InitialListStrategy::ListWatch {
            self.page_size = Some(2);
        }
        self
    }
}

#[tokio::test]
async fn reflector_store_equals_the_server() {
    let server = TestServer::start();
    let api = maps(&server).await;
    let (reader, writer) = reflector::store();
    let watched = watcher(api.clone(), watcher::Config::default().labels("test=watch"));
    tokio::spawn(reflector(writer, watched).for_each(async |_| {}));
    reader.wait_until_ready().await.expect("a reflector");
    for index in 0..20 {
        create(&api, &format!("map-{index:02}")).await;
    }
    for index in 0..10 {
        let name = format!("map-{index:02}");
        api.delete(&name, &Default::default())
            .await
            .expect("a deletion");
    }
    create(&api, "the-last").await;
    let expected: Vec<String> = (10..20)
        .map(|index| format!("map-{index:02}"))
        .chain(["the-last".into()])
        .collect();
    let begun = tokio::time::Instant::now();
    loop {
        let mut held: Vec<String> = reader.state().iter().map(|map| map.name_any()).collect();
        held.sort();
        if held == expected {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{held:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn metadata_watch_has_no_data() {
    let server = TestServer::start();
    let api = maps(&server).await;
    let heads: Api<PartialObjectMeta<ConfigMap>> =
        Api::namespaced(server.client().await, "default");
    let config = watcher::Config::default()
        .labels("test=watch")
        .streaming_lists();
    let mut events = watcher(heads, config).applied_objects().boxed();
    create(&api, "a").await;
    let told = next(&mut events).await;
    assert_eq!(told.name_any(), "a");
    let types = told.types.expect("its type");
    assert_eq!(types.kind, "PartialObjectMetadata");
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let server = TestServer::start();
    let api = maps(&server).await;
    create(&api, "a").await;
    let params = WatchParams::default().labels("test").initial_events();
    let mut events = api.watch(&params, "0").await.expect("a watch").boxed();
    assert_eq!(short(&next(&mut events).await), "+a");
    let WatchEvent::Bookmark(end) = next(&mut events).await else {
        panic!("no bookmark after the initial objects");
    };
    let note = end.metadata.annotations.get("k8s.io/initial-events-end");
    assert_eq!(note.map(String::as_str), Some("true"));
}

/// In each case, the watcher continues from its last event or lists again.
#[tokio::test]
async fn watch_resumes_after_a_restart() {
    for crash in [false, true] {
        let mut server = TestServer::start();
        let api = maps(&server).await;
        let from = create(&api, "a")
            .await
            .resource_version()
            .expect("a version");
        create(&api, "b").await;
        if crash {
            server.kill();
        } else {
            server.stop();
        }
        server.start_again();
        let api = maps(&server).await;
        let params = WatchParams::default().labels("test");
        let mut events = api.watch(&params, &from).await.expect("a watch").boxed();
        create(&api, "c").await;
        let told = [next(&mut events).await, next(&mut events).await].map(|event| short(&event));
        assert_eq!(told, ["+b", "+c"], "after a crash: {crash}");
    }
}

#[tokio::test]
async fn kube_watcher_survives_a_restart() {
    let mut server = TestServer::start();
    let api = maps(&server).await;
    let (reader, writer) = reflector::store();
    let watched = watcher(api.clone(), watcher::Config::default().labels("test"));
    let mut events = reflector(writer, watched).boxed();
    create(&api, "a").await;
    while reader.state().is_empty() {
        next(&mut events).await;
    }
    server.kill();
    server.start_again();
    create(&maps(&server).await, "b").await;
    let both = async {
        // The watcher returns the connection error and continues.
        while reader.state().len() < 2 {
            let _ = events.next().await;
        }
    };
    tokio::time::timeout(PATIENCE, both)
        .await
        .expect("the watcher goes on");
}
