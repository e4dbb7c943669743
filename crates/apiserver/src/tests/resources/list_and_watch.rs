//! Options of list and watch.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{PODS, server};
use crate::testing::{InterferingStore, TestServer, TestServerOptions};
use rhumb_store::Store;

#[tokio::test]
async fn a_watch_with_a_negative_timeout_ends_immediately() {
    let (_directory, server) = server().await;
    for start in ["", "&resourceVersion=0", "&resourceVersion=1"] {
        let path = format!("/api/v1/namespaces?watch=true&timeoutSeconds=-1{start}");
        let response = tokio::time::timeout(Duration::from_secs(60), server.get(&path)).await;
        assert_eq!(response, Ok((200, Value::Null)), "{start}");
    }
    let (code, list) = server.get("/api/v1/namespaces?timeoutSeconds=-1").await;
    assert_eq!(code, 200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(4));
    server.close().await;
}

#[tokio::test]
async fn field_selectors_of_events_v1_select_stored_events() {
    const CORE: &str = "/api/v1/namespaces/default/events";
    const EVENTS_V1: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (_directory, server) = server().await;
    for name in ["a", "b"] {
        let pod = json!({"kind": "Pod", "namespace": "default", "name": name, "uid": name});
        let event = json!({
            "metadata": {"name": name}, "regarding": pod, "reason": "Why", "action": "Act", "type": "Normal",
            "eventTime": "2024-01-01T00:00:00.000000Z",
            "reportingController": format!("x/{name}"), "reportingInstance": "z",
        });
        let (code, created) = server.create(EVENTS_V1, event).await;
        assert_eq!(code, 201, "{created}");
    }
    for selector in [
        "regarding.name%3Da",
        "regarding.uid%3Da,regarding.kind%3DPod",
        "reportingController%3Dx/a",
        "reportingController!%3Dx/b,reason%3DWhy",
        "metadata.name%3Da,regarding.namespace%3Ddefault",
    ] {
        let path = format!("{EVENTS_V1}?fieldSelector={selector}");
        let (code, list) = server.get(&path).await;
        assert_eq!(code, 200, "{list}");
        assert_eq!(
            list["items"].as_array().map(Vec::len),
            Some(1),
            "{selector}"
        );
        assert_eq!(list["items"][0]["metadata"]["name"], "a", "{selector}");
        let watch = format!("{path}&watch=true&resourceVersion=0&timeoutSeconds=1");
        let (_, event) = server.get(&watch).await;
        assert_eq!(event["object"]["metadata"]["name"], "a", "{selector}");
        assert_eq!(event["object"]["regarding"]["name"], "a", "{selector}");
    }
    let (code, refused) = server
        .get(&format!(
            "{EVENTS_V1}?fieldSelector=involvedObject.name%3Da"
        ))
        .await;
    assert_eq!(code, 400);
    assert_eq!(
        refused["message"],
        "field label not supported: involvedObject.name"
    );
    let path = format!("{EVENTS_V1}?fieldSelector=regarding.name%3Da");
    let (code, deleted) = server.request(Method::DELETE, &path, Value::Null).await;
    assert_eq!(
        (code, deleted["items"].as_array().map(Vec::len)),
        (200, Some(1))
    );
    let (_, left) = server.get(CORE).await;
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left["items"][0]["involvedObject"]["name"], "b");
    server.close().await;
}

#[tokio::test]
async fn a_resource_version_with_a_sign_is_invalid() {
    let (_directory, server) = server().await;
    for query in [
        "resourceVersion=%2B1",
        "resourceVersion=%2B1&resourceVersionMatch=Exact",
        "resourceVersion=%2B1&watch=true",
    ] {
        let (code, response) = server.get(&format!("{PODS}?{query}")).await;
        assert_eq!(code, 400, "{query}");
        let message = response["message"].as_str().unwrap_or_default();
        let expect = "resourceVersion: Invalid value: \"+1\": strconv.ParseUint: parsing \"+1\": invalid syntax";
        assert!(message.ends_with(expect), "{message}");
    }
    server.close().await;
}

#[tokio::test]
async fn a_list_continues_on_another_server_of_the_same_store() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let directory = tempfile::tempdir().expect("create temporary directory");
    let store: Arc<dyn Store> = Arc::new(TestServer::open_store(directory.path()).await);
    let first = TestServer::with_store(store.clone(), TestServerOptions::default()).await;
    let second_server = TestServer::with_store(
        InterferingStore::delayed(store, Duration::from_millis(200)),
        TestServerOptions::default(),
    )
    .await;
    for name in ["a", "b", "c", "d"] {
        let (code, _) = first
            .create(MAPS, json!({"metadata": {"name": name}}))
            .await;
        assert_eq!(code, 201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
        items.filter_map(name).collect()
    };
    let (_, page) = first.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&page), ["a", "b"]);
    let token = page["metadata"]["continue"].as_str().unwrap_or_default();
    // Objects created after the first page do not appear in the list.
    first
        .create(MAPS, json!({"metadata": {"name": "cc"}}))
        .await;
    let (code, second_page) = second_server
        .get(&format!("{MAPS}?limit=10&continue={token}"))
        .await;
    assert_eq!(code, 200, "{second_page}");
    assert_eq!(names(&second_page), ["c", "d"]);
    assert_eq!(
        second_page["metadata"]["resourceVersion"],
        page["metadata"]["resourceVersion"]
    );
    second_server.close().await;
    first.close().await;
}

#[tokio::test]
async fn a_continue_token_of_a_quiet_resource_expires() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    let directory = tempfile::tempdir().expect("create temporary directory");
    let options = TestServerOptions {
        compaction_interval: Duration::from_millis(100),
        ..TestServerOptions::default()
    };
    let server = TestServer::open(directory.path(), options).await;
    for name in ["a", "b"] {
        let (code, _) = server
            .create(MAPS, json!({"metadata": {"name": name}}))
            .await;
        assert_eq!(code, 201);
    }
    let (_, page) = server.get(&format!("{MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap_or_default();
    let rest = format!("{MAPS}?limit=1&continue={token}");
    assert_eq!(server.get(&rest).await.0, 200);

    // Other resources change, so that there is a newer revision to compact to.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let expired = loop {
        let secret = json!({"metadata": {"generateName": "s-"}});
        assert_eq!(server.create(SECRETS, secret).await.0, 201);
        match server.get(&rest).await {
            (200, page) => assert_eq!(page["items"][0]["metadata"]["name"], "b"),
            (code, expired) => break (code, expired),
        }
        assert!(tokio::time::Instant::now() < deadline, "the token is valid");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let (code, expired) = expired;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    // The rest of the list can still be read, as it is now.
    let token = expired["metadata"]["continue"].as_str().unwrap_or_default();
    let (code, page) = server
        .get(&format!("{MAPS}?limit=1&continue={token}"))
        .await;
    assert_eq!(code, 200, "{page}");
    assert_eq!(page["items"][0]["metadata"]["name"], "b");
    server.close().await;
}
