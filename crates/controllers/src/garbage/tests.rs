//! Kinds that come and go, and lists that fail, at a server that is not one.

use std::collections::BTreeSet;

use http::Request;
use serde_json::{Value, json};

use super::*;
use crate::testing;

const GADGET: &str = "/apis/example.com/v1/namespaces/default/gadgets/g";
const WIDGET: &str = "/apis/example.com/v1/namespaces/default/widgets/w";
const SECRET: &str = "/api/v1/namespaces/default/secrets/s";

/// Answers discovery, lists and watches. The watches say nothing.
#[derive(Default)]
struct Server {
    /// Plural names of the kinds in the group `example.com`.
    kinds: BTreeSet<&'static str>,
    /// Whether the server of that group does not answer.
    is_stale: bool,
    /// How often discovery fails.
    failures: usize,
    /// The finalizer of a secret that is being deleted and that owns a widget.
    finalizer: Option<&'static str>,
    listed: Vec<String>,
    watching: Vec<String>,
    deleted: Vec<String>,
    patched: Vec<String>,
}

impl Server {
    fn answer(&mut self, request: &Request<Vec<u8>>) -> Option<Value> {
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

fn start(kinds: &[&'static str]) -> (Arc<Mutex<Server>>, JoinSet<Result<(), Error>>) {
    start_with(Server {
        kinds: kinds.iter().copied().collect(),
        ..Server::default()
    })
}

fn start_with(server: Server) -> (Arc<Mutex<Server>>, JoinSet<Result<(), Error>>) {
    let server = Arc::new(Mutex::new(server));
    let asked = server.clone();
    let client = testing::client(move |request| asked.lock().unwrap().answer(request));
    let mut tasks = JoinSet::new();
    tasks.spawn(collect(client));
    (server, tasks)
}

/// Lets the paused clock go on until it is so.
async fn until(server: &Mutex<Server>, is_so: impl Fn(&Server) -> bool) -> Duration {
    let begun = tokio::time::Instant::now();
    while !is_so(&server.lock().unwrap()) {
        assert!(begun.elapsed() < Duration::from_secs(600), "it never is");
        sleep(Duration::from_millis(100)).await;
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn kinds_are_followed_when_they_come_and_events_never() {
    let (server, _tasks) = start(&[]);
    until(&server, |server| !server.watching.is_empty()).await;
    assert_eq!(server.lock().unwrap().watching, ["/api/v1/secrets"]);
    server.lock().unwrap().kinds = BTreeSet::from(["gadgets", "widgets"]);
    let waited = until(&server, |server| server.watching.len() == 3).await;
    assert!(
        waited <= DISCOVERY_PAUSE + Duration::from_secs(1),
        "{waited:?}"
    );
    // The owner of the gadget is not there, so it goes.
    until(&server, |server| !server.deleted.is_empty()).await;
    assert_eq!(server.lock().unwrap().deleted, [GADGET]);
}

#[tokio::test(start_paused = true)]
async fn while_the_kind_of_an_owner_is_unknown_nothing_is_deleted() {
    let (server, _tasks) = start(&["gadgets"]);
    until(&server, |server| server.watching.len() == 2).await;
    sleep(Duration::from_secs(300)).await;
    assert!(server.lock().unwrap().deleted.is_empty());
    server.lock().unwrap().kinds.insert("widgets");
    until(&server, |server| !server.deleted.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_went_is_followed_anew_when_it_comes_back() {
    let (server, _tasks) = start(&["widgets"]);
    let lists = |server: &Server| {
        let listed = server.listed.iter();
        listed.filter(|path| path.ends_with("widgets")).count()
    };
    until(&server, |server| lists(server) == 1).await;
    server.lock().unwrap().kinds.clear();
    sleep(DISCOVERY_PAUSE * 2).await;
    server.lock().unwrap().kinds.insert("widgets");
    until(&server, |server| lists(server) == 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_discovery_is_tried_again_soon() {
    let (server, _tasks) = start_with(Server {
        failures: 3,
        ..Server::default()
    });
    let waited = until(&server, |server| !server.watching.is_empty()).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_server_does_not_answer_is_not_gone() {
    let (server, _tasks) = start_with(Server {
        kinds: BTreeSet::from(["widgets"]),
        finalizer: Some(verdict::FOREGROUND),
        ..Server::default()
    });
    until(&server, |server| !server.deleted.is_empty()).await;
    assert_eq!(server.lock().unwrap().deleted[0], WIDGET);
    server.lock().unwrap().is_stale = true;
    sleep(DISCOVERY_PAUSE * 3).await;
    assert_eq!(server.lock().unwrap().patched, [""; 0], "it waits on");
    // Back again, it is still the first watch that follows it.
    server.lock().unwrap().is_stale = false;
    sleep(DISCOVERY_PAUSE * 3).await;
    assert_eq!(server.lock().unwrap().watching.len(), 2);
    server.lock().unwrap().kinds.clear();
    until(&server, |server| !server.patched.is_empty()).await;
    assert_eq!(server.lock().unwrap().patched, [SECRET]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_not_let_go_while_a_dependent_cannot_be_asked_for() {
    let server = Arc::new(Mutex::new(Server {
        finalizer: Some(verdict::ORPHAN),
        ..Server::default()
    }));
    let asked = server.clone();
    let client = testing::client(move |request| asked.lock().unwrap().answer(request));
    let collector = Collector {
        served: Mutex::new(Arc::new(first_served(&client).await)),
        client,
        graph: Mutex::new(Graph::new()),
        queue: Queue::new(),
        reports: mpsc::channel(1).0,
    };
    for (api_version, kind, path) in [
        ("v1", "Secret", SECRET),
        ("example.com/v1", "Widget", WIDGET),
    ] {
        let object = server.lock().unwrap().object(path).unwrap();
        let object: Meta = serde_json::from_value(object).unwrap();
        let kind = KindName::new(api_version, kind);
        collector.change(|graph, work| graph.observe(&kind, &object.as_object(), work));
    }
    let done = collector.orphan(Uid::new("u-s")).await.unwrap();
    assert!(matches!(done, Done::Again(_)), "{done:?}");
    assert_eq!(server.lock().unwrap().patched, [""; 0]);

    server.lock().unwrap().kinds.insert("widgets");
    let served = first_served(&collector.client).await;
    *collector.lock(&collector.served) = Arc::new(served);
    let done = collector.orphan(Uid::new("u-s")).await.unwrap();
    assert_eq!(done, Done::Yes);
    assert_eq!(server.lock().unwrap().patched, [WIDGET, SECRET]);
}

#[tokio::test]
async fn a_watch_that_ends_by_itself_is_told_and_one_that_was_ended_is_not() {
    let mut tasks = JoinSet::new();
    tasks.spawn(std::future::pending()).abort();
    let nothing = timeout(Duration::from_millis(50), first_end(&mut tasks)).await;
    assert!(nothing.is_err());
    tasks.spawn(async { panic!("it broke") });
    let error = first_end(&mut tasks).await.to_string();
    assert!(error.contains("it broke"), "{error}");
    tasks.spawn(async { Ok(()) });
    assert_eq!(first_end(&mut tasks).await.to_string(), "a watch ended");
}
