//! Lists and watches, as their options have them.

use std::time::Duration;

use serde_json::Value;

use super::{PODS, server};

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
