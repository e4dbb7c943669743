//! Options of list and watch.

use std::sync::Arc;
use std::time::Duration;

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
