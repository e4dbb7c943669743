use rhumb_netpol::flaws::Flaw;
use rhumb_netpol::objects::PolicySpec;
use serde_json::{Value, json};

use super::*;

const UID: &str = "u";
const GENERATION: i64 = 3;
const OLD: [&str; 5] = ["1.3", "1.8", "1.9", "1.11", "1.12"];

/// A policy that selects a pod of each of these nodes, and nothing that anybody lacks.
fn summary(nodes: &[&str]) -> Summary {
    Summary {
        uid: UID.to_owned(),
        generation: GENERATION,
        min_version: "1.3".to_owned(),
        nodes: nodes.iter().map(|&node| (node.to_owned(), 1)).collect(),
        unplaced: 0,
        traffic: Some(true),
        flaws: Vec::new(),
    }
}

fn needing(version: &str, nodes: &[&str]) -> Summary {
    Summary {
        min_version: version.to_owned(),
        ..summary(nodes)
    }
}

/// Nodes, each with what its agent reports, or without an agent.
fn agents(nodes: &[(&str, Value)]) -> Agents {
    let mut agents = Agents::default();
    for (node, report) in nodes {
        agents.set_node((*node).to_owned(), "");
        if !report.is_null() {
            let report = serde_json::from_value(report.clone()).unwrap();
            agents.set_report((*node).to_owned(), report);
        }
    }
    agents
}

fn knows(versions: &[&str]) -> Value {
    json!({"versions": versions})
}

/// An agent that knows everything of old, and has applied a generation of the policy.
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

fn uses(spec: Value) -> Features {
    Features::of(&serde_json::from_value::<PolicySpec>(spec).unwrap())
}

fn sctp() -> Features {
    uses(json!({"ingress": [{"ports": [{"protocol": "SCTP"}]}]}))
}

/// What a condition says, in one line.
fn said(type_: Type, facts: &Facts<'_>) -> Option<String> {
    let condition = decide(facts)
        .into_iter()
        .find(|condition| condition.type_ == type_)?;
    let Condition {
        status,
        reason,
        message,
        ..
    } = condition;
    Some(format!("{}/{reason}: {message}", status.name()))
}

fn facts<'a>(summary: &'a Summary, agents: &'a Agents) -> Facts<'a> {
    Facts {
        summary,
        features: Features::default(),
        agents,
        was_programmed: false,
    }
}

#[track_caller]
fn check(type_: Type, facts: &Facts<'_>, expected: &str) {
    assert_eq!(said(type_, facts).as_deref(), Some(expected));
}

#[test]
fn a_policy_is_supported_where_every_agent_that_it_is_for_knows_its_version() {
    let lists = agents(&[
        ("a", knows(&OLD)),
        ("b", knows(&["1.3", "1.8"])),
        ("c", knows(&["1.3", "1.8", "1.37-alpha.1"])),
        ("d", knows(&[])),
        ("silent", Value::Null),
    ]);
    let yes = "True/Supported: every agent that it is for, of those that report, knows and has all that it uses";
    let alpha = "False/Version: version 1.37-alpha.2 is not known on c (newest known: 1.37-alpha.1); the policy is \
                 ignored there";
    for (version, nodes, expected) in [
        ("1.3", vec!["a", "b", "c"], yes),
        ("1.12", vec!["a"], yes),
        // One that does not know it is enough.
        (
            "1.12",
            vec!["a", "b"],
            "False/Version: version 1.12 is not known on b (newest known: 1.8); the policy is ignored there",
        ),
        // An old agent, a new policy.
        (
            "1.21",
            vec!["a"],
            "False/Version: version 1.21 is not known on a (newest known: 1.12); the policy is ignored there",
        ),
        // The revision of an alpha that it knows, and another.
        ("1.37-alpha.1", vec!["c"], yes),
        ("1.37-alpha.2", vec!["c"], alpha),
        // Nodes without an agent say nothing.
        ("1.12", vec!["a", "silent"], yes),
        // Where it is for no agent, or for no pod at all, all are asked.
        (
            "1.12",
            vec![],
            "False/Version: version 1.12 is not known on b (newest known: 1.8), c (newest known: 1.37-alpha.1), d \
             (newest known: none); the policy is ignored there",
        ),
        (
            "1.12",
            vec!["silent"],
            "False/Version: version 1.12 is not known on b (newest known: 1.8), c (newest known: 1.37-alpha.1), d \
             (newest known: none); the policy is ignored there",
        ),
        (
            "1.22",
            vec![],
            "False/Version: version 1.22 is not known on a (newest known: 1.12), b (newest known: 1.8), c (newest \
             known: 1.37-alpha.1) and 1 more; the policy is ignored there",
        ),
    ] {
        let summary = needing(version, &nodes);
        check(Type::Supported, &facts(&summary, &lists), expected);
    }
}

