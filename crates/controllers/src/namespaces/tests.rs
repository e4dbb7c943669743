//! What holds up the end of a namespace, at a server that is not one.

use std::sync::{Arc, Mutex};

use http::Request;
use serde_json::{Value, json};

use super::*;
use crate::testing::{client, discovery};

/// A namespace `a` that ends, with a map in it.
#[derive(Default)]
struct Server {
    /// Of the group `example.com`.
    freshness: &'static str,
    /// The uid of the namespace from its second reading on.
    uid_later: &'static str,
    has_map: bool,
    reads: usize,
    condition: Value,
    deletions: usize,
    finalized: usize,
}

impl Server {
    fn answer(&mut self, request: &Request<Vec<u8>>) -> Option<Value> {
        let path = request.uri().path();
        match (request.method().as_str(), path) {
            (_, "/api") => Some(discovery("", "Current", ["maps", "pods"])),
            (_, "/apis") => Some(discovery("example.com", self.freshness, ["widgets"])),
            ("GET", "/api/v1/namespaces/a") => {
                self.reads += 1;
                let uid = match self.reads {
                    1 => "u",
                    _ => self.uid_later,
                };
                Some(json!({
                    "apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": "a", "uid": uid, "deletionTimestamp": "2026-01-01T00:00:00Z"},
                    "spec": {"finalizers": ["kubernetes"]},
                }))
            }
            ("PUT", path) => {
                let body: Value = serde_json::from_slice(request.body()).unwrap();
                if path == "/api/v1/namespaces/a/status" {
                    self.condition = body["status"]["conditions"][0].clone();
                } else {
                    self.finalized += 1;
                }
                Some(body)
            }
            ("DELETE", _) => {
                self.deletions += 1;
                self.has_map = false;
                Some(json!({"metadata": {}, "items": []}))
            }
            (_, path) => {
                let has_map = self.has_map && path.ends_with("/maps");
                let items = match has_map {
                    true => json!([{"metadata": {"name": "m"}}]),
                    false => json!([]),
                };
                Some(json!({"metadata": {}, "items": items}))
            }
        }
    }
}

/// Works on the namespace once.
async fn worked_on(freshness: &'static str, uid_later: &'static str) -> (bool, Server) {
    let server = Arc::new(Mutex::new(Server {
        freshness,
        uid_later,
        has_map: true,
        ..Server::default()
    }));
    let asked = server.clone();
    let client = client(move |request| asked.lock().unwrap().answer(request));
    let is_ok = end(&client, &Waits::default(), "a".to_owned())
        .await
        .is_ok();
    let server = std::mem::take(&mut *server.lock().unwrap());
    (is_ok, server)
}

#[tokio::test]
async fn it_ends_when_nothing_is_left() {
    let (is_ok, server) = worked_on("Current", "u").await;
    assert!(is_ok);
    assert_eq!((server.deletions, server.finalized), (1, 1));
    assert_eq!(server.condition["status"], "False");
}

#[tokio::test]
async fn it_does_not_end_while_some_kinds_cannot_be_seen() {
    let (is_ok, server) = worked_on("Stale", "u").await;
    assert!(!is_ok, "it is tried again");
    assert_eq!((server.deletions, server.finalized), (1, 0));
    assert_eq!(
        server.condition["type"],
        "NamespaceDeletionDiscoveryFailure"
    );
    assert_eq!(server.condition["status"], "True");
    assert_eq!(server.condition["reason"], "DiscoveryFailed");
    assert_eq!(
        server.condition["message"],
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
         example.com/v1: stale GroupVersion discovery: example.com/v1"
    );
}

#[tokio::test]
async fn what_is_in_a_new_namespace_of_the_same_name_stays() {
    let (is_ok, server) = worked_on("Current", "another").await;
    assert!(is_ok);
    assert_eq!((server.deletions, server.finalized), (0, 0));
}
