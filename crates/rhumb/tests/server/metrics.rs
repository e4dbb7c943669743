//! The syntax of `/metrics`.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::support::{ClientCredentials, TestServer};
use crate::exposition::check_openmetrics;

#[tokio::test]
async fn a_prometheus_server_can_read_all_metrics() {
    let server = TestServer::start(&["--index-labels=pods#app"]);
    let mut client = server.http2(ClientCredentials::Admin).await;
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let request = client.request(Method::GET, &format!("{config_maps}?watch=true"), "");
    let watch = client.send(request).await.expect("a watch");
    for number in 0..3 {
        let body = json!({"metadata": {"name": format!("m{number}")}}).to_string();
        let created = client.send_request(Method::POST, config_maps, &body).await;
        assert_eq!(created.code, 201);
    }
    let list = format!("{config_maps}?labelSelector=app%3Dweb");
    assert_eq!(client.send_request(Method::GET, &list, "").await.code, 200);
    let written =
        "apiserver_watch_events_total{group=\"\",version=\"v1\",resource=\"configmaps\"} 3";
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let text = loop {
        let text = client
            .send_request(Method::GET, "/metrics", "")
            .await
            .text();
        if text.lines().any(|line| line == written) {
            break text;
        }
        assert!(tokio::time::Instant::now() < deadline, "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    drop(watch);
    assert_eq!(check_openmetrics(&text), Ok(()), "{text}");
    // The proposal's name below upstream's prefix for this cache, and the shorter one of the first releases.
    for name in [
        "apiserver_watch_cache_watch_dispatch_event_num_watchers",
        "apiserver_watch_cache_dispatch_event_num_watchers",
    ] {
        let infinite = format!("{name}_bucket{{le=\"+Inf\",resource=\"*core.ConfigMap\"}} ");
        assert!(text.contains(&infinite), "{infinite}\n{text}");
    }
}
