//! Tests of namespace deletion against a fake API server.

use std::sync::{Arc, Mutex};

use http::Request;
use serde_json::{Value, json};

use super::*;
use crate::testing::{discovery, fake_client};

/// Serves a terminating namespace `a` that contains one object.
#[derive(Default)]
struct FakeNamespaceApi {
    /// Discovery freshness of the group `example.com`.
    freshness: &'static str,
    /// The namespace's uid from the second read on.
    later_uid: &'static str,
    has_map: bool,
    reads: usize,
    condition: Value,
    deletions: usize,
    finalized: usize,
}

impl FakeNamespaceApi {
    fn respond(&mut self, request: &Request<Vec<u8>>) -> Option<Value> {
        let path = request.uri().path();
        match (request.method().as_str(), path) {
            (_, "/api") => Some(discovery("", "Current", ["maps", "pods"])),
            (_, "/apis") => Some(discovery("example.com", self.freshness, ["widgets"])),
            ("GET", "/api/v1/namespaces/a") => {
                self.reads += 1;
                let uid = match self.reads {
                    1 => "u",
                    _ => self.later_uid,
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

/// Processes the namespace once.
async fn process_and_record(
    freshness: &'static str,
    later_uid: &'static str,
) -> (bool, FakeNamespaceApi) {
    let server = Arc::new(Mutex::new(FakeNamespaceApi {
        freshness,
        later_uid,
        has_map: true,
        ..FakeNamespaceApi::default()
    }));
    let asked = server.clone();
    let client = fake_client(move |request| asked.lock().unwrap().respond(request));
    let is_ok = process_namespace(
        &client,
        &RemainingResourcesByNamespace::default(),
        "a".to_owned(),
    )
    .await
    .is_ok();
    let server = std::mem::take(&mut *server.lock().unwrap());
    (is_ok, server)
}

#[tokio::test]
async fn a_namespace_is_finalized_when_empty() {
    let (is_ok, server) = process_and_record("Current", "u").await;
    assert!(is_ok);
    assert_eq!((server.deletions, server.finalized), (1, 1));
    assert_eq!(server.condition["status"], "False");
}

#[tokio::test]
async fn a_namespace_is_not_finalized_while_discovery_is_incomplete() {
    let (is_ok, server) = process_and_record("Stale", "u").await;
    assert!(!is_ok, "the namespace must be retried");
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
async fn the_content_of_a_recreated_namespace_is_not_deleted() {
    let (is_ok, server) = process_and_record("Current", "another").await;
    assert!(is_ok);
    assert_eq!((server.deletions, server.finalized), (0, 0));
}
