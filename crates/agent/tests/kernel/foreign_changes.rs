//! Changes that other processes make to the rules of a running agent.

use serde_json::Value;
use tokio::time::sleep;

use crate::agent_harness::{
    FakeApiServer, RunningAgent, TICK, WAIT_TIMEOUT, has_no_problem, node, until, until_reports,
};
use crate::network_namespace::{TestNetworkNamespace, is_root};

#[tokio::test]
async fn flushed_rules_are_restored() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let server = FakeApiServer::with_a_policy();
    let agent = RunningAgent::start(&server, &namespace).await;
    until_reports(&server, "a report", has_no_problem).await;
    let report_count = server.reports().len();
    let rules = namespace.rules();
    assert_eq!(agent.repairs(), 0);
    for (count, deed) in [(1, "flush ruleset"), (2, "flush table inet rhumb")] {
        namespace.nft_output(&[deed]);
        until("repaired", async || agent.repairs() == count).await;
        until("all rules", async || {
            let tables = namespace.nft_output(&["list", "tables"]);
            tables.contains("rhumb") && namespace.rules() == rules
        })
        .await;
    }
    // A single change is not reported as a problem, and the policies stay applied.
    let contested = "another process repeatedly changes or removes the rules of this agent";
    until_reports(&server, "no more changes", has_no_problem).await;
    for report in &server.reports()[report_count..] {
        assert!(
            has_no_problem(report) || report["problem"] == contested,
            "{report}"
        );
        assert_eq!(report["applied"][0]["name"], "q");
    }
    agent.shut_down().await;
}

#[tokio::test]
async fn foreign_changes_are_reverted() {
    if !is_root() {
        return;
    }
    for deed in [
        "delete element inet rhumb pods4 { 10.1.0.2 }",
        "delete element inet rhumb ingress4 { 10.1.0.2 }",
        "add element inet rhumb pods4 { 10.1.0.77 }",
        "insert rule inet rhumb filter-in accept",
        "flush chain inet rhumb g1-in",
        "add chain inet rhumb strange",
        "flush ruleset",
    ] {
        let namespace = TestNetworkNamespace::new();
        let server = FakeApiServer::with_a_policy();
        server.with(|state| state.nodes = vec![node()]);
        // The interval is so long that only notifications can reveal the change.
        let agent =
            RunningAgent::start_with_inspection_interval(&server, &namespace, WAIT_TIMEOUT * 10)
                .await;
        until_reports(&server, "a report", has_no_problem).await;
        let rules = namespace.rules();
        // Changes to other tables are ignored, even to one of the same name in another family.
        namespace.nft_apply(
            "add table inet others; add chain inet others c; add rule inet others c accept\n\
             add table ip rhumb; add chain ip rhumb c; delete table ip rhumb",
        );
        namespace.nft_output(&[deed]);
        until(deed, async || agent.repairs() == 1).await;
        until(deed, async || {
            let tables = namespace.nft_output(&["list", "tables"]);
            tables.contains("rhumb") && namespace.rules() == rules
        })
        .await;
        // A second change is only repaired by the next inspection.
        namespace.nft_output(&[deed]);
        sleep(TICK * 20).await;
        assert_eq!(agent.repairs(), 1, "{deed}");
        agent.shut_down().await;
    }
}

#[tokio::test]
async fn repeated_foreign_changes_are_reverted_and_reported() {
    if !is_root() {
        return;
    }
    let namespace = TestNetworkNamespace::new();
    let server = FakeApiServer::with_a_policy();
    let agent = RunningAgent::start(&server, &namespace).await;
    until_reports(&server, "a report", has_no_problem).await;
    let rules = namespace.rules();
    let contested = |report: &Value| {
        let problem = report["problem"].as_str();
        problem.is_some_and(|problem| problem.contains("repeatedly changes"))
    };
    let is_told = || server.with(|state| state.reports.last().is_some_and(contested));
    until("contested", async || {
        namespace.nft_try_apply("delete element inet rhumb ingress4 { 10.1.0.2 }");
        is_told()
    })
    .await;
    until_reports(&server, "no more changes", has_no_problem).await;
    until("all rules", async || namespace.rules() == rules).await;
    agent.shut_down().await;
}
