//! What others do to the rules of an agent that runs.

use serde_json::Value;
use tokio::time::sleep;

use crate::agents::{PATIENCE, Running, Server, TICK, is_well, node, until, until_reports};
use crate::namespace::{Namespace, is_root};

#[tokio::test]
async fn rules_that_somebody_else_flushes_are_back_soon() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::with_a_policy();
    let agent = Running::start(&server, &namespace).await;
    until_reports(&server, "a report", is_well).await;
    let told = server.reports().len();
    let rules = namespace.rules();
    assert_eq!(agent.repairs(), 0);
    for (count, deed) in [(1, "flush ruleset"), (2, "flush table inet rhumb")] {
        namespace.ask(&[deed]);
        until("repaired", async || agent.repairs() == count).await;
        until("all rules", async || {
            let tables = namespace.ask(&["list", "tables"]);
            tables.contains("rhumb") && namespace.rules() == rules
        })
        .await;
    }
    // It is not told as long as it happens once, and what is enforced stays.
    let contested = "somebody else changes or removes the rules of this agent again and again";
    until_reports(&server, "peace", is_well).await;
    for report in &server.reports()[told..] {
        assert!(
            is_well(report) || report["problem"] == contested,
            "{report}"
        );
        assert_eq!(report["applied"][0]["name"], "q");
    }
    agent.end().await;
}

#[tokio::test]
async fn what_others_change_is_changed_back_at_once() {
    if !is_root() {
        return;
    }
    for deed in [
        "delete element inet rhumb known4 { 10.1.0.2 }",
        "delete element inet rhumb ingress4 { 10.1.0.2 }",
        "add element inet rhumb known4 { 10.1.0.77 }",
        "insert rule inet rhumb judge-in accept",
        "flush chain inet rhumb g1-in",
        "add chain inet rhumb strange",
        "flush ruleset",
    ] {
        let namespace = Namespace::new();
        let server = Server::with_a_policy();
        server.with(|state| state.nodes = vec![node()]);
        // It is not looked for.
        let agent = Running::inspecting(&server, &namespace, PATIENCE * 10).await;
        until_reports(&server, "a report", is_well).await;
        let rules = namespace.rules();
        // What others do elsewhere is theirs, and so is a table of the same name in another family.
        namespace.tell(
            "add table inet others; add chain inet others c; add rule inet others c accept\n\
             add table ip rhumb; add chain ip rhumb c; delete table ip rhumb",
        );
        namespace.ask(&[deed]);
        until(deed, async || agent.repairs() == 1).await;
        until(deed, async || {
            let tables = namespace.ask(&["list", "tables"]);
            tables.contains("rhumb") && namespace.rules() == rules
        })
        .await;
        // Who does it again is answered by the next inspection.
        namespace.ask(&[deed]);
        sleep(TICK * 20).await;
        assert_eq!(agent.repairs(), 1, "{deed}");
        agent.end().await;
    }
}

#[tokio::test]
async fn one_who_goes_on_changing_elements_is_answered_and_told_of() {
    if !is_root() {
        return;
    }
    let namespace = Namespace::new();
    let server = Server::with_a_policy();
    let agent = Running::start(&server, &namespace).await;
    until_reports(&server, "a report", is_well).await;
    let rules = namespace.rules();
    let contested = |report: &Value| {
        let problem = report["problem"].as_str();
        problem.is_some_and(|problem| problem.contains("again and again"))
    };
    let is_told = || server.with(|state| state.reports.last().is_some_and(contested));
    until("contested", async || {
        namespace.try_to_tell("delete element inet rhumb ingress4 { 10.1.0.2 }");
        is_told()
    })
    .await;
    until_reports(&server, "peace", is_well).await;
    until("all rules", async || namespace.rules() == rules).await;
    agent.end().await;
}
