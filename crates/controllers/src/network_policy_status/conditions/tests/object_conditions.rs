//! Conditions that are derived from objects alone.

use super::*;

#[test]
fn without_agents_only_conditions_derived_from_objects_are_set() {
    let nodes = agents(&[("a", Value::Null)]);
    let policy = summary(&["a"]);
    let types = |inputs: &PolicyStatusInputs<'_>| -> Vec<ConditionType> {
        let conditions = compute_conditions(inputs).into_iter();
        conditions.map(|condition| condition.type_).collect()
    };
    let mut inputs = inputs(&policy, &nodes);
    let of_objects = [
        ConditionType::Problem,
        ConditionType::TargetMatch,
        ConditionType::TrafficMatch,
    ];
    assert_eq!(types(&inputs), of_objects);
    inputs.stored = StoredProgrammedStatus::NotTrue;
    assert_eq!(
        types(&inputs),
        [&of_objects[..], &[ConditionType::Programmed]].concat()
    );
    let taken_back = "Unknown/NoAgent: no agent reports from any node";
    check(ConditionType::Programmed, &inputs, taken_back);
    let agents = agents(&[("a", applied(GENERATION))]);
    inputs.agents = &agents;
    assert_eq!(types(&inputs), ConditionType::ALL);
}

#[test]
fn the_problem_condition_shows_lint_warnings() {
    let warning = |reason, message: &str| LintWarning {
        reason,
        message: message.to_owned(),
    };
    let ambiguous =
        "spec.ingress[0].from[0].ipBlock.cidr: interpreting 192.168.1.5/24 as 192.168.1.0/24";
    let agents = AgentReports::default();
    for (warnings, expected) in [
        (
            vec![],
            "False/NoProblem: nothing is wrong with the policy itself".to_owned(),
        ),
        (
            vec![warning("AmbiguousCIDR", ambiguous)],
            format!("True/AmbiguousCIDR: {ambiguous}"),
        ),
        (
            vec![
                warning("SelectorNeverMatches", "spec.podSelector: never"),
                warning("AmbiguousCIDR", ambiguous),
            ],
            format!("True/SelectorNeverMatches: spec.podSelector: never; {ambiguous}"),
        ),
    ] {
        let summary = PolicySummary {
            lint_warnings: warnings,
            ..summary(&[])
        };
        check(
            ConditionType::Problem,
            &inputs(&summary, &agents),
            &expected,
        );
    }
}

#[test]
fn match_conditions_contain_no_counts() {
    let agents = agents(&[("a", Value::Null), ("b", Value::Null)]);
    let one = summary(&["a"]);
    let unscheduled = PolicySummary {
        unscheduled_pods: 1,
        ..summary(&[])
    };
    let some = "True/PodsSelected: at least one pod is selected by spec.podSelector";
    for summary in [&one, &unscheduled, &summary(&["a", "b"])] {
        check(ConditionType::TargetMatch, &inputs(summary, &agents), some);
    }
    let none = "False/NoPods: no pod is selected by spec.podSelector";
    // As for Programmed, pods of nodes that do not exist do not count.
    for nodes in [&[][..], &["gone"]] {
        let summary = summary(nodes);
        check(ConditionType::TargetMatch, &inputs(&summary, &agents), none);
    }
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
        let summary = PolicySummary {
            has_matching_peers: traffic,
            ..summary(&[])
        };
        check(
            ConditionType::TrafficMatch,
            &inputs(&summary, &agents),
            expected,
        );
    }
}
