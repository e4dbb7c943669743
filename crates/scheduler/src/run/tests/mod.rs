//! Tests of the API client side against a fake server.

mod events;
mod leader_client;
mod outcome_writer;
mod readiness;
mod shutdown;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant as StdInstant;

use http::{Method, Request};
use rhumb_client::testing::{self, FakeResponse, ok_response, status_response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::leader_client::{BindingResult, RequestError};
use super::outcome_writer::FinishedCycle;
use super::*;
use crate::engine::{NominationUpdate, PodScheduledReason, SchedulingOutcome};
use crate::model::NamespacedName;

/// The requests received: method, last path segment, body.
type RequestLog = Arc<Mutex<Vec<(String, String, Value)>>>;

fn fake_server(
    mut answer: impl FnMut(&str, &str, &Value) -> FakeResponse + Send + 'static,
) -> (LeaderClient, RequestLog) {
    let requests = RequestLog::default();
    let log = requests.clone();
    let answer = Mutex::new(move |request: &Request<Vec<u8>>| {
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let end = request.uri().path().rsplit('/').next().unwrap_or_default();
        let method = request.method().as_str();
        log.lock()
            .unwrap()
            .push((method.to_owned(), end.to_owned(), body.clone()));
        answer(method, end, &body)
    });
    let client = testing::fake_client_with(move |request| (answer.lock().unwrap())(request));
    (
        LeaderClient::new(client, LeadershipDeadline::without_lease()),
        requests,
    )
}

/// The requests as `METHOD last-path-segment`.
fn logged_requests(requests: &RequestLog) -> Vec<String> {
    let requests = requests.lock().unwrap();
    requests
        .iter()
        .map(|(method, end, _)| format!("{method} {end}"))
        .collect()
}

fn pod(version: &str) -> Pod {
    Pod {
        key: NamespacedName {
            namespace: "ns".into(),
            name: "p".into(),
        },
        uid: "u".into(),
        resource_version: version.into(),
        scheduler_name: "s".into(),
        ..Pod::default()
    }
}

/// A pod response with this uid and resourceVersion; an empty node means unassigned.
fn pod_response(uid: &str, version: &str, node: &str) -> FakeResponse {
    ok_response(json!({
        "metadata": {"name": "p", "uid": uid, "resourceVersion": version},
        "spec": {"nodeName": node},
    }))
}
