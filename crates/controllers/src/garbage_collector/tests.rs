//! Tests against a fake API server: resources that appear and disappear, failing discovery and lists.

use std::collections::BTreeSet;

use http::Request;
use serde_json::{Value, json};

use super::*;
use crate::testing;

const GADGET: &str = "/apis/example.com/v1/namespaces/default/gadgets/g";
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/w";
const SECRET: &str = "/api/v1/namespaces/default/secrets/s";

/// Answers discovery, lists and watches. Watches deliver no events.
#[derive(Default)]
struct FakeApiServer {
    /// Plural names of the resources in the group `example.com`.
    kinds: BTreeSet<&'static str>,
    /// Whether the aggregated API server of that group is unavailable.
    is_stale: bool,
    /// Number of discovery requests that fail.
    failures: usize,
    /// Finalizer of a terminating secret that owns a widget.
    finalizer: Option<&'static str>,
    listed: Vec<String>,
    watching: Vec<String>,
    deleted: Vec<String>,
    patched: Vec<String>,
}

impl FakeApiServer {
    fn respond(&mut self, request: &Request<Vec<u8>>) -> Option<Value> {
        let path = request.uri().path().to_owned();
        match request.method().as_str() {
            "DELETE" => {
                self.deleted.push(path);
                return Some(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
            }
            "PATCH" => {
                let object = self.object(&path);
                self.patched.push(path);
                return object;
            }
            _ => {}
        }
        if testing::is_watch(request) {
            self.watching.push(path);
            return None;
        }
        match path.as_str() {
            "/api" if self.failures > 0 => {
                self.failures -= 1;
                None
            }
            "/api" => Some(testing::discovery("", "Current", ["events", "secrets"])),
            "/apis" if self.is_stale => Some(testing::discovery("example.com", "Stale", [])),
            "/apis" => {
                let kinds = self.kinds.iter().copied();
                Some(testing::discovery("example.com", "Current", kinds))
            }
            path if path.contains("/namespaces/") => self.object(path),
            path => {
                let items: Vec<Value> = [GADGET, WIDGET, SECRET]
                    .into_iter()
                    .filter(|object| object.replace("namespaces/default/", "").starts_with(path))
                    .filter_map(|object| self.object(object))
                    .collect();
                self.listed.push(path.to_owned());
                Some(json!({"metadata": {"resourceVersion": "1"}, "items": items}))
            }
        }
    }

    fn object(&self, path: &str) -> Option<Value> {
        let metadata = match path {
            GADGET => json!({
                "name": "g", "uid": "u-g",
                "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Widget", "name": "o", "uid": "u-o"}],
            }),
            SECRET => json!({
                "name": "s", "uid": "u-s", "finalizers": [self.finalizer?],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            }),
            WIDGET => {
                self.finalizer?;
                json!({
                    "name": "w", "uid": "u-w",
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u-s",
                        "blockOwnerDeletion": true,
                    }],
                })
            }
            _ => return None,
        };
        let mut object = json!({"metadata": metadata});
        object["metadata"]["namespace"] = json!("default");
        object["metadata"]["resourceVersion"] = json!("1");
        Some(object)
    }
}

