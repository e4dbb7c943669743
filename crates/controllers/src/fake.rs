//! A server for tests that answers as they say.

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

/// Each request is a method, a path, and a query. All that were asked are kept, without their queries.
pub(crate) fn server(
    answer: impl FnMut(&str, &str, &str) -> Answer + Send + 'static,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let asked = requests.clone();
    let answer = Arc::new(Mutex::new(answer));
    let service = tower::service_fn(move |request: Request<Body>| {
        let method = request.method().as_str();
        let path = request.uri().path();
        asked.lock().unwrap().push(format!("{method} {path}"));
        let query = request.uri().query().unwrap_or_default();
        let answer = (answer.lock().unwrap())(method, path, query);
        async move {
            let Some((code, body)) = answer else {
                return std::future::pending().await;
            };
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), requests)
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
