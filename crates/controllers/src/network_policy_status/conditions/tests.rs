mod agents;
mod object_conditions;

use std::time::Duration;

use rhumb_netpol::lint::LintWarning;
use rhumb_netpol::objects::NetworkPolicySpec;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::network_policy_status::heartbeats::ObservationTime;

const UID: &str = "u";
const GENERATION: i64 = 3;
const OLD: [&str; 5] = ["1.3", "1.8", "1.9", "1.11", "1.12"];

/// A policy that selects a pod on each of these nodes and needs no special feature.
fn summary(nodes: &[&str]) -> PolicySummary {
    PolicySummary {
        uid: UID.to_owned(),
        generation: GENERATION,
        min_version: "1.3".to_owned(),
        pods_per_node: nodes.iter().map(|&node| (node.to_owned(), 1)).collect(),
        unscheduled_pods: 0,
        has_matching_peers: Some(true),
        lint_warnings: Vec::new(),
    }
}

fn policy_needing(version: &str, nodes: &[&str]) -> PolicySummary {
    PolicySummary {
        min_version: version.to_owned(),
        ..summary(nodes)
    }
}

/// Nodes, each with its agent's report, or null if it has no agent.
fn agents(nodes: &[(&str, Value)]) -> AgentReports {
    let mut agents = AgentReports::default();
    for (node, report) in nodes {
        agents.set_node((*node).to_owned(), "");
        if !report.is_null() {
            let report = serde_json::from_value(report.clone()).unwrap();
            agents.set_report((*node).to_owned(), report);
        }
    }
    agents
}

fn agent_supporting(versions: &[&str]) -> Value {
    json!({"versions": versions})
}

/// Report of an agent that knows the old versions and has applied this generation of the policy.
fn applied(generation: i64) -> Value {
    json!({
        "versions": OLD,
        "applied": [{"namespace": "ns", "name": "p", "uid": UID, "generation": generation}],
    })
}

fn with(mut report: Value, field: &str, value: Value) -> Value {
    report[field] = value;
    report
}

fn uses(spec: Value) -> PolicyFeatureSet {
    PolicyFeatureSet::of(&serde_json::from_value::<NetworkPolicySpec>(spec).unwrap())
}

fn sctp() -> PolicyFeatureSet {
    uses(json!({"ingress": [{"ports": [{"protocol": "SCTP"}]}]}))
}

/// A condition as `status/reason: message`.
fn condition_text(type_: ConditionType, inputs: &PolicyStatusInputs<'_>) -> Option<String> {
    let condition = compute_conditions(inputs)
        .into_iter()
        .find(|condition| condition.type_ == type_)?;
    let PolicyCondition {
        status,
        reason,
        message,
        ..
    } = condition;
    Some(format!("{}/{reason}: {message}", status.name()))
}

/// Heartbeats of these nodes, sent in this second of a minute and observed at its end.
fn heartbeats(nodes: &[&str], second: u32) -> AgentHeartbeats {
    let mut heartbeats = AgentHeartbeats::new(Duration::from_secs(40));
    let report = json!({"lastHeartbeatTime": format!("2030-01-01T00:00:{second:02}Z")});
    let report = serde_json::from_value(report).unwrap();
    let now = ObservationTime {
        at: Instant::now(),
        time_of_day: "2030-01-01T00:00:59Z".parse().unwrap(),
    };
    for node in nodes {
        heartbeats.observe(node, &report, now);
    }
    heartbeats
}

/// The inputs while all agents run and have observed all pods.
fn inputs<'a>(summary: &'a PolicySummary, agents: &'a AgentReports) -> PolicyStatusInputs<'a> {
    static COVERED: BTreeSet<String> = BTreeSet::new();
    let nodes: Vec<&str> = agents.reporting().map(String::as_str).collect();
    PolicyStatusInputs {
        summary,
        features: PolicyFeatureSet::default(),
        agents,
        heartbeats: Box::leak(Box::new(heartbeats(&nodes, 59))),
        uncovered_nodes: &COVERED,
        stored: StoredProgrammedStatus::NotOurs,
    }
}

#[track_caller]
fn check(type_: ConditionType, inputs: &PolicyStatusInputs<'_>, expected: &str) {
    assert_eq!(condition_text(type_, inputs).as_deref(), Some(expected));
}

