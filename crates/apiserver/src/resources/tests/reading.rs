//! Lists and watches, as their options have them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::{PODS, server};
use crate::testing::{Others, Server, Setup};
use rhumb_store::Store;

#[tokio::test]
async fn a_watch_of_negative_length_is_over_at_once() {
    let (_directory, server) = server().await;
    for start in ["", "&resourceVersion=0", "&resourceVersion=1"] {
        let path = format!("/api/v1/namespaces?watch=true&timeoutSeconds=-1{start}");
        let answer = tokio::time::timeout(Duration::from_secs(60), server.get(&path)).await;
        assert_eq!(answer, Ok((200, Value::Null)), "{start}");
    }
    let (code, list) = server.get("/api/v1/namespaces?timeoutSeconds=-1").await;
    assert_eq!(code, 200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(4));
    server.close().await;
}

#[tokio::test]
async fn a_version_with_a_sign_is_none() {
    let (_directory, server) = server().await;
    for query in [
        "resourceVersion=%2B1",
        "resourceVersion=%2B1&resourceVersionMatch=Exact",
        "resourceVersion=%2B1&watch=true",
    ] {
        let (code, answer) = server.get(&format!("{PODS}?{query}")).await;
        assert_eq!(code, 400, "{query}");
        let message = answer["message"].as_str().unwrap_or_default();
        let expect = "resourceVersion: Invalid value: \"+1\": strconv.ParseUint: parsing \"+1\": invalid syntax";
        assert!(message.ends_with(expect), "{message}");
    }
    server.close().await;
}

#[tokio::test]
async fn a_list_goes_on_at_another_server_on_the_same_store() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let directory = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn Store> = Arc::new(Server::store(directory.path()).await);
    let first = Server::on(store.clone(), Setup::default()).await;
    let second = Server::on(
        Others::late(store, Duration::from_millis(200)),
        Setup::default(),
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
    // What comes later is no part of the list.
    first
        .create(MAPS, json!({"metadata": {"name": "cc"}}))
        .await;
    let (code, rest) = second
        .get(&format!("{MAPS}?limit=10&continue={token}"))
        .await;
    assert_eq!(code, 200, "{rest}");
    assert_eq!(names(&rest), ["c", "d"]);
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        page["metadata"]["resourceVersion"]
    );
    second.close().await;
    first.close().await;
}
