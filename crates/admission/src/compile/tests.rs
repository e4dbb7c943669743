//! Tests of `compile_webhook` on single rules: texts of conditions, moved selectors, refusals.

use serde_json::{Value, json};

use super::oracle_tests::resource_sets;
use super::*;

fn webhook(parts: Value) -> Map<String, Value> {
    let mut webhook = json!({
        "name": "a.example.com",
        "matchPolicy": "Exact",
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
    });
    if let (Value::Object(webhook), Value::Object(parts)) = (&mut webhook, parts) {
        webhook.extend(parts);
    }
    webhook.as_object().expect("an object").clone()
}

fn compiled(parts: Value) -> CompiledWebhook {
    compile_webhook(&webhook(parts), &resource_sets()).expect("a compiled webhook")
}

fn expression(rule: Value) -> String {
    let compiled = compiled(json!({"excludeResourceRules": [rule]}));
    assert!(!compiled.webhook.contains_key("excludeResourceRules"));
    let condition = &compiled.webhook["matchConditions"][0];
    assert_eq!(condition["name"], "exclude-resource-rules");
    condition["expression"].as_str().expect("a text").to_owned()
}

#[test]
fn rules_become_expressions() {
    for (rule, expected) in [
        (
            json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}),
            r#"!(request.resource.group == "coordination.k8s.io" && request.resource.resource == "leases" && !has(request.subResource))"#,
        ),
        (
            json!({"resources": ["pods", "pods/*"], "namespaces": ["policy", "kube-system"]}),
            r#"!(request.resource.resource == "pods" && has(request.namespace) && request.namespace in ["policy", "kube-system"])"#,
        ),
        (
            json!({"apiGroups": [""], "resources": ["pods", "nodes", "pods/status", "nodes/status", "x/*"]}),
            r#"!(request.resource.group == "" && (request.resource.resource in ["pods", "nodes"] && !has(request.subResource) || request.resource.resource in ["pods", "nodes"] && has(request.subResource) && request.subResource == "status" || request.resource.resource == "x"))"#,
        ),
        (
            json!({"operations": ["CREATE", "DELETE"], "resources": ["*/*"], "resourceNames": ["a\"b"]}),
            r#"!(request.operation in ["CREATE", "DELETE"] && has(request.name) && request.name == "a\"b")"#,
        ),
        (
            json!({"operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"], "resources": ["*/*"], "scope": "Namespaced"}),
            r#"!(has(request.namespace) && !(request.resource.group == "" && request.resource.resource == "namespaces"))"#,
        ),
        (
            json!({"apiGroups": ["apps"], "resources": ["*/scale"], "namespaceSelector": {}}),
            r#"!(request.resource.group == "apps" && has(request.subResource) && request.subResource == "scale" && has(request.namespace))"#,
        ),
        (
            json!({"apiGroups": ["apps"], "resources": ["*/*"], "namespaceSelector": {"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "b"]},
                {"key": "kubernetes.io/metadata.name", "operator": "Exists"},
            ]}}),
            r#"!(request.resource.group == "apps" && has(request.namespace) && !(request.namespace in ["a", "b"]))"#,
        ),
    ] {
        assert_eq!(expression(rule.clone()), expected, "{rule}");
    }
}

#[test]
fn equivalent_resources_are_listed() {
    let rule =
        json!({"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"]});
    let compiled = compiled(json!({"matchPolicy": "Equivalent", "excludeResourceRules": [rule]}));
    assert_eq!(
        compiled.webhook["matchConditions"][0]["expression"],
        r#"!((request.requestResource.group == "events.k8s.io" && request.requestResource.version == "v1" && request.requestResource.resource == "events" && !has(request.subResource) || request.requestResource.group == "" && request.requestResource.version == "v1" && request.requestResource.resource == "events" && !has(request.subResource)))"#
    );
    assert_eq!(compiled.notes, [""; 0]);
}

#[test]
fn unknown_versions_of_custom_resources_are_noted() {
    let rule = json!({"apiGroups": ["example.com", "apps"], "apiVersions": ["v1"], "resources": ["widgets"]});
    let compiled = compiled(json!({"matchPolicy": "Equivalent", "excludeResourceRules": [rule]}));
    assert_eq!(
        compiled.notes,
        [
            "excludeResourceRules[0]: requests for example.com are excluded only in the apiVersions of the rule, although \
          matchPolicy is Equivalent: list all versions that are served"
        ]
    );
}