#[test]
fn a_policy_is_supported_if_all_relevant_agents_support_its_version() {
    let lists = agents(&[
        ("a", agent_supporting(&OLD)),
        ("b", agent_supporting(&["1.3", "1.8"])),
        ("c", agent_supporting(&["1.3", "1.8", "1.37-alpha.1"])),
        ("d", agent_supporting(&[])),
        ("silent", Value::Null),
    ]);
    let yes = "True/Supported: all agents that report and have to enforce it support its version and its features";
    let alpha = "False/Version: version 1.37-alpha.2 is not supported on c (newest supported: 1.37-alpha.1); the policy is \
                 ignored there";
    for (version, nodes, expected) in [
        ("1.3", vec!["a", "b", "c"], yes),
        ("1.12", vec!["a"], yes),
        // One agent that does not know the version is enough.
        (
            "1.12",
            vec!["a", "b"],
            "False/Version: version 1.12 is not supported on b (newest supported: 1.8); the policy is ignored there",
        ),
        // Old agent, new policy.
        (
            "1.21",
            vec!["a"],
            "False/Version: version 1.21 is not supported on a (newest supported: 1.12); the policy is ignored there",
        ),
        // Known and unknown revision of an alpha version.
        ("1.37-alpha.1", vec!["c"], yes),
        ("1.37-alpha.2", vec!["c"], alpha),
        // Nodes without an agent do not count.
        ("1.12", vec!["a", "silent"], yes),
        // If no relevant node has an agent, or no pod is selected, all agents count.
        (
            "1.12",
            vec![],
            "False/Version: version 1.12 is not supported on b (newest supported: 1.8), c (newest supported: 1.37-alpha.1), d \
             (newest supported: none); the policy is ignored there",
        ),
        (
            "1.12",
            vec!["silent"],
            "False/Version: version 1.12 is not supported on b (newest supported: 1.8), c (newest supported: 1.37-alpha.1), d \
             (newest supported: none); the policy is ignored there",
        ),
        (
            "1.22",
            vec![],
            "False/Version: version 1.22 is not supported on a (newest supported: 1.12), b (newest supported: 1.8), c (newest \
             supported: 1.37-alpha.1) and 1 more; the policy is ignored there",
        ),
    ] {
        let summary = policy_needing(version, &nodes);
        check(
            ConditionType::Supported,
            &inputs(&summary, &lists),
            expected,
        );
    }
}

/// Server and agent of different releases, with different revisions of an alpha version.
#[test]
fn alpha_versions_of_another_revision_are_unsupported() {
    let old = ["1.3", "1.21", "1.37-alpha.1"];
    let new = ["1.3", "1.21", "1.37-alpha.2"];
    for (knows_list, needs, is_known) in [
        (old, "1.37-alpha.1", true),
        (old, "1.37-alpha.2", false),
        (new, "1.37-alpha.1", false),
        (new, "1.37-alpha.2", true),
        (old, "1.21", true),
        (new, "1.3", true),
    ] {
        let agents = agents(&[("a", agent_supporting(&knows_list))]);
        let summary = policy_needing(needs, &["a"]);
        let condition_text =
            condition_text(ConditionType::Supported, &inputs(&summary, &agents)).unwrap();
        assert_eq!(
            condition_text.starts_with("True/Supported"),
            is_known,
            "{condition_text}"
        );
        assert_eq!(
            condition_text.starts_with("False/Version"),
            !is_known,
            "{condition_text}"
        );
    }
}

#[test]
fn a_supported_feature_missing_on_a_node_is_unimplemented() {
    let without = |features: &[&str]| {
        let missing = features.iter().map(
            |feature| json!({"feature": feature, "message": format!("no {feature} in the kernel")}),
        );
        with(agent_supporting(&OLD), "unimplemented", missing.collect())
    };
    let agents = agents(&[
        ("a", agent_supporting(&OLD)),
        ("b", without(&["SCTP"])),
        ("c", without(&["SCTP", "IPv6"])),
        ("d", without(&["SCTP"])),
        ("e", without(&["SCTP"])),
        (
            "f",
            with(
                agent_supporting(&OLD),
                "unimplemented",
                json!([{"feature": "Egress"}]),
            ),
        ),
    ]);
    let egress = uses(json!({"policyTypes": ["Egress"]}));
    let both = uses(json!({
        "ingress": [{"ports": [{"protocol": "SCTP"}], "from": [{"ipBlock": {"cidr": "fd00::/8"}}]}],
    }));
    let yes = "True/Supported: all agents that report and have to enforce it support its version and its features";
    for (features, nodes, expected) in [
        (sctp(), vec!["a"], yes),
        (PolicyFeatureSet::default(), vec!["a", "b", "c"], yes),
        (
            sctp(),
            vec!["a", "b"],
            "False/Unimplemented: SCTP is not available on b: no SCTP in the kernel",
        ),
        (
            both,
            vec!["b", "c"],
            "False/Unimplemented: IPv6 is not available on c: no IPv6 in the kernel; SCTP is not available on b, c: no \
             SCTP in the kernel",
        ),
        (
            egress,
            vec!["a", "f"],
            "False/Unimplemented: Egress is not available on f",
        ),
        (
            sctp(),
            vec![],
            "False/Unimplemented: SCTP is not available on b, c, d and 1 more: no SCTP in the kernel",
        ),
    ] {
        let summary = summary(&nodes);
        let inputs = PolicyStatusInputs {
            features,
            ..inputs(&summary, &agents)
        };
        check(ConditionType::Supported, &inputs, expected);
    }
    // An unknown version takes precedence over missing features.
    let summary = policy_needing("1.21", &["b"]);
    let inputs = PolicyStatusInputs {
        features: sctp(),
        ..inputs(&summary, &agents)
    };
    let condition_text = condition_text(ConditionType::Supported, &inputs).unwrap();
    assert!(
        condition_text.starts_with("False/Version"),
        "{condition_text}"
    );
}

