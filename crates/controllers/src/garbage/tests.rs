//! Kinds that come and go, and lists that fail, at a server that is not one.

use std::collections::BTreeSet;
use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// Answers discovery, lists and watches. The watches say nothing.
#[derive(Default)]
struct Server {
    /// Plural names of the kinds in the group `example.com`.
    kinds: BTreeSet<&'static str>,
    listed: Vec<String>,
    watching: Vec<String>,
    deleted: Vec<String>,
}

/// What a list has.
fn items(path: &str) -> Value {
    let owner = |kind: &str| json!([{"apiVersion": "example.com/v1", "kind": kind, "name": "o", "uid": "u-o"}]);
    match path {
        "/apis/example.com/v1/gadgets" => json!([{"metadata": {
            "name": "g", "namespace": "default", "uid": "u-g", "resourceVersion": "1",
            "ownerReferences": owner("Widget"),
        }}]),
        _ => json!([]),
    }
}

fn discovery(group: &str, kinds: &BTreeSet<&'static str>) -> Value {
    let resources: Vec<Value> = kinds
        .iter()
        .map(|kind| {
            let singular = kind.trim_end_matches('s');
            let (first, rest) = singular.split_at(1);
            json!({
                "resource": kind, "singularResource": singular, "scope": "Namespaced",
                "responseKind": {"group": group, "version": "v1", "kind": first.to_uppercase() + rest},
                "verbs": ["get", "list", "watch", "delete", "patch"],
            })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": group},
            "versions": [{"version": "v1", "freshness": "Current", "resources": resources}],
        }],
    })
}

impl Server {
    fn answer(&mut self, request: &Request<Body>) -> Option<Value> {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        if request.method() == "DELETE" {
            self.deleted.push(path.to_owned());
            return Some(json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}));
        }
        match path {
            "/api" => Some(discovery("", &BTreeSet::from(["events", "secrets"]))),
            "/apis" => Some(discovery("example.com", &self.kinds)),
            "/apis/example.com/v1/namespaces/default/gadgets/g" => {
                Some(items("/apis/example.com/v1/gadgets")[0].clone())
            }
            path if path.contains("/namespaces/") => None,
            path if query.contains("watch=true") => {
                self.watching.push(path.to_owned());
                None
            }
            path => {
                self.listed.push(path.to_owned());
                Some(json!({"metadata": {"resourceVersion": "1"}, "items": items(path)}))
            }
        }
    }
}

fn start(kinds: &[&'static str]) -> (Arc<Mutex<Server>>, JoinSet<Result<(), Error>>) {
    let server = Arc::new(Mutex::new(Server {
        kinds: kinds.iter().copied().collect(),
        ..Server::default()
    }));
    let asked = server.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request
            .uri()
            .query()
            .unwrap_or_default()
            .contains("watch=true");
        let answer = asked.lock().unwrap().answer(&request);
        async move {
            if is_watch {
                std::future::pending::<()>().await;
            }
            let (code, body) = match answer {
                Some(body) => (200, body),
                None => {
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                        "reason": "NotFound", "message": "there is none",
                    });
                    (404, status)
                }
            };
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(collect(Client::new(service, "default")));
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
    let gadget = "/apis/example.com/v1/namespaces/default/gadgets/g";
    assert_eq!(server.lock().unwrap().deleted, [gadget]);
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
