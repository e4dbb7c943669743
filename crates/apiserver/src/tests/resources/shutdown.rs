//! Requests during shutdown, when the caches no longer follow the store.

use http::Method;
use serde_json::{Value, json};

use super::server;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn consistent_reads_and_watches_get_503_during_shutdown() {
    let (_directory, server) = server().await;
    server.state.registry.cache_manager.close().await;
    let (code, _) = server
        .get(&format!("{CONFIG_MAPS}?resourceVersion=0"))
        .await;
    assert_eq!(code, 200, "reads from the cache still work");
    let config_map = json!({"metadata": {"name": "late"}});
    let (code, _) = server.create(CONFIG_MAPS, config_map).await;
    assert_eq!(code, 201, "running writes are completed");
    let check = |(code, status): (u16, Value)| {
        let retry = &status["details"]["retryAfterSeconds"];
        assert_eq!(
            (code, &status["reason"], &status["message"], retry),
            (
                503,
                &json!("ServiceUnavailable"),
                &json!("apiserver is shutting down"),
                &json!(1)
            )
        );
    };
    let watch = format!("{CONFIG_MAPS}?watch=true&resourceVersion=0");
    check(server.request(Method::GET, &watch, Value::Null).await);
    // The cache never applies the last write, so consistent reads fail.
    check(server.get(CONFIG_MAPS).await);
    check(server.get(&format!("{CONFIG_MAPS}/late")).await);
    check(
        server
            .get(&format!("{CONFIG_MAPS}?resourceVersion=100000"))
            .await,
    );
}
