//! Heartbeats of agents, pods that they have not observed, and problems that they report.

use super::*;

#[test]
fn a_node_without_a_heartbeat_does_not_count_as_programmed() {
    let nodes = ["a", "b", "c"];
    let agents = agents(&[
        ("a", applied(GENERATION)),
        ("b", applied(GENERATION)),
        ("c", agent_supporting(&OLD)),
    ]);
    let mut silent = heartbeats(&nodes, 59);
    silent.expire("b", Instant::now() + Duration::from_secs(60));
    let all = summary(&nodes);
    let mut inputs = PolicyStatusInputs {
        heartbeats: &silent,
        ..inputs(&all, &agents)
    };
    let expected = "Unknown/NoHeartbeat: applied on 1 of 3 nodes; waiting for c; no heartbeat from the agents of b \
                    (last at 2030-01-01T00:00:59Z)";
    check(ConditionType::Programmed, &inputs, expected);
    let only_b = summary(&["b"]);
    inputs.summary = &only_b;
    let expected = "Unknown/NoHeartbeat: applied on 0 of 1 node; no heartbeat from the agents of b (last at \
                    2030-01-01T00:00:59Z)";
    check(ConditionType::Programmed, &inputs, expected);
    let only_a = summary(&["a"]);
    inputs.summary = &only_a;
    let applied = "True/Applied: applied on 1 of 1 node";
    check(ConditionType::Programmed, &inputs, applied);

    // Listed with old heartbeats, as after an outage: a status that is true stays so for now.
    let old = heartbeats(&nodes, 0);
    inputs.heartbeats = &old;
    let waiting = "Unknown/Pending: applied on 0 of 1 node; waiting for a (its agent has to renew its heartbeat)";
    check(ConditionType::Programmed, &inputs, waiting);
    inputs.stored = StoredProgrammedStatus::True;
    check(ConditionType::Programmed, &inputs, applied);
}

#[test]
fn a_pod_that_its_agent_has_not_observed_does_not_count_as_programmed() {
    let agents = agents(&[("a", applied(GENERATION)), ("b", applied(GENERATION))]);
    let policy = summary(&["a", "b"]);
    let uncovered = BTreeSet::from(["b".to_owned()]);
    let inputs = PolicyStatusInputs {
        uncovered_nodes: &uncovered,
        ..inputs(&policy, &agents)
    };
    let expected = "Unknown/Pending: applied on 1 of 2 nodes; waiting for b (its agent has not observed all pods there)";
    check(ConditionType::Programmed, &inputs, expected);
}

#[test]
fn the_problem_condition_shows_what_agents_report() {
    let reporting = |generation: i64, message: &str| {
        let problem =
            json!({"uid": UID, "generation": generation, "reason": "TooBig", "message": message});
        with(applied(GENERATION), "policyProblems", json!([problem]))
    };
    let mut agents = agents(&[
        ("a", reporting(GENERATION, "2,000 rules")),
        ("b", reporting(GENERATION, "2,000 rules")),
        ("c", reporting(GENERATION, "")),
        ("old", reporting(GENERATION - 1, "1,000 rules")),
    ]);
    let mut policy = summary(&["a"]);
    let reported = "TooBig (reported by c); TooBig: 2,000 rules (reported by a, b)";
    let expected = format!("True/ReportedByAgents: {reported}");
    check(ConditionType::Problem, &inputs(&policy, &agents), &expected);
    policy.lint_warnings = vec![LintWarning {
        reason: "AmbiguousCIDR",
        message: "interpreting".to_owned(),
    }];
    let expected = format!("True/AmbiguousCIDR: interpreting; {reported}");
    check(ConditionType::Problem, &inputs(&policy, &agents), &expected);
    policy.lint_warnings.clear();
    for node in ["a", "b"] {
        agents.set_report(
            node.to_owned(),
            serde_json::from_value(applied(GENERATION)).unwrap(),
        );
    }
    agents.remove_report("c");
    let none = "False/NoProblem: nothing is wrong with the policy itself";
    check(ConditionType::Problem, &inputs(&policy, &agents), none);
}

#[test]
fn reasons_distinguish_own_conditions_from_those_of_others() {
    for (type_, reason, is_own) in [
        (ConditionType::Problem, "AmbiguousCIDR", true),
        (ConditionType::Problem, "ReportedByAgents", true),
        (ConditionType::Problem, "TooManyRules", false),
        (ConditionType::Programmed, "AmbiguousCIDR", false),
        (ConditionType::Programmed, "Applied", true),
        (ConditionType::Supported, "", false),
    ] {
        assert_eq!(type_.has_reason(reason), is_own, "{type_:?} {reason}");
    }
}
