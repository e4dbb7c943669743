//! Metrics and health endpoints of `rhumb scheduler`.

use std::net::TcpListener;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, Config};
use serde_json::json;

use crate::cluster::{anti_affinity_to_app, make_node, make_pod, placed, pod};
use crate::exposition::check_openmetrics;
use crate::leader_election::SchedulerProcess;
use crate::program::{FEW_CONTROLLERS, poll_until};
use crate::support::TestServer;

/// The response, or `None` while nothing listens.
async fn send(client: &Client, method: &str, path: &str) -> Option<(u16, String)> {
    let request = http::Request::builder().method(method).uri(path);
    let request = request
        .body(kube::client::Body::empty())
        .expect("a request");
    let response = client.send(request).await.ok()?;
    let code = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.ok()?;
    Some((code, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn metrics_and_health_are_served() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS]);
    let client = server.client_for_pods().await;
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let _scheduler = SchedulerProcess::start(&server, &["--metrics-address", &address]);
    let url = format!("http://{address}").parse().expect("a URL");
    let listener = Client::try_from(Config::new(url)).expect("a client");

    make_node(&client, "n1", "4").await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    make_pod(&pods, &pod("a", "x", anti_affinity_to_app("x"))).await;
    assert_eq!(placed(&pods, "a").await, "n1");
    make_pod(&pods, &pod("b", "x", anti_affinity_to_app("x"))).await;
    let gates = json!({"schedulingGates": [{"name": "wait"}]});
    make_pod(&pods, &pod("c", "y", gates)).await;

    let (_, text) = poll_until("the pods among the metrics", async || {
        let http_response = send(&listener, "GET", "/metrics").await?;
        let waits = |queue: &str| format!("scheduler_pending_pods{{queue=\"{queue}\"}} 1\n");
        let both = http_response.1.contains(&waits("unschedulable"))
            && http_response.1.contains(&waits("gated"));
        both.then_some(http_response)
    })
    .await;
    for line in [
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 1",
        "scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"default-scheduler\"} 1",
        "scheduler_pod_scheduling_duration_seconds_count{attempts=\"1\"} 1",
        "scheduler_pod_scheduling_attempts_count 1",
        "scheduler_pending_pods{queue=\"active\"} 0",
        "scheduler_pending_pods{queue=\"backoff\"} 0",
        "# TYPE scheduler_scheduling_attempt_duration_seconds histogram",
        "# TYPE scheduler_preemption_attempts counter",
        "# EOF",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    assert_eq!(check_openmetrics(&text), Ok(()), "{text}");
    for (method, path, code, says) in [
        ("GET", "/healthz", 200, "ok"),
        ("GET", "/livez", 200, "ok"),
        ("GET", "/readyz", 200, "ok"),
        ("GET", "/", 404, "404 page not found\n"),
        ("POST", "/metrics", 405, "only GET\n"),
    ] {
        let http_response = send(&listener, method, path).await;
        assert_eq!(
            http_response,
            Some((code, says.to_owned())),
            "{method} {path}"
        );
    }
}
