//! What is asked of a server that answers as a test says.

mod asking;
mod ending;
mod starting;
mod writing;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Instant as StdInstant;

use http::{Method, Request};
use rhumb_client::testing::{self, Answer, ok, refused};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::requests::{Bound, Failure};
use super::writer::Decided;
use super::*;
use crate::engine::{Nominated, Outcome, Reason};
use crate::model::PodKey;

/// What was asked: the method, the end of the path, and the body.
type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

fn server(
    mut answer: impl FnMut(&str, &str, &Value) -> Answer + Send + 'static,
) -> (Server, Asked) {
    let asked = Asked::default();
    let noted = asked.clone();
    let answer = Mutex::new(move |request: &Request<Vec<u8>>| {
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let end = request.uri().path().rsplit('/').next().unwrap_or_default();
        let method = request.method().as_str();
        noted
            .lock()
            .unwrap()
            .push((method.to_owned(), end.to_owned(), body.clone()));
        answer(method, end, &body)
    });
    let client = testing::connect(move |request| (answer.lock().unwrap())(request));
    (Server::new(client, Lead::unasked()), asked)
}

/// The methods and ends of paths.
fn steps(asked: &Asked) -> Vec<String> {
    let asked = asked.lock().unwrap();
    asked
        .iter()
        .map(|(method, end, _)| format!("{method} {end}"))
        .collect()
}

fn pod(version: &str) -> Pod {
    Pod {
        key: PodKey {
            namespace: "ns".into(),
            name: "p".into(),
        },
        uid: "u".into(),
        resource_version: version.into(),
        scheduler_name: "s".into(),
        ..Pod::default()
    }
}

/// A pod of this uid and version, on a node or on none.
fn shown(uid: &str, version: &str, node: &str) -> Answer {
    ok(json!({
        "metadata": {"name": "p", "uid": uid, "resourceVersion": version},
        "spec": {"nodeName": node},
    }))
}