/// The server of the next release has a policy with the second revision of an alpha; and the other way round.
#[test]
fn an_agent_that_knows_another_revision_of_an_alpha_does_not_know_the_policy() {
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
        let agents = agents(&[("a", knows(&knows_list))]);
        let summary = needing(needs, &["a"]);
        let said = said(Type::Supported, &facts(&summary, &agents)).unwrap();
        assert_eq!(said.starts_with("True/Supported"), is_known, "{said}");
        assert_eq!(said.starts_with("False/Version"), !is_known, "{said}");
    }
}

#[test]
fn what_a_node_knows_but_does_not_have_is_unimplemented() {
    let without = |features: &[&str]| {
        let missing = features.iter().map(
            |feature| json!({"feature": feature, "message": format!("no {feature} in the kernel")}),
        );
        with(knows(&OLD), "unimplemented", missing.collect())
    };
    let agents = agents(&[
        ("a", knows(&OLD)),
        ("b", without(&["SCTP"])),
        ("c", without(&["SCTP", "IPv6"])),
        ("d", without(&["SCTP"])),
        ("e", without(&["SCTP"])),
        (
            "f",
            with(knows(&OLD), "unimplemented", json!([{"feature": "Egress"}])),
        ),
    ]);
    let egress = uses(json!({"policyTypes": ["Egress"]}));
    let both = uses(json!({
        "ingress": [{"ports": [{"protocol": "SCTP"}], "from": [{"ipBlock": {"cidr": "fd00::/8"}}]}],
    }));
    let yes = "True/Supported: every agent that it is for, of those that report, knows and has all that it uses";
    for (features, nodes, expected) in [
        (sctp(), vec!["a"], yes),
        (Features::default(), vec!["a", "b", "c"], yes),
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
        let facts = Facts {
            features,
            ..facts(&summary, &agents)
        };
        check(Type::Supported, &facts, expected);
    }
    // Who does not know the version cannot say what it lacks.
    let summary = needing("1.21", &["b"]);
    let facts = Facts {
        features: sctp(),
        ..facts(&summary, &agents)
    };
    let said = said(Type::Supported, &facts).unwrap();
    assert!(said.starts_with("False/Version"), "{said}");
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
        ("broken-too", with(knows(&OLD), "problem", json!("no nft"))),
        ("silent", Value::Null),
    ]);
    for (nodes, expected) in [
        (vec!["a"], "True/Applied: applied on 1 of 1 node"),
        (vec!["a", "b", "c"], "True/Applied: applied on 3 of 3 nodes"),
        (
            vec!["a", "old"],
            "Unknown/Pending: applied on 1 of 2 nodes; waiting for old",
        ),
        // Another policy of the same name was there before.
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
        // Trouble where it has no pods is not its own.
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
        check(Type::Programmed, &facts(&summary, &agents), expected);
    }
}

#[test]
fn a_policy_that_is_ignored_somewhere_is_not_programmed() {
    let agents = agents(&[
        (
            "a",
            with(applied(GENERATION), "versions", json!(["1.3", "1.21"])),
        ),
        ("b", with(applied(GENERATION), "problem", json!("no room"))),
    ]);
    let expected =
        "False/Unsupported: there are nodes that do not know the version it needs: see Supported";
    for nodes in [vec!["a", "b"], vec![], vec!["gone"]] {
        let summary = needing("1.21", &nodes);
        check(Type::Programmed, &facts(&summary, &agents), expected);
    }
    let summary = needing("1.21", &["a"]);
    let applied = "True/Applied: applied on 1 of 1 node";
    check(Type::Programmed, &facts(&summary, &agents), applied);
}

