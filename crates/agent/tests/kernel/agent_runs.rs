//! Complete agents with real kernels and fake API servers.

use std::sync::Arc;
use std::time::Duration;

use rhumb_agent::nft;
use rhumb_agent::{AgentOptions, NetworkPolicyAgent};
use serde_json::{Value, json};

use crate::agent_harness::{
    FakeApiServer, NODE, RunningAgent, has_no_problem, node, pod, policy, until, until_reports,
};
use crate::network_namespace::{TestNetworkNamespace, is_root, table};

/// The error of a kernel that has reached its limit of base chains.
const NO_ROOM: &str =
    "the kernel rejected the rules: Argument list too long in: add chain inet rhumb egress { type";
/// The kernel's limit of base chains per hook, and how many of them an agent needs.
const CHAINS_MAX: usize = 1024;
const CHAINS_OF_AGENT: usize = 2;

/// nft commands that add base chains of another process.
fn foreign_base_chains(numbers: std::ops::Range<usize>) -> String {
    let mut commands = "add table inet crowd\n".to_owned();
    for number in numbers {
        commands +=
            &format!("add chain inet crowd c{number} {{ type filter hook forward priority 0; }}\n");
    }
    commands
}

#[tokio::test]
async fn rules_wait_for_initial_lists_and_reports_wait_for_rules() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let server = FakeApiServer::new(|state| {
        state.unlistable = vec!["networkpolicies"];
        state.pods = vec![pod("p", "10.1.0.2")];
        state.policies = vec![policy("q", 3)];
        state.nodes = vec![node()];
    });
    let agent = RunningAgent::start(&server, &namespace).await;
    // All other resources have been listed; listing policies fails.
    let missing = Some("not listed yet: network policies".to_owned());
    until("lists", async || {
        agent.metrics.not_ready_reason() == missing
    })
    .await;
    let refused = "GET /apis/networking.k8s.io/v1/networkpolicies".to_owned();
    until("policies", async || {
        server.with(|state| state.requests.contains(&refused))
    })
    .await;
    assert_eq!(namespace.nft_output(&["list", "tables"]), "");
    // Only one report is written: it withdraws what an earlier report may have said before a reboot.
    let report = until_reports(&server, "a report without rules", |_| true).await;
    assert_eq!(report["applied"], json!([]));
    let problem = "the agent has started; the kernel has no rules yet";
    assert_eq!(report["problem"], problem);
    assert_eq!(server.reports().len(), 1);
    server.with(|state| state.unlistable.clear());
    let report = until_reports(&server, "a report", has_no_problem).await;
    assert_eq!(agent.metrics.not_ready_reason(), None);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let expected = json!({
        "apiVersion": "networking.rhumb.dev/v1alpha1",
        "kind": "NetworkPolicyNode",
        "metadata": {
            "name": NODE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "node-uid"}],
        },
        "agent": "test",
        "bootID": boot.trim(),
        "versions": ["1.3", "1.8"],
        "unimplemented": report["unimplemented"],
        "applied": [{"namespace": "a", "name": "q", "uid": "q", "generation": 3}],
        "heartbeatSeconds": 60,
        "lastHeartbeatTime": report["lastHeartbeatTime"],
        "podsResourceVersion": "1",
    });
    assert_eq!(report, expected);
    let rules = namespace.rules().join("\n");
    for part in ["10.1.0.2", "g1-in", "\"len\":24"] {
        assert!(rules.contains(part), "{part}\n{rules}");
    }
    agent.shut_down().await;
    assert_eq!(namespace.rules().join("\n"), rules);
}

