//! A server that is not one: it answers as a test says.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// A client whose requests are answered by a function; `None` is answered with 404. Watches say nothing.
pub(crate) fn client(
    answer: impl Fn(&Request<Vec<u8>>) -> Option<Value> + Send + Sync + 'static,
) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap().to_vec();
            let request = Request::from_parts(parts, body);
            let answer = answer(&request);
            if is_watch(&request) {
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
    Client::new(service, "default")
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
