use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;

fn role(name: &str, fields: Value) -> ClusterRole {
    let mut role = json!({"metadata": {"name": name, "resourceVersion": "7"}});
    for (field, value) in fields.as_object().expect("fields") {
        match field.as_str() {
            "labels" => role["metadata"]["labels"] = value.clone(),
            field => role[field] = value.clone(),
        }
    }
    serde_json::from_value(role).expect("a cluster role")
}

fn grants(label: &str, resource: &str) -> Value {
    json!({
        "labels": {label: "true"},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}],
    })
}

fn aggregates(label: &str) -> Value {
    json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}})
}

fn listed(roles: impl IntoIterator<Item = ClusterRole>) -> ClusterRoles {
    let mut known = ClusterRoles::default();
    let mut names = HashSet::new();
    for role in roles {
        names.insert(role.name_any());
        let stale = known.handle_event(Event::Applied(role));
        assert_eq!(stale, [""; 0], "the list is not complete");
    }
    known.handle_event(Event::Replaced(names));
    known
}

/// The resources of the rules that the role is to get; `None` if it is not written.
fn written(known: &ClusterRoles, name: &str) -> Option<Vec<String>> {
    let write = known.write_for(name).expect("valid selectors")?;
    assert_eq!(write.resource_version.as_deref(), Some("7"));
    let rules = write.rules.into_iter();
    Some(rules.filter_map(|rule| rule.resources).flatten().collect())
}

#[test]
fn aggregated_rules_are_the_union_of_the_selected_roles() {
    let mut known = listed([
        role("sum", aggregates("to-sum")),
        role("b", grants("to-sum", "pods")),
        role("a", grants("to-sum", "nodes")),
        role("c", grants("to-sum", "pods")),
        role("other", grants("to-other", "secrets")),
    ]);
    let sum = written(&known, "sum").expect("a write");
    assert_eq!(sum, ["nodes", "pods"], "by role name, without duplicates");
    assert_eq!(written(&known, "a"), None, "not aggregated");
    assert_eq!(written(&known, "missing"), None);

    let mut complete = aggregates("to-sum");
    complete["rules"] = json!([
        // Stored with an empty list, which means the same as none.
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"], "resourceNames": []},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]);
    let stale = known.handle_event(Event::Applied(role("sum", complete)));
    assert_eq!(stale, ["sum"]);
    assert_eq!(written(&known, "sum"), None, "up to date");
    assert_eq!(known.handle_event(Event::Deleted("a".to_owned())), ["sum"]);
    assert_eq!(
        written(&known, "sum").as_deref(),
        Some(&["pods".to_owned()][..])
    );
}

/// Otherwise a relist would take permissions away for a moment.
#[test]
fn nothing_is_removed_while_roles_are_relisted() {
    let roles = || {
        [
            role("a", grants("to-sum", "nodes")),
            role("b", grants("to-sum", "pods")),
        ]
    };
    let mut known = listed(
        roles()
            .into_iter()
            .chain([role("sum", aggregates("to-sum"))]),
    );
    let [first, _] = roles();
    known.handle_event(Event::Applied(first));
    assert_eq!(written(&known, "sum").expect("a write").len(), 2);
    known.handle_event(Event::Replaced(HashSet::from(
        ["a", "sum"].map(str::to_owned),
    )));
    assert_eq!(written(&known, "sum").expect("a write").len(), 1);
}

/// As upstream: the role keeps its rules.
#[test]
fn a_role_with_an_invalid_selector_is_not_written() {
    let invalid = json!({"aggregationRule": {"clusterRoleSelectors": [
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
    ]}});
    let known = listed([role("sum", invalid)]);
    assert!(known.write_for("sum").is_err());
}
