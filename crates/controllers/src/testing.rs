//! A server that is not one: it answers as a test says.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{Context, Election, Options};

/// What a server says to a request; `None` is nothing, for as long as anybody waits.
pub(crate) type Answer = Option<(u16, Value)>;

/// A client whose requests are answered by a function; `None` is answered with 404. Watches say nothing.
pub(crate) fn client(
    answer: impl Fn(&Request<Vec<u8>>) -> Option<Value> + Send + Sync + 'static,
) -> Client {
    connect(move |request| {
        let answer = answer(request);
        if is_watch(request) {
            return None;
        }
        answer.map_or_else(|| refused(404), ok)
    })
}

/// Each request is a method, a path, and a query. All that were asked are kept, without their queries.
pub(crate) fn server(
    answer: impl FnMut(&str, &str, &str) -> Answer + Send + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let asked = requests.clone();
    let answer = Mutex::new(answer);
    let client = connect(move |request| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        asked.lock().unwrap().push(format!("{method} {path}"));
        let query = request.uri().query().unwrap_or_default();
        (answer.lock().unwrap())(method, path, query)
    });
    (client, requests)
}

fn connect(answer: impl Fn(&Request<Vec<u8>>) -> Answer + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap().to_vec();
            let Some((code, body)) = answer(&Request::from_parts(parts, body)) else {
                return std::future::pending().await;
            };
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    Client::new(service, "default")
}

pub(crate) fn ok(body: Value) -> Answer {
    Some((200, body))
}

pub(crate) fn refused(code: u16) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Refused", "message": "no",
    });
    Some((code, status))
}

pub(crate) fn list(items: &[Value]) -> Answer {
    ok(json!({"metadata": {"resourceVersion": "1"}, "items": items}))
}

/// For a controller that does all it does by this client.
pub(crate) fn context(client: Client) -> Context {
    Context {
        reader: client.clone(),
        client,
        options: Arc::new(Options {
            election: Election {
                identity: String::new(),
                namespace: String::new(),
                name: String::new(),
            },
            root_ca: None,
            token_signer: None,
            node_monitor_grace_period: Duration::from_secs(50),
            node_startup_grace_period: Duration::from_secs(60),
            node_quarantine: Duration::from_secs(40),
            terminated_pods_max: 0,
        }),
    }
}

pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("watch=true")
}

/// What discovery shows of a group that has these kinds at `v1`, all in namespaces.
pub(crate) fn discovery<'a>(
    group: &str,
    freshness: &str,
    kinds: impl IntoIterator<Item = &'a str>,
) -> Value {
    let resources: Vec<Value> = kinds
        .into_iter()
        .map(|kind| {
            let singular = kind.trim_end_matches('s');
            let (first, rest) = singular.split_at(1);
            json!({
                "resource": kind, "singularResource": singular, "scope": "Namespaced",
                "responseKind": {"group": group, "version": "v1", "kind": first.to_uppercase() + rest},
                "verbs": ["get", "list", "watch", "delete", "deletecollection", "patch"],
            })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": group},
            "versions": [{"version": "v1", "freshness": freshness, "resources": resources}],
        }],
    })
}
