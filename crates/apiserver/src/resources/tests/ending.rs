//! What a server that ends still answers.

use http::Method;
use serde_json::{Value, json};

use super::server;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn whoever_comes_too_late_is_sent_elsewhere() {
    let (_directory, server) = server().await;
    server.api.hub.close().await;
    let (code, _) = server
        .get(&format!("{CONFIG_MAPS}?resourceVersion=0"))
        .await;
    assert_eq!(code, 200, "what is there is shown");
    let made = json!({"metadata": {"name": "late"}});
    let (code, _) = server.create(CONFIG_MAPS, made).await;
    assert_eq!(code, 201, "what is under way is finished");
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
    check(server.ask(Method::GET, &watch, Value::Null).await);
    // The cache has not seen the last write, and will not.
    check(server.get(CONFIG_MAPS).await);
    check(server.get(&format!("{CONFIG_MAPS}/late")).await);
    check(
        server
            .get(&format!("{CONFIG_MAPS}?resourceVersion=100000"))
            .await,
    );
}