#[tokio::test]
async fn change_reaches_the_kernel_before_the_report() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let server = FakeApiServer::new(|state| {
        state.pods = vec![pod("p", "10.1.0.2")];
        state.refuses_policy_watches = true;
    });
    let agent = RunningAgent::start(&server, &namespace).await;
    let report = until_reports(&server, "a report", has_no_problem).await;
    assert_eq!(report["applied"], json!([]));
    assert!(report["metadata"].get("ownerReferences").is_none());
    let event = json!({"type": "ADDED", "object": policy("q", 1)});
    server.with(|state| state.policy_events.push(event));
    let has_policy = |report: &Value| report["applied"][0]["name"] == "q";
    until_reports(&server, "the policy", has_policy).await;
    let shown = namespace.listing();
    assert!(shown.contains("comment \"a/q\""), "{shown}");
    let text = agent.metrics.text().unwrap();
    for line in [
        "rhumb_agent_event_to_kernel_seconds_count 1",
        "rhumb_agent_policies 1",
        "rhumb_agent_sync_failures_total 0",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
    }
    agent.shut_down().await;
}

#[tokio::test]
async fn kernel_rejection_is_reported_and_retried() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let server = FakeApiServer::with_a_policy();
    let agent = RunningAgent::start(&server, &namespace).await;
    until_reports(&server, "applied", |report| {
        report["applied"][0]["name"] == "q"
    })
    .await;
    let rules = namespace.rules();
    // There is no room for a second table of the agent beside the first, which another process damages.
    let others = CHAINS_MAX - CHAINS_OF_AGENT;
    namespace.nft_apply(&foreign_base_chains(0..others));
    namespace.nft_output(&["flush chain inet rhumb filter-in"]);
    let has_problem = |report: &Value| {
        let problem = report["problem"].as_str();
        problem.is_some_and(|problem| problem.starts_with(NO_ROOM))
    };
    let report = until_reports(&server, "the problem", has_problem).await;
    assert_eq!(report["applied"][0]["name"], "q");
    // Then there is no room at all. The agent may take the free chains first, so try until it does not.
    let take_away = || {
        namespace.nft_output(&["add table inet rhumb; delete table inet rhumb"]);
        namespace.nft_try_apply(&foreign_base_chains(others..CHAINS_MAX))
    };
    until("no room", async || take_away()).await;
    let report = until_reports(&server, "no rules", |report| report["applied"] == json!([])).await;
    assert!(has_problem(&report), "{report}");
    namespace.nft_output(&["delete table inet crowd"]);
    let report = until_reports(&server, "no problem", has_no_problem).await;
    assert_eq!(report["applied"][0]["name"], "q");
    assert_eq!(namespace.rules(), rules);
    agent.shut_down().await;
}

#[tokio::test]
async fn rejected_report_is_retried() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let server = FakeApiServer::new(|state| {
        state.rejects_reports = true;
    });
    let agent = RunningAgent::start(&server, &namespace).await;
    let tries = |asked: &[String]| asked.iter().filter(|it| it.starts_with("PUT ")).count();
    until("tries", async || {
        server.with(|state| tries(&state.requests) >= 2)
    })
    .await;
    server.with(|state| state.rejects_reports = false);
    until_reports(&server, "a report", has_no_problem).await;
    agent.shut_down().await;
}

#[tokio::test]
async fn node_without_kernel_support_is_reported() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    namespace.nft_apply(&foreign_base_chains(0..CHAINS_MAX));
    let server = FakeApiServer::default();
    for (connection, expected_error) in [
        (
            Err(nft::NftablesError::Connect(
                std::io::ErrorKind::Unsupported.into(),
            )),
            "failed to open a netlink socket for nftables: unsupported".to_owned(),
        ),
        (Ok(namespace.connection()), NO_ROOM.to_owned()),
    ] {
        let options = AgentOptions {
            node: NODE.to_owned(),
            agent: "test".to_owned(),
            versions: vec!["1.3".to_owned()],
            table: table(),
            block_unknown_pods: true,
            inspection_interval: Duration::from_secs(10),
            heartbeat_interval: Duration::from_secs(60),
            metrics: Arc::default(),
        };
        let error = NetworkPolicyAgent::prepare(options, connection, &server.client())
            .await
            .unwrap_err()
            .to_string();
        let expected_error =
            format!("the kernel does not support the required rules: {expected_error}");
        assert!(error.starts_with(&expected_error), "{error}");
        let report = server.reports().pop().unwrap();
        assert_eq!(report["problem"], json!(error));
        assert_eq!(report["applied"], json!([]));
    }
}
