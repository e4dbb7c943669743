//! A server that is not one: it answers as a test says.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// What a server says to a request; `None` is nothing, for as long as anybody waits.
pub type Answer = Option<(u16, Value)>;

/// A client whose requests are answered by a function; `None` is answered with 404. Watches say nothing.
pub fn client(
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
pub fn server(
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

/// A client whose requests are answered by a function that sees all of them.
pub fn connect(answer: impl Fn(&Request<Vec<u8>>) -> Answer + Send + Sync + 'static) -> Client {
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

pub fn ok(body: Value) -> Answer {
    Some((200, body))
}

pub fn refused(code: u16) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": "Refused", "message": "no",
    });
    Some((code, status))
}

pub fn list(items: &[Value]) -> Answer {
    ok(json!({"metadata": {"resourceVersion": "1"}, "items": items}))
}

pub fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.contains("watch=true")
}