#[test]
fn of_many_nodes_three_are_named() {
    let names = ["a", "b", "c", "d", "e"];
    let silent = agents(&names.map(|node| (node, Value::Null)));
    let mut some = agents(&names.map(|node| (node, knows(&OLD))));
    let policy = summary(&names);
    check(
        Type::Programmed,
        &facts(&policy, &some),
        "Unknown/Pending: applied on 0 of 5 nodes; waiting for a, b, c and 2 more",
    );
    some.set_report("b".to_owned(), serde_json::from_value(applied(3)).unwrap());
    check(
        Type::Programmed,
        &facts(&policy, &some),
        "Unknown/Pending: applied on 1 of 5 nodes; waiting for a, c, d and 1 more",
    );
    assert_eq!(said(Type::Programmed, &facts(&policy, &silent)), None);
}

#[test]
fn without_agents_only_what_can_be_told_from_objects_is_said() {
    let nodes = agents(&[("a", Value::Null)]);
    let policy = summary(&["a"]);
    let types = |facts: &Facts<'_>| -> Vec<Type> {
        let conditions = decide(facts).into_iter();
        conditions.map(|condition| condition.type_).collect()
    };
    let mut facts = facts(&policy, &nodes);
    let of_objects = [Type::Problem, Type::TargetMatch, Type::TrafficMatch];
    assert_eq!(types(&facts), of_objects);
    facts.was_programmed = true;
    assert_eq!(
        types(&facts),
        [&of_objects[..], &[Type::Programmed]].concat()
    );
    let taken_back = "Unknown/NoAgent: no agent reports from any node";
    check(Type::Programmed, &facts, taken_back);
    let agents = agents(&[("a", applied(GENERATION))]);
    facts.agents = &agents;
    assert_eq!(types(&facts), Type::ALL);
}

#[test]
fn problems_are_those_of_the_policy_itself() {
    let flaw = |reason, message: &str| Flaw {
        reason,
        message: message.to_owned(),
    };
    let ambiguous =
        "spec.ingress[0].from[0].ipBlock.cidr: interpreting 192.168.1.5/24 as 192.168.1.0/24";
    let agents = Agents::default();
    for (flaws, expected) in [
        (
            vec![],
            "False/NoProblem: nothing is wrong with the policy itself".to_owned(),
        ),
        (
            vec![flaw("AmbiguousCIDR", ambiguous)],
            format!("True/AmbiguousCIDR: {ambiguous}"),
        ),
        (
            vec![
                flaw("SelectorNeverMatches", "spec.podSelector: never"),
                flaw("AmbiguousCIDR", ambiguous),
            ],
            format!("True/SelectorNeverMatches: spec.podSelector: never; {ambiguous}"),
        ),
    ] {
        let summary = Summary {
            flaws,
            ..summary(&[])
        };
        check(Type::Problem, &facts(&summary, &agents), &expected);
    }
}

#[test]
fn whether_anything_is_matched_is_said_without_counts() {
    let agents = Agents::default();
    let one = summary(&["a"]);
    let unplaced = Summary {
        unplaced: 1,
        ..summary(&[])
    };
    let some = "True/PodsSelected: at least one pod is selected by spec.podSelector";
    for summary in [&one, &unplaced, &summary(&["a", "b"])] {
        check(Type::TargetMatch, &facts(summary, &agents), some);
    }
    let none = "False/NoPods: no pod is selected by spec.podSelector";
    check(Type::TargetMatch, &facts(&summary(&[]), &agents), none);
    for (traffic, expected) in [
        (
            Some(true),
            "True/PeersMatched: at least one pod or range of addresses is matched by the rules",
        ),
        (
            Some(false),
            "False/NoPeers: no pod and no range of addresses is matched by the rules",
        ),
        (None, "False/NoRules: no rule allows anything"),
    ] {
        let summary = Summary {
            traffic,
            ..summary(&[])
        };
        check(Type::TrafficMatch, &facts(&summary, &agents), expected);
    }
}

#[test]
fn long_messages_are_cut_between_characters() {
    let long = "ä".repeat(2000);
    let agents = agents(&[("a", with(applied(GENERATION), "problem", json!(long)))]);
    let policy = summary(&["a"]);
    let conditions = decide(&facts(&policy, &agents));
    let message = &conditions.last().unwrap().message;
    assert!(message.len() <= MESSAGE_BYTES_MAX && message.len() > MESSAGE_BYTES_MAX - 3);
    assert!(message.starts_with("a: ä") && message.ends_with("ä..."));
    assert_eq!(cut("x".repeat(MESSAGE_BYTES_MAX)).len(), MESSAGE_BYTES_MAX);
}
