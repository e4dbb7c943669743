//! Whole agents, on real kernels and beside servers that say what a test wants.

use std::sync::Arc;
use std::time::Duration;

use rhumb_agent::nft;
use rhumb_agent::{Agent, Options};
use serde_json::{Value, json};

use crate::agents::{NODE, Running, Server, is_well, node, pod, policy, until, until_reports};
use crate::namespace::{Namespace, is_root, table};

/// What a kernel says that has no room for another chain that packets come to.
const NO_ROOM: &str =
    "the kernel refused the rules: Argument list too long in: add chain inet rhumb egress { type";
/// How many chains of that sort a kernel takes, and those of an agent among them.
const CHAINS_MAX: usize = 1024;
const CHAINS_OF_AGENT: usize = 2;

/// Others' chains of that sort.
fn crowd(numbers: std::ops::Range<usize>) -> String {
    let mut commands = "add table inet crowd\n".to_owned();
    for number in numbers {
        commands +=
            &format!("add chain inet crowd c{number} {{ type filter hook forward priority 0; }}\n");
    }
    commands
}

#[tokio::test]
async fn nothing_is_written_before_all_has_been_seen_and_nothing_is_reported_before_it_is_written()
{
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.hidden = vec!["networkpolicies"];
        state.pods = vec![pod("p", "10.1.0.2")];
        state.policies = vec![policy("q", 3)];
        state.nodes = vec![node()];
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    // All others have been listed, and policies asked for in vain.
    let missing = Some("not seen yet: network policies".to_owned());
    until("lists", async || agent.metrics.missing() == missing).await;
    let refused = "GET /apis/networking.k8s.io/v1/networkpolicies".to_owned();
    until("policies", async || {
        server.with(|state| state.asked.contains(&refused))
    })
    .await;
    assert_eq!(namespace.ask(&["list", "tables"]), "");
    // What was told of the kernel before it began anew is taken back, and no more is told.
    let report = until_reports(&server, "that there are no rules", |_| true).await;
    assert_eq!(report["applied"], json!([]));
    let problem = "the agent has been started, and the kernel has no rules yet";
    assert_eq!(report["problem"], problem);
    assert_eq!(server.reports().len(), 1);
    server.with(|state| state.hidden.clear());
    let report = until_reports(&server, "a report", is_well).await;
    assert_eq!(agent.metrics.missing(), None);
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
    });
    assert_eq!(report, expected);
    let rules = namespace.rules().join("\n");
    for part in ["10.1.0.2", "g1-in", "\"len\":24"] {
        assert!(rules.contains(part), "{part}\n{rules}");
    }
    agent.end().await;
    assert_eq!(namespace.rules().join("\n"), rules);
}

#[tokio::test]
async fn a_change_reaches_the_kernel_and_then_the_report() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.pods = vec![pod("p", "10.1.0.2")];
        state.refuses_policy_watches = true;
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    let report = until_reports(&server, "a report", is_well).await;
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
    agent.end().await;
}

#[tokio::test]
async fn a_kernel_that_takes_no_rules_is_told_of_and_tried_again() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::with_a_policy();
    let agent = Running::start(&server, &namespace).await;
    until_reports(&server, "applied", |report| {
        report["applied"][0]["name"] == "q"
    })
    .await;
    let rules = namespace.rules();
    // There is no room for a second table of the agent beside the first, which somebody spoils.
    let others = CHAINS_MAX - CHAINS_OF_AGENT;
    namespace.tell(&crowd(0..others));
    namespace.ask(&["flush chain inet rhumb judge-in"]);
    let has_problem = |report: &Value| {
        let problem = report["problem"].as_str();
        problem.is_some_and(|problem| problem.starts_with(NO_ROOM))
    };
    let report = until_reports(&server, "the problem", has_problem).await;
    assert_eq!(report["applied"][0]["name"], "q");
    // And then none at all. The agent may be faster than whoever takes its place.
    let take_away = || {
        namespace.ask(&["add table inet rhumb; delete table inet rhumb"]);
        namespace.try_to_tell(&crowd(others..CHAINS_MAX))
    };
    until("no room", async || take_away()).await;
    let report = until_reports(&server, "no rules", |report| report["applied"] == json!([])).await;
    assert!(has_problem(&report), "{report}");
    namespace.ask(&["delete table inet crowd"]);
    let report = until_reports(&server, "no problem", is_well).await;
    assert_eq!(report["applied"][0]["name"], "q");
    assert_eq!(namespace.rules(), rules);
    agent.end().await;
}

#[tokio::test]
async fn a_report_that_somebody_deletes_is_written_again() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|_| {});
    let agent = Running::start(&server, &namespace).await;
    let well = || {
        let reports = server.reports().into_iter();
        reports.filter(is_well).collect::<Vec<Value>>()
    };
    until("two reports", async || well().len() >= 2).await;
    assert_eq!(well()[0], well()[1]);
    agent.end().await;
}

#[tokio::test]
async fn a_report_that_a_server_refuses_is_written_when_it_takes_it() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::new(|state| {
        state.is_broken = true;
        state.has_report = true;
    });
    let agent = Running::start(&server, &namespace).await;
    let tries = |asked: &[String]| asked.iter().filter(|it| it.starts_with("PUT ")).count();
    until("tries", async || {
        server.with(|state| tries(&state.asked) >= 2)
    })
    .await;
    server.with(|state| state.is_broken = false);
    until_reports(&server, "a report", is_well).await;
    agent.end().await;
}

#[tokio::test]
async fn a_node_that_cannot_have_rules_is_told_of() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    namespace.tell(&crowd(0..CHAINS_MAX));
    let server = Server::default();
    for (connection, said) in [
        (
            Err(nft::Error::Connect(std::io::ErrorKind::Unsupported.into())),
            "the kernel cannot be told any rules: unsupported".to_owned(),
        ),
        (Ok(namespace.connection()), NO_ROOM.to_owned()),
    ] {
        let options = Options {
            node: NODE.to_owned(),
            agent: "test".to_owned(),
            versions: vec!["1.3".to_owned()],
            table: table(),
            hold_unknown_pods: true,
            inspect_every: Duration::from_secs(10),
            metrics: Arc::default(),
        };
        let error = Agent::prepare(options, connection, &server.client())
            .await
            .unwrap_err()
            .to_string();
        let said = format!("the kernel cannot have the rules that are needed: {said}");
        assert!(error.starts_with(&said), "{error}");
        let report = server.reports().pop().unwrap();
        assert_eq!(report["problem"], json!(error));
        assert_eq!(report["applied"], json!([]));
    }
}
