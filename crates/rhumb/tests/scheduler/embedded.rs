//! The embedded scheduler of `rhumb up`.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use tokio::time::sleep;

use crate::cluster::{
    anti_affinity_to_app, check_anti_affinity, make_node, make_pod, placed, pod,
    unschedulable_condition,
};
use crate::program::{FEW_CONTROLLERS, NO_CONTROLLERS, poll_until};
use crate::support::TestServer;

#[tokio::test]
async fn pods_are_scheduled_or_have_a_reason() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
    let client = server.client_for_pods().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    make_pod(&pods, &pod("a", "x", anti_affinity_to_app("x"))).await;
    let said = poll_until("a reason", async || {
        unschedulable_condition(&pods.get("a").await.ok()?)
    })
    .await;
    assert_eq!(said.0, "Unschedulable");
    assert_eq!(said.1, "no nodes available to schedule pods");
    make_node(&client, "n1", "4").await;
    assert_eq!(placed(&pods, "a").await, "n1");

    make_pod(&pods, &pod("b", "x", anti_affinity_to_app("x"))).await;
    let said = poll_until("a reason", async || {
        unschedulable_condition(&pods.get("b").await.ok()?)
    })
    .await;
    assert!(
        said.1.starts_with(
            "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
        ),
        "{}",
        said.1
    );
    make_node(&client, "n2", "4").await;
    assert_eq!(placed(&pods, "b").await, "n2");
    assert_eq!(check_anti_affinity(&pods, "x").await.len(), 2);

    let gated = pod("c", "y", json!({"schedulingGates": [{"name": "wait"}]}));
    make_pod(&pods, &gated).await;
    let said = poll_until("a reason", async || {
        unschedulable_condition(&pods.get("c").await.ok()?)
    })
    .await;
    assert_eq!(said.0, "SchedulingGated");

    let request = http::Request::get("/metrics")
        .body(Vec::new())
        .expect("a request");
    let metrics = client.request_text(request).await.expect("metrics");
    let line =
        "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 2";
    assert!(metrics.lines().any(|shown| shown == line), "{metrics}");
    for start in [
        "scheduler_pending_pods{queue=\"gated\"} 1",
        "scheduler_queue_incoming_pods_total{queue=\"gated\",event=\"UnschedulablePodAdd\"} 1",
        "scheduler_queue_incoming_pods_total{queue=\"unschedulable\",event=\"ScheduleAttemptFailure\"} ",
    ] {
        assert!(metrics.contains(start), "{start}\n{metrics}");
    }
}

#[tokio::test]
async fn selecting_controllers_disables_the_embedded_scheduler() {
    for flags in [
        &[NO_CONTROLLERS][..],
        &[FEW_CONTROLLERS],
        &["--scheduler=false"],
    ] {
        let server = TestServer::start_with(flags);
        let client = server.client().await;
        sleep(Duration::from_secs(1)).await;
        let leases: Api<Lease> = Api::namespaced(client, "kube-system");
        let lease = leases.get_opt("kube-scheduler").await.expect("a read");
        assert_eq!(lease, None, "{flags:?}");
    }
}

#[tokio::test]
async fn scheduling_continues_after_the_server_is_killed() {
    let mut server = TestServer::start_with(&[FEW_CONTROLLERS, "--scheduler"]);
    let client = server.client_for_pods().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for node in 0..8 {
        make_node(&client, &format!("n{node}"), "4").await;
    }
    for name in ["a0", "a1", "a2", "a3"] {
        make_pod(&pods, &pod(name, "x", anti_affinity_to_app("x"))).await;
    }
    server.kill();
    server.start_again();
    let client = server.client_for_pods().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for name in ["a4", "a5", "a6", "a7"] {
        make_pod(&pods, &pod(name, "x", anti_affinity_to_app("x"))).await;
    }
    poll_until("all placed", async || {
        (check_anti_affinity(&pods, "x").await.len() == 8).then_some(())
    })
    .await;
    server.stop();
}
