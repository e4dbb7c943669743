use serde_json::json;

use super::*;

fn map(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

fn check(kind: Kind, expected: Value, existing: Value, want: Option<Value>) {
    let (expected, existing) = (map(expected), map(existing));
    let want = want.map_or(Reconciled::Keep, |it| Reconciled::Update(map(it)));
    assert_eq!(reconcile(kind, &expected, Some(&existing)), want);
}

fn rule(verb: &str) -> Value {
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]})
}

#[test]
fn what_is_absent_is_created() {
    let expected = map(json!({"metadata": {"name": "r"}, "rules": []}));
    assert_eq!(
        reconcile(Kind::Role, &expected, None),
        Reconciled::Create(expected.clone())
    );
}

#[test]
fn what_is_missing_is_added_and_what_was_added_stays() {
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
        Kind::ClusterRole,
        expected.clone(),
        existing,
        Some(want.clone()),
    );
    check(Kind::ClusterRole, expected.clone(), want, None);
    check(Kind::ClusterRole, expected.clone(), expected, None);
}

#[test]
fn what_somebody_took_over_is_left_alone() {
    let existing = json!({"metadata": {"annotations": {AUTO_UPDATE: "false"}}, "rules": []});
    check(
        Kind::ClusterRole,
        json!({"rules": [rule("get")]}),
        existing,
        None,
    );
}

#[test]
fn selectors_of_aggregated_roles_are_completed() {
    let select = |label: &str| json!({"matchLabels": {label: "true"}});
    let role = |selectors: &[&str]| {
        let selectors: Vec<Value> = selectors.iter().map(|it| select(it)).collect();
        json!({"metadata": {}, "aggregationRule": {"clusterRoleSelectors": selectors}})
    };
    check(
        Kind::ClusterRole,
        role(&["a"]),
        role(&["b"]),
        Some(role(&["b", "a"])),
    );
    check(Kind::ClusterRole, role(&["a"]), role(&["a", "b"]), None);
    check(
        Kind::ClusterRole,
        json!({}),
        role(&["a"]),
        Some(json!({"metadata": {}})),
    );
}

#[test]
fn subjects_are_completed_and_a_wrong_role_is_replaced() {
    let binding = |role: &str, subjects: &[&str]| {
        let subject = |name: &&str| json!({"kind": "User", "name": name});
        let subjects: Vec<Value> = subjects.iter().map(subject).collect();
        json!({"metadata": {}, "roleRef": {"kind": "Role", "name": role}, "subjects": subjects})
    };
    let kind = Kind::RoleBinding;
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
        Reconciled::Recreate(expected.clone())
    );
}

#[test]
fn the_first_policy_is_at_peace_with_itself() {
    for object in crate::bootstrap::objects() {
        let got = reconcile(object.kind, &object.object, Some(&object.object));
        assert_eq!(got, Reconciled::Keep, "{}", object.name);
    }
}
