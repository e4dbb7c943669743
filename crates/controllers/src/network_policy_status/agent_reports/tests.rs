use serde_json::{Value, json};

use super::*;

fn report(applied: &[(&str, i64)]) -> Value {
    let applied = applied.iter();
    let applied = applied.map(|(uid, generation)| json!({"uid": uid, "generation": generation}));
    json!({"versions": ["1.3"], "applied": applied.collect::<Value>()})
}

fn set(agents: &mut AgentReports, node: &str, report: Value) -> AffectedPolicies {
    agents.set_report(node.to_owned(), serde_json::from_value(report).unwrap())
}

fn change(uids: &[&str], is_for_all: bool) -> AffectedPolicies {
    AffectedPolicies {
        uids: uids.iter().map(|&uid| uid.into()).collect(),
        is_for_all,
    }
}

fn with_node() -> AgentReports {
    let mut agents = AgentReports::default();
    agents.set_node("a".to_owned(), "");
    agents
}

#[test]
fn changed_problems_affect_their_policies() {
    let mut agents = AgentReports::default();
    agents.set_node("a".to_owned(), "");
    let report =
        |problems: Value| serde_json::from_value(json!({"policyProblems": problems})).unwrap();
    let problem = |uid: &str, message: &str| json!({"uid": uid, "reason": "R", "message": message});
    let mut changed = |problems: Value| {
        let change = agents.set_report("a".to_owned(), report(problems));
        let uids: Vec<String> = change.uids.iter().map(ToString::to_string).collect();
        uids.join(",")
    };
    assert_eq!(
        changed(json!([problem("p", "m"), problem("q", "m")])),
        "p,q"
    );
    assert_eq!(changed(json!([problem("p", "m"), problem("q", "m")])), "");
    assert_eq!(changed(json!([problem("p", "m"), problem("q", "n")])), "q");
    assert_eq!(changed(json!([problem("q", "n")])), "p");
}

#[test]
fn a_report_affects_the_policies_with_changed_entries() {
    let mut agents = with_node();
    let first = report(&[("x", 1), ("y", 1)]);
    assert_eq!(
        set(&mut agents, "a", first.clone()),
        change(&["x", "y"], true)
    );
    assert_eq!(set(&mut agents, "a", first), change(&[], false));
    let next = report(&[("y", 2), ("z", 1)]);
    assert_eq!(
        set(&mut agents, "a", next.clone()),
        change(&["x", "y", "z"], false)
    );
    for (field, value) in [
        ("problem", json!("no room")),
        ("problem", json!(null)),
        ("versions", json!(["1.3", "1.8"])),
        (
            "unimplemented",
            json!([{"feature": "SCTP", "message": "none"}]),
        ),
    ] {
        let mut next = next.clone();
        next[field] = value;
        assert_eq!(
            set(&mut agents, "a", next),
            change(&["y", "z"], true),
            "{field}"
        );
    }
    assert_eq!(agents.remove_report("a"), change(&["y", "z"], true));
    assert!(agents.is_empty());
}

#[test]
fn a_report_is_valid_while_its_node_exists() {
    let mut agents = AgentReports::default();
    let first_report = report(&[("x", 1)]);
    assert_eq!(
        set(&mut agents, "a", first_report.clone()),
        change(&[], false)
    );
    assert!(agents.is_empty() && agents.report("a").is_none());
    assert!(agents.stale_report("a").is_some());
    assert_eq!(
        agents.set_node("a".to_owned(), ""),
        Some(change(&["x"], true))
    );
    assert_eq!(agents.set_node("a".to_owned(), ""), None);
    assert!(!agents.is_empty() && agents.report("a").is_some());
    assert_eq!(agents.stale_report("a"), None);
    assert_eq!(agents.remove_node("a"), change(&["x"], true));
    assert!(agents.is_empty() && agents.report("a").is_none());
    assert_eq!(agents.remove_report("a"), change(&[], false));
    assert_eq!(agents.stale_report("a"), None);
    // A node may appear before its agent.
    agents.set_node("a".to_owned(), "");
    assert!(agents.is_empty());
    assert_eq!(set(&mut agents, "a", first_report), change(&["x"], true));
}

#[test]
fn agents_are_indexed_by_capabilities() {
    let mut agents = AgentReports::default();
    let can = |version: &str| json!({"versions": [version]});
    for (node, version) in [("a", "1.3"), ("b", "1.8"), ("c", "1.3")] {
        agents.set_node(node.to_owned(), "");
        set(&mut agents, node, can(version));
    }
    let old = |agents: &AgentReports| -> Vec<String> {
        let old = agents.with_capabilities(|capabilities| capabilities.versions == ["1.3"]);
        old.map(|(node, _)| node.to_owned()).collect()
    };
    assert_eq!(old(&agents), ["a", "c"]);
    set(&mut agents, "b", can("1.3"));
    set(&mut agents, "c", can("1.8"));
    assert_eq!(old(&agents), ["a", "b"]);
    agents.remove_node("a");
    assert_eq!(old(&agents), ["b"]);
    agents.remove_report("b");
    assert_eq!(old(&agents), [""; 0]);
}

#[test]
fn a_stale_report_is_identified_by_its_resource_version() {
    let mut agents = AgentReports::default();
    set(
        &mut agents,
        "a",
        json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}}),
    );
    let stale_report = agents.stale_report("a").unwrap();
    assert_eq!(stale_report.uid.as_deref(), Some("1"));
    assert_eq!(stale_report.version.as_deref(), Some("7"));
}

#[test]
fn a_report_from_before_a_reboot_is_ignored() {
    let of_boot = |boot: &str| {
        let mut report = report(&[("x", 1)]);
        report["bootID"] = json!(boot);
        report
    };
    let is_of_another_boot = |agents: &AgentReports| {
        let report = agents.policy_report("a", "x", AgentLiveness::Alive, false);
        matches!(report, NodeReport::OfAnotherBoot)
    };
    let mut agents = AgentReports::default();
    agents.set_node("a".to_owned(), "1");
    assert_eq!(set(&mut agents, "a", of_boot("1")), change(&["x"], true));
    assert_eq!(agents.set_node("a".to_owned(), "1"), None);
    assert!(!is_of_another_boot(&agents));
    // The node has rebooted, and its agent has not reported since.
    let all_policies = Some(change(&["x"], true));
    assert_eq!(agents.set_node("a".to_owned(), "2"), all_policies);
    assert!(agents.is_empty() && agents.report("a").is_none());
    assert!(is_of_another_boot(&agents));
    assert_eq!(
        agents.stale_report("a"),
        None,
        "the report of an existing node is not deleted"
    );
    assert_eq!(set(&mut agents, "a", of_boot("1")), change(&[], false));
    assert_eq!(set(&mut agents, "a", of_boot("2")), change(&["x"], true));
    assert!(!agents.is_empty() && !is_of_another_boot(&agents));
    // The report may arrive before the node's new boot id.
    assert_eq!(set(&mut agents, "a", of_boot("3")), change(&["x"], true));
    assert!(agents.is_empty());
    assert_eq!(agents.set_node("a".to_owned(), "3"), all_policies);
    assert!(!agents.is_empty());
    // If one boot id is unknown, the report is valid.
    assert_eq!(agents.set_node("a".to_owned(), ""), None);
    assert_eq!(
        set(&mut agents, "a", report(&[("x", 1)])),
        change(&[], false)
    );
    assert_eq!(agents.set_node("a".to_owned(), "4"), None);
    assert!(!agents.is_empty());
}