#[test]
fn a_policy_is_programmed_when_every_node_with_its_pods_has_applied_the_generation() {
    let broken = with(applied(GENERATION), "problem", json!("no room"));
    let well = with(applied(GENERATION), "problem", json!(""));
    let other = json!({
        "versions": OLD,
        "applied": [{"namespace": "ns", "name": "p", "uid": "another", "generation": GENERATION}],
    });
    let agents = agents(&[
        ("a", applied(GENERATION)),
        ("b", applied(GENERATION)),
        ("c", well),
        ("old", applied(GENERATION - 1)),
        ("other", other),
        ("broken", broken),
        (
            "broken-too",
            with(agent_supporting(&OLD), "problem", json!("no nft")),
        ),
        ("silent", Value::Null),
    ]);
    for (nodes, expected) in [
        (vec!["a"], "True/Applied: applied on 1 of 1 node"),
        (vec!["a", "b", "c"], "True/Applied: applied on 3 of 3 nodes"),
        (
            vec!["a", "old"],
            "Unknown/Pending: applied on 1 of 2 nodes; waiting for old",
        ),
        // The node has applied an earlier policy of the same name.
        (
            vec!["a", "b", "other"],
            "Unknown/Pending: applied on 2 of 3 nodes; waiting for other",
        ),
        (
            vec!["a", "silent"],
            "Unknown/Pending: applied on 1 of 2 nodes; waiting for silent (no agent reports from there)",
        ),
        (
            vec!["a", "broken", "old"],
            "False/NodeProblem: broken: no room",
        ),
        (
            vec!["broken", "broken-too"],
            "False/NodeProblem: broken: no room, broken-too: no nft",
        ),
        // Problems on nodes without selected pods do not count.
        (vec!["b"], "True/Applied: applied on 1 of 1 node"),
        (
            vec![],
            "True/NothingToApply: no pod of any node is selected",
        ),
        (
            vec!["gone"],
            "True/NothingToApply: no pod of any node is selected",
        ),
        (vec!["a", "gone"], "True/Applied: applied on 1 of 1 node"),
    ] {
        let summary = summary(&nodes);
        check(
            ConditionType::Programmed,
            &inputs(&summary, &agents),
            expected,
        );
    }
}

#[test]
fn a_policy_ignored_on_some_node_is_not_programmed() {
    let agents = agents(&[
        (
            "a",
            with(applied(GENERATION), "versions", json!(["1.3", "1.21"])),
        ),
        ("b", with(applied(GENERATION), "problem", json!("no room"))),
    ]);
    let expected = "False/Unsupported: some nodes do not support its version: see Supported";
    for nodes in [vec!["a", "b"], vec![], vec!["gone"]] {
        let summary = policy_needing("1.21", &nodes);
        check(
            ConditionType::Programmed,
            &inputs(&summary, &agents),
            expected,
        );
    }
    let summary = policy_needing("1.21", &["a"]);
    let applied = "True/Applied: applied on 1 of 1 node";
    check(
        ConditionType::Programmed,
        &inputs(&summary, &agents),
        applied,
    );
}

#[test]
fn messages_name_at_most_three_nodes() {
    let names = ["a", "b", "c", "d", "e"];
    let silent = agents(&names.map(|node| (node, Value::Null)));
    let mut some = agents(&names.map(|node| (node, agent_supporting(&OLD))));
    let policy = summary(&names);
    check(
        ConditionType::Programmed,
        &inputs(&policy, &some),
        "Unknown/Pending: applied on 0 of 5 nodes; waiting for a, b, c and 2 more",
    );
    some.set_report("b".to_owned(), serde_json::from_value(applied(3)).unwrap());
    check(
        ConditionType::Programmed,
        &inputs(&policy, &some),
        "Unknown/Pending: applied on 1 of 5 nodes; waiting for a, c, d and 1 more",
    );
    assert_eq!(
        condition_text(ConditionType::Programmed, &inputs(&policy, &silent)),
        None
    );
}

#[test]
fn long_messages_are_truncated_at_character_boundaries() {
    let long = "ä".repeat(2000);
    let agents = agents(&[("a", with(applied(GENERATION), "problem", json!(long)))]);
    let policy = summary(&["a"]);
    let conditions = compute_conditions(&inputs(&policy, &agents));
    let message = &conditions.last().unwrap().message;
    assert!(message.len() <= MESSAGE_BYTES_MAX && message.len() > MESSAGE_BYTES_MAX - 3);
    assert!(message.starts_with("a: ä") && message.ends_with("ä..."));
    assert_eq!(
        truncated("x".repeat(MESSAGE_BYTES_MAX)).len(),
        MESSAGE_BYTES_MAX
    );
}
