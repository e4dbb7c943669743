//! The status controller in a process of its own: its metrics, and what it does after a restart.

use std::net::TcpListener;

use k8s_openapi::jiff::SignedDuration;
use kube::Config;

use super::*;
use crate::exposition::check_openmetrics;
use crate::separate_process::ControllersProcess;

/// The server runs only what tests need to create pods, and leaves the lease to the other process.
const SERVER_CONTROLLERS: &str = "--controllers=serviceaccount-controller";
const STATUS_CONTROLLER: [&str; 2] = [
    "--controllers=networkpolicy-status-controller",
    "--leader-elect-resource-name=policies",
];

async fn cluster_without_status() -> (TestServer, Client) {
    let server = TestServer::start_with(&[SERVER_CONTROLLERS]);
    let client = server.client_for_pods().await;
    create_node(&client, "a").await;
    create_pod(&client, "first", "a", "10.0.0.1").await;
    (server, client)
}

/// A report whose agent has observed the pods so far, and whose next heartbeat is overdue, but not yet stale.
async fn overdue_report(client: &Client, policy: &DynamicObject) -> Value {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let listed = pods.list(&Default::default()).await.expect("a list");
    let versions = listed
        .items
        .iter()
        .filter_map(ResourceExt::resource_version);
    let newest = versions
        .filter_map(|version| version.parse::<u64>().ok())
        .max();
    let mut report = applied(&[policy]);
    report["podsResourceVersion"] = json!(newest.expect("a pod").to_string());
    report["heartbeatSeconds"] = json!(30);
    let heartbeat = Timestamp::now() - SignedDuration::from_secs(38);
    report["lastHeartbeatTime"] = json!(Time(heartbeat));
    report
}

#[tokio::test]
async fn a_pod_that_was_added_while_the_controller_was_stopped_revokes_programmed() {
    let (server, client) = cluster_without_status().await;
    let kubeconfig = server.kubeconfig();
    let controller = ControllersProcess::start(&kubeconfig, &STATUS_CONTROLLER);
    let policy = create_policy(&client, "p", json!({})).await;
    replace_report(&client, "a", overdue_report(&client, &policy).await).await;
    let done = "True/Applied: applied on 1 of 1 node";
    wait_for_condition(&client, "p", "Programmed", done).await;
    controller.stop();
    create_pod(&client, "second", "a", "10.0.0.2").await;
    let _controller = ControllersProcess::start(&kubeconfig, &STATUS_CONTROLLER);
    let waiting = "Unknown/Pending: applied on 0 of 1 node; waiting for a (its agent has not observed all pods there)";
    wait_for_condition(&client, "p", "Programmed", waiting).await;
    replace_report(&client, "a", applied(&[&policy])).await;
    wait_for_condition(&client, "p", "Programmed", done).await;
}

/// The text of `/metrics`; `None` while nothing listens.
async fn metrics(client: &Client) -> Option<String> {
    let request = Request::get("/metrics").body(Vec::new());
    client.request_text(request.expect("a request")).await.ok()
}

#[tokio::test]
async fn metrics_of_conditions_are_served_by_a_separate_process() {
    let (server, client) = cluster_without_status().await;
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let flag = format!("--metrics-address={address}");
    let flags = [STATUS_CONTROLLER[0], STATUS_CONTROLLER[1], &flag];
    let _controller = ControllersProcess::start(&server.kubeconfig(), &flags);
    let url = format!("http://{address}").parse().expect("a URL");
    let listener = Client::try_from(Config::new(url)).expect("a client");

    // One policy is applied, one is pending with a problem, and one needs a version that the agent does not support.
    let plain = create_policy(&client, "plain", json!({})).await;
    let ambiguous = json!({"from": [{"ipBlock": {"cidr": "192.168.1.5/24"}}]});
    create_policy(&client, "ambiguous", ambiguous).await;
    let range = json!({"ports": [{"port": 80, "endPort": 90}]});
    create_policy(&client, "range", range).await;
    let mut report = applied(&[&plain]);
    report["versions"] = json!(VERSIONS[..5]);
    replace_report(&client, "a", report).await;
    let wanted = [
        "rhumb_network_policy_conditions{condition=\"Programmed\",status=\"True\"} 1",
        "rhumb_network_policy_conditions{condition=\"Programmed\",status=\"Unknown\"} 1",
        "rhumb_network_policy_conditions{condition=\"Programmed\",status=\"False\"} 1",
        "rhumb_network_policy_conditions{condition=\"Supported\",status=\"False\"} 1",
        "rhumb_network_policy_conditions{condition=\"Problem\",status=\"True\"} 1",
        "rhumb_network_policy_min_versions{min_version=\"1.21\"} 1",
        "rhumb_network_policy_nodes{heartbeat=\"alive\"} 1",
    ];
    let text = poll_until("the metrics", async || {
        let text = metrics(&listener).await?;
        let has_line = |line: &&str| text.lines().any(|shown| shown == *line);
        wanted.iter().all(has_line).then_some(text)
    })
    .await;
    assert_eq!(check_openmetrics(&text), Ok(()), "{text}");
    // The age of the oldest policy that is not programmed grows.
    poll_until("an age", async || {
        let text = metrics(&listener).await?;
        let age = text.lines().find_map(|line| {
            line.strip_prefix("rhumb_network_policy_oldest_unprogrammed_seconds ")
        });
        let age: u64 = age.expect("the metric").parse().expect("a number");
        (age > 0).then_some(())
    })
    .await;
}