fn start(kinds: &[&'static str]) -> (Arc<Mutex<FakeApiServer>>, JoinSet<Result<(), Error>>) {
    start_with(FakeApiServer {
        kinds: kinds.iter().copied().collect(),
        ..FakeApiServer::default()
    })
}

fn start_with(server: FakeApiServer) -> (Arc<Mutex<FakeApiServer>>, JoinSet<Result<(), Error>>) {
    let server = Arc::new(Mutex::new(server));
    let fake_server = server.clone();
    let client = testing::fake_client(move |request| fake_server.lock().respond(request));
    let mut tasks = JoinSet::new();
    tasks.spawn(collect(client));
    (server, tasks)
}

/// Advances the paused clock until the condition holds; returns the elapsed time.
async fn wait_until(
    server: &Mutex<FakeApiServer>,
    condition: impl Fn(&FakeApiServer) -> bool,
) -> Duration {
    let started = tokio::time::Instant::now();
    while !condition(&server.lock()) {
        assert!(
            started.elapsed() < Duration::from_secs(600),
            "condition not reached within 600s"
        );
        sleep(Duration::from_millis(100)).await;
    }
    started.elapsed()
}

#[tokio::test(start_paused = true)]
async fn new_resources_are_watched_except_events() {
    let (server, _tasks) = start(&[]);
    wait_until(&server, |server| !server.watching.is_empty()).await;
    assert_eq!(server.lock().watching, ["/api/v1/secrets"]);
    server.lock().kinds = BTreeSet::from(["gadgets", "widgets"]);
    let waited = wait_until(&server, |server| server.watching.len() == 3).await;
    assert!(
        waited <= DISCOVERY_PAUSE + Duration::from_secs(1),
        "{waited:?}"
    );
    // The owner of the gadget does not exist, so the gadget is deleted.
    wait_until(&server, |server| !server.deleted.is_empty()).await;
    assert_eq!(server.lock().deleted, [GADGET]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_while_the_kind_of_an_owner_is_unknown() {
    let (server, _tasks) = start(&["gadgets"]);
    wait_until(&server, |server| server.watching.len() == 2).await;
    sleep(Duration::from_secs(300)).await;
    assert!(server.lock().deleted.is_empty());
    server.lock().kinds.insert("widgets");
    wait_until(&server, |server| !server.deleted.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_resource_is_watched_again_when_it_returns() {
    let (server, _tasks) = start(&["widgets"]);
    let lists = |server: &FakeApiServer| {
        let listed = server.listed.iter();
        listed.filter(|path| path.ends_with("widgets")).count()
    };
    wait_until(&server, |server| lists(server) == 1).await;
    server.lock().kinds.clear();
    sleep(DISCOVERY_PAUSE * 2).await;
    server.lock().kinds.insert("widgets");
    wait_until(&server, |server| lists(server) == 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_discovery_is_retried_quickly() {
    let (server, _tasks) = start_with(FakeApiServer {
        failures: 3,
        ..FakeApiServer::default()
    });
    let waited = wait_until(&server, |server| !server.watching.is_empty()).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_with_an_unavailable_server_is_not_removed() {
    let (server, _tasks) = start_with(FakeApiServer {
        kinds: BTreeSet::from(["widgets"]),
        finalizer: Some(verdict::FOREGROUND_FINALIZER),
        ..FakeApiServer::default()
    });
    wait_until(&server, |server| !server.deleted.is_empty()).await;
    assert_eq!(server.lock().deleted[0], WIDGET);
    server.lock().is_stale = true;
    sleep(DISCOVERY_PAUSE * 3).await;
    assert_eq!(
        server.lock().patched,
        [""; 0],
        "the secret must wait for the widget"
    );
    // When it is available again, the original watch is still in use.
    server.lock().is_stale = false;
    sleep(DISCOVERY_PAUSE * 3).await;
    assert_eq!(server.lock().watching.len(), 2);
    server.lock().kinds.clear();
    wait_until(&server, |server| !server.patched.is_empty()).await;
    assert_eq!(server.lock().patched, [SECRET]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_keeps_its_finalizer_while_a_dependent_cannot_be_resolved() {
    let server = Arc::new(Mutex::new(FakeApiServer {
        finalizer: Some(verdict::ORPHAN_FINALIZER),
        ..FakeApiServer::default()
    }));
    let fake_server = server.clone();
    let client = testing::fake_client(move |request| fake_server.lock().respond(request));
    let collector = GarbageCollector {
        mapper: Mutex::new(Arc::new(discover_until_success(&client).await)),
        client,
        graph: Mutex::new(OwnershipGraph::new()),
        queue: WorkQueue::new(),
        reports: mpsc::channel(1).0,
    };
    for (api_version, kind, path) in [
        ("v1", "Secret", SECRET),
        ("example.com/v1", "Widget", WIDGET),
    ] {
        let object = server.lock().object(path).unwrap();
        let object: PartialMetadata = serde_json::from_value(object).unwrap();
        let kind = ApiVersionKind::new(api_version, kind);
        collector.change(|graph, work| graph.observe(&kind, &object.as_object(), work));
    }
    let done = collector.orphan(ObjectUid::new("u-s")).await.unwrap();
    assert!(matches!(done, ReconcileAction::RequeueAfter(_)), "{done:?}");
    assert_eq!(server.lock().patched, [""; 0]);

    server.lock().kinds.insert("widgets");
    let mapper = discover_until_success(&collector.client).await;
    *collector.lock(&collector.mapper) = Arc::new(mapper);
    let done = collector.orphan(ObjectUid::new("u-s")).await.unwrap();
    assert_eq!(done, ReconcileAction::AwaitChange);
    assert_eq!(server.lock().patched, [WIDGET, SECRET]);
}

#[tokio::test]
async fn a_watch_that_ends_by_itself_is_reported_but_an_aborted_one_is_not() {
    let mut tasks = JoinSet::new();
    tasks.spawn(std::future::pending()).abort();
    let nothing = timeout(Duration::from_millis(50), first_unexpected_end(&mut tasks)).await;
    assert!(nothing.is_err());
    tasks.spawn(async { panic!("it broke") });
    let error = first_unexpected_end(&mut tasks).await.to_string();
    assert!(error.contains("it broke"), "{error}");
    tasks.spawn(async { Ok(()) });
    assert_eq!(
        first_unexpected_end(&mut tasks).await.to_string(),
        "a watch ended"
    );
}