#[test]
fn several_rules_and_existing_conditions_are_combined() {
    let own = json!([{"name": "exclude-resource-rules", "expression": "true"}]);
    let rules = json!([{"apiGroups": ["a"], "resources": ["*/*"]}, {"apiGroups": ["b"], "resources": ["*/*"]}]);
    let one = compiled(json!({"excludeResourceRules": rules, "matchConditions": own}));
    assert_eq!(
        one.webhook["matchConditions"],
        json!([own[0], {
            "name": "exclude-resource-rules-2",
            "expression": "!(\n  request.resource.group == \"a\" ||\n  request.resource.group == \"b\"\n)",
        }])
    );
    // Nothing to compile.
    for rules in [json!(null), json!([])] {
        let one = compiled(json!({ "excludeResourceRules": rules }));
        assert_eq!(one.webhook, webhook(json!({})));
    }
    // Deeply nested expressions are invalid; many rules are not nested.
    let rule = |number: usize| json!({"apiGroups": [format!("g{number}")], "resources": ["pods"]});
    let rules: Vec<Value> = (0..300).map(rule).collect();
    compiled(json!({ "excludeResourceRules": rules }));
}

#[test]
fn selectors_are_moved_to_the_webhook_if_that_is_equivalent() {
    let namespaced = json!([{"apiGroups": ["", "apps"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods", "deployments/scale"]}]);
    for (selector, expected) in [
        (
            json!({"matchLabels": {"team": "a"}}),
            json!({"key": "team", "operator": "NotIn", "values": ["a"]}),
        ),
        (
            json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a", "b"]}]}),
            json!({"key": "team", "operator": "In", "values": ["a", "b"]}),
        ),
        (
            json!({"matchExpressions": [{"key": "team", "operator": "Exists"}]}),
            json!({"key": "team", "operator": "DoesNotExist"}),
        ),
        (
            json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}),
            json!({"key": "team", "operator": "Exists"}),
        ),
    ] {
        for own in [json!(null), json!({"matchLabels": {"x": "y"}})] {
            let rule = json!({"resources": ["*/*"], "namespaceSelector": selector});
            let one = compiled(json!({
                "rules": namespaced, "namespaceSelector": own, "excludeResourceRules": [rule],
            }));
            let mut wanted = json!({"matchExpressions": [expected]});
            if !own.is_null() {
                wanted["matchLabels"] = own["matchLabels"].clone();
            }
            assert_eq!(one.webhook["namespaceSelector"], wanted, "{selector}");
            assert!(!one.webhook.contains_key("matchConditions"));
            assert!(one.notes[0].contains("is moved to the namespaceSelector of the webhook"));
        }
    }
}

#[test]
fn what_cannot_be_expressed_is_refused_with_the_reason() {
    let team = json!({"matchLabels": {"team": "a"}});
    let two = json!({"matchLabels": {"team": "a", "tier": "b"}});
    let namespaced = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
        "scope": "Namespaced"}]);
    for (rules, rule, reason) in [
        (
            json!(null),
            json!({"resources": ["*/*"], "namespaceSelector": team}),
            "the webhook is also called for namespaces themselves",
        ),
        (
            namespaced.clone(),
            json!({"resources": ["pods"], "namespaceSelector": team}),
            "the rule excludes only a part of what the webhook is called for",
        ),
        (
            namespaced.clone(),
            json!({"resources": ["*/*"], "namespaces": ["x"], "namespaceSelector": team}),
            "the rule has namespaces too",
        ),
        (
            namespaced,
            json!({"resources": ["*/*"], "namespaceSelector": two}),
            "it has several requirements, whose negation is not a selector",
        ),
    ] {
        let mut parts = json!({"excludeResourceRules": [{"apiGroups": ["a"]}, rule]});
        if !rules.is_null() {
            parts["rules"] = rules;
        }
        let refusal = compile_webhook(&webhook(parts), &resource_sets()).expect_err("a refusal");
        assert_eq!(refusal.rule, Some(1));
        let text = refusal.to_string();
        assert!(
            text.starts_with("excludeResourceRules[1]: its namespaceSelector cannot be translated")
                && text.contains(reason),
            "{text}"
        );
    }
    let conditions: Vec<Value> = (0..64)
        .map(|number| json!({"name": format!("c{number}"), "expression": "true"}))
        .collect();
    let parts =
        json!({"excludeResourceRules": [{"apiGroups": ["a"]}], "matchConditions": conditions});
    let refusal = compile_webhook(&webhook(parts), &resource_sets()).expect_err("a refusal");
    assert!(
        refusal
            .to_string()
            .contains("already has 64 matchConditions"),
        "{refusal}"
    );
}
