//! Fake API servers for tests: clients whose requests are answered by a function.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Status code and body of a fake response; `None` never responds.
pub type FakeResponse = Option<(u16, Value)>;

/// A client whose requests are answered by `answer`; `None` becomes a 404. Watches never respond.
pub fn fake_client(
    answer: impl Fn(&Request<Vec<u8>>) -> Option<Value> + Send + Sync + 'static,
) -> Client {
    fake_client_with(move |request| {
        let answer = answer(request);
        if is_watch(request) {
            return None;
        }
        answer.map_or_else(|| status_response(404), ok_response)
    })
}

/// A client whose requests are answered by `answer`, given method, path and query. Also returns the log of all requests
/// as `METHOD path`.
pub fn recording_fake_client(
    answer: impl FnMut(&str, &str, &str) -> FakeResponse + Send + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let log = requests.clone();
    let answer = Mutex::new(answer);
    let client = fake_client_with(move |request| {
        let (method, path) = (request.method().as_str(), request.uri().path());
        log.lock().unwrap().push(format!("{method} {path}"));
        let query = request.uri().query().unwrap_or_default();
        (answer.lock().unwrap())(method, path, query)
    });
    (client, requests)
}

/// A client whose requests, watches included, are answered by `answer`.
pub fn fake_client_with(
    answer: impl Fn(&Request<Vec<u8>>) -> FakeResponse + Send + Sync + 'static,
) -> Client {
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

pub fn ok_response(body: Value) -> FakeResponse {
    Some((200, body))
}

pub fn status_response(code: u16) -> FakeResponse {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Refused", "message": "no",
    });
    Some((code, status))
}

pub fn list_response(items: &[Value]) -> FakeResponse {
    ok_response(json!({"metadata": {"resourceVersion": "1"}, "items": items}))
}

pub fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("watch=true")
}
