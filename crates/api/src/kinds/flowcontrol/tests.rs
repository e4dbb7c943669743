//! Tests of the validation errors of flow schemas and priority levels.

use serde_json::{Value, json};

use super::{flow_schema, priority_level_configuration};
use crate::validation_helpers::testing::{check_create, check_status_update, defaulted, with};

fn schema() -> Value {
    json!({
        "metadata": {"name": "mine"},
        "spec": {
            "priorityLevelConfiguration": {"name": "low"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "*"}}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}],
            }],
        },
    })
}

#[test]
fn flow_schemas_are_validated() {
    let check = |path: &str, value: Value, expect: &[&str]| {
        check_create(&flow_schema::kind(), &with(&schema(), path, value), expect);
    };
    check("spec.matchingPrecedence", json!(10_000), &[]);
    check(
        "spec.matchingPrecedence",
        json!(1),
        &[
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ],
    );
    check(
        "spec.distinguisherMethod",
        json!({"type": "ByMood"}),
        &[
            "spec.distinguisherMethod.type: Unsupported value: {\"Type\":\"ByMood\"}: supported values: \"ByNamespace\", \"ByUser\"",
        ],
    );
    check(
        "spec.priorityLevelConfiguration",
        json!({}),
        &["spec.priorityLevelConfiguration.name: Required value: must reference a priority level"],
    );
    check(
        "spec.rules.0.subjects",
        json!([
            {"kind": "Group", "user": {"name": "x"}},
            {"kind": "ServiceAccount", "serviceAccount": {"name": "*"}},
            {"kind": "Robot"},
        ]),
        &[
            "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is 'Group'",
            "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
            "spec.rules[0].subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account",
            "spec.rules[0].subjects[2].kind: Unsupported value: \"Robot\": supported values: \"Group\", \"ServiceAccount\", \"User\"",
        ],
    );
    check(
        "spec.rules.0.nonResourceRules",
        json!([{"verbs": ["*", "get"], "nonResourceURLs": ["a", "/a/*/b"]}]),
        &[
            "spec.rules[0].nonResourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs",
            "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"a\": must start with slash",
            "spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"/a/*/b\": wildcard can only do suffix matching",
        ],
    );
    check(
        "spec.rules.0.resourceRules",
        json!([{"verbs": ["get"], "resources": ["pods"]}]),
        &[
            "spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
        ],
    );
    assert_eq!(
        defaulted(&flow_schema::kind(), &schema())["spec"]["matchingPrecedence"],
        1000
    );
}

#[test]
fn priority_levels_are_validated() {
    let check = |spec: Value, expect: &[&str]| {
        let object = json!({"metadata": {"name": "low"}, "spec": spec});
        check_create(&priority_level_configuration::kind(), &object, expect);
    };
    let queue = |queues: i64, hand: i64| {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
        json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}})
    };
    check(queue(64, 8), &[]);
    check(
        queue(64, 65),
        &[
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 65: should not be greater than queues (64)",
        ],
    );
    check(
        queue(64, 11),
        &[
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater than 60",
        ],
    );
    check(
        json!({"type": "Exempt"}),
        &[
            "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'",
        ],
    );
    check(
        json!({"type": "Limited"}),
        &["spec.limited: Required value: must not be empty when type is Limited"],
    );
}

#[test]
fn condition_types_are_required_and_unique() {
    let status = json!({"status": {"conditions": [{"type": "a"}, {"type": "a"}, {}]}});
    check_status_update(
        &flow_schema::kind(),
        &status,
        &json!({}),
        &[
            "status.conditions[1].type: Duplicate value: \"a\"",
            "status.conditions[2].type: Required value",
        ],
    );
}
