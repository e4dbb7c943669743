//! Conditions that other implementations write.

use super::*;

#[test]
fn conditions_of_other_implementations_are_kept() {
    let started = Instant::now();
    let name = NamespacedName::new("ns", "p");
    for foreign in [
        json!({"type": "Problem", "status": "True", "reason": "TooManyRules", "message": "m"}),
        json!({"type": "Problem", "status": "True"}),
        json!({"type": "Programmed", "status": "True", "reason": "Realized", "observedGeneration": 1}),
        json!({"type": "TargetMatch", "status": "False", "reason": "Nothing"}),
    ] {
        let (mut state, own) = programmed_cluster(started);
        let policy = with_condition(own, foreign.clone());
        state.handle_policy_event(Event::Apply(policy), started);
        let later = started + 10 * SECOND;
        assert_eq!(
            state.plan_write(&name, later),
            PlannedWrite::Nothing,
            "{foreign}"
        );
    }
    // The same without agents of ours.
    let foreign = json!({"type": "Problem", "status": "True", "reason": "TooManyRules"});
    let lists = InitialLists {
        policies: vec![with_condition(policy("p", 1), foreign)],
        nodes: vec![node("a")],
        ..InitialLists::default()
    };
    let mut state = read(lists, started);
    assert_eq!(
        writes(&mut state, started),
        ["TargetMatch=False/NoPods", "TrafficMatch=True/PeersMatched"]
    );
}

#[test]
fn a_condition_that_another_writer_keeps_overwriting_is_left_to_it() {
    let started = Instant::now();
    let (mut state, own) = programmed_cluster(started);
    let name = NamespacedName::new("ns", "p");
    let theirs = |own: &NetworkPolicy| {
        let foreign = json!({
            "type": "Problem", "status": "True", "reason": "AmbiguousCIDR", "message": "theirs",
            "observedGeneration": 1, "lastTransitionTime": "2030-01-01T00:00:00Z",
        });
        with_condition(own.clone(), foreign)
    };
    let mut at = started;
    let mut repairs = 0;
    loop {
        at += 2 * SECOND;
        state.handle_policy_event(Event::Apply(theirs(&own)), at);
        match state.plan_write(&name, at) {
            PlannedWrite::Write(write) => {
                repairs += 1;
                assert_eq!(write.missing.len(), 1);
                let answer = patched(&own, &write);
                assert_eq!(state.record_write(&name, &write, &answer, at), None);
            }
            planned => {
                assert_eq!(planned, PlannedWrite::Nothing);
                break;
            }
        }
        assert!(repairs < 10, "the writes do not end");
    }
    assert_eq!(repairs, 2);
    // A new generation is another condition.
    let mut next = theirs(&own);
    next.metadata.generation = Some(2);
    state.handle_policy_event(Event::Apply(next), at);
    let conditions = {
        state.plan_write(&name, at + SECOND);
        writes(&mut state, at + 3 * SECOND)
    };
    assert!(
        conditions.contains(&"Problem=False/NoProblem".to_owned()),
        "{conditions:?}"
    );
}

#[test]
fn a_foreign_programmed_condition_is_kept_without_agents() {
    let started = Instant::now();
    let written_conditions = |reason: &str| {
        let mut policy = policy("p", 1);
        policy.status = serde_json::from_value(json!({"conditions": [{
            "type": "Programmed",
            "status": "True",
            "reason": reason,
            "message": "by the plugin that enforces it",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}))
        .unwrap();
        let lists = InitialLists {
            policies: vec![policy],
            nodes: vec![node("a")],
            ..InitialLists::default()
        };
        let mut state = read(lists, started);
        writes(&mut state, started + SETTLE_TIME)
    };
    let is_about = |writes: &[String]| writes.iter().any(|it| it.starts_with("Programmed"));
    assert!(!is_about(&written_conditions("Enforced")));
    assert!(
        is_about(&written_conditions("Applied")),
        "a condition of this controller must be reset"
    );
}

#[test]
fn foreign_changes_of_a_condition_are_reverted() {
    let started = Instant::now();
    let mut state = cluster(started);
    let mut policy = write(&mut state, &policy("p", 1), started);
    let name = NamespacedName::new("ns", "p");
    let own = policy.clone();
    let due = state.handle_policy_event(Event::Apply(own), started);
    assert_eq!(keys(due), [key("p")].into());
    assert_eq!(
        state.plan_write(&name, started + SECOND),
        PlannedWrite::Nothing
    );
    let conditions = policy.status.conditions.as_mut().unwrap();
    conditions.retain(|condition| condition.type_ != "Problem");
    conditions[0].message = Some("mine".to_owned());
    conditions.push(object(json!({"type": "Theirs", "status": "True"})));
    policy.metadata.resource_version = Some("7".to_owned());
    state.handle_policy_event(Event::Apply(policy), started);
    let right = written(&mut state, started + 2 * SECOND);
    assert_eq!(right.version, "7");
    let types: Vec<ConditionType> = right
        .missing
        .iter()
        .map(|missing| missing.condition.type_)
        .collect();
    assert_eq!(types, [ConditionType::Supported, ConditionType::Problem]);
}
