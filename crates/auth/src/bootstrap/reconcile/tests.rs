use serde_json::json;

use super::*;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn check(kind: RbacKind, expected: Value, existing: Value, want: Option<Value>) {
    let (expected, existing) = (map(expected), map(existing));
    let want = want.map_or(ReconcileAction::Keep, |it| ReconcileAction::Update(map(it)));
    assert_eq!(reconcile(kind, &expected, Some(&existing)), want);
}

fn rule(verb: &str) -> Value {
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]})
}

#[test]
fn absent_objects_are_created() {
    let expected = map(json!({"metadata": {"name": "r"}, "rules": []}));
    assert_eq!(
        reconcile(RbacKind::Role, &expected, None),
        ReconcileAction::Create(expected.clone())
    );
}

#[test]
fn missing_rules_are_added_and_extra_rules_kept() {
    let expected = json!({
        "metadata": {"labels": {"a": "1"}, "annotations": {AUTO_UPDATE: "true"}},
        "rules": [rule("get"), rule("list")],
    });
    let existing = json!({
        "metadata": {"labels": {"a": "2", "b": "3"}}, "rules": [rule("list"), rule("delete")],
    });
    let want = json!({
        "metadata": {"labels": {"a": "2", "b": "3"}, "annotations": {AUTO_UPDATE: "true"}},
        "rules": [rule("list"), rule("delete"), rule("get")],
    });
    check(
        RbacKind::ClusterRole,
        expected.clone(),
        existing,
        Some(want.clone()),
    );
    check(RbacKind::ClusterRole, expected.clone(), want, None);
    check(RbacKind::ClusterRole, expected.clone(), expected, None);
}

#[test]
fn objects_without_autoupdate_are_left_alone() {
    let existing = json!({"metadata": {"annotations": {AUTO_UPDATE: "false"}}, "rules": []});
    check(
        RbacKind::ClusterRole,
        json!({"rules": [rule("get")]}),
        existing,
        None,
    );
}

#[test]
fn aggregation_selectors_are_completed() {
    let select = |label: &str| json!({"matchLabels": {label: "true"}});
    let role = |selectors: &[&str]| {
        let selectors: Vec<Value> = selectors.iter().map(|it| select(it)).collect();
        json!({"metadata": {}, "aggregationRule": {"clusterRoleSelectors": selectors}})
    };
    check(
        RbacKind::ClusterRole,
        role(&["a"]),
        role(&["b"]),
        Some(role(&["b", "a"])),
    );
    check(RbacKind::ClusterRole, role(&["a"]), role(&["a", "b"]), None);
    check(
        RbacKind::ClusterRole,
        json!({}),
        role(&["a"]),
        Some(json!({"metadata": {}})),
    );
}

/// An administrator may have reduced the roles that it selects.
#[test]
fn rules_of_aggregated_roles_are_not_completed() {
    let role = |rules: Value| {
        json!({
            "metadata": {}, "rules": rules,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "true"}}]},
        })
    };
    let rule = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    check(RbacKind::ClusterRole, role(rule), role(json!([])), None);
}

#[test]
fn subjects_are_completed_and_a_wrong_role_ref_is_replaced() {
    let binding = |role: &str, subjects: &[&str]| {
        let subject = |name: &&str| json!({"kind": "User", "name": name});
        let subjects: Vec<Value> = subjects.iter().map(subject).collect();
        json!({"metadata": {}, "roleRef": {"kind": "Role", "name": role}, "subjects": subjects})
    };
    let kind = RbacKind::RoleBinding;
    check(
        kind,
        binding("r", &["a", "b"]),
        binding("r", &["b", "c"]),
        Some(binding("r", &["b", "c", "a"])),
    );
    check(kind, binding("r", &["a"]), binding("r", &["a", "c"]), None);
    let expected = map(binding("r", &["a"]));
    let existing = map(binding("other", &["a"]));
    assert_eq!(
        reconcile(kind, &expected, Some(&existing)),
        ReconcileAction::Recreate(expected.clone())
    );
}

#[test]
fn reconciling_the_bootstrap_policy_changes_nothing() {
    for object in crate::bootstrap::objects().expect("all objects are valid") {
        let got = reconcile(object.kind, &object.object, Some(&object.object));
        assert_eq!(got, ReconcileAction::Keep, "{}", object.name);
    }
}
