//! Tests of exclusion rules: validation, and dropping while the gate is disabled.

use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use super::{
    mutating_admission_policy, mutating_admission_policy_binding, mutating_webhook_configuration,
    validating_admission_policy, validating_admission_policy_binding,
    validating_webhook_configuration,
};
use crate::feature_gates::Feature;
use crate::validation_helpers::testing::{
    check_create, check_update, defaulted, texts, with, with_gates,
};
use crate::{FeatureGates, FieldView, Kind};

const ALL: &str = "must not exclude all requests: limit the rule by apiGroups, apiVersions, operations, resources, \
                   scope, resourceNames, namespaces or namespaceSelector, or delete what is to see no requests";

/// Every kind with exclusion rules, the path of the rules, and an otherwise valid object.
fn places() -> Vec<(Kind, &'static str, Value)> {
    let rule = json!({
        "operations": ["CREATE"],
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "scope": "*",
    });
    let webhook = json!({
        "name": "a.example.com",
        "clientConfig": {"url": "https://hooks.example.com/a"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let matching = json!({
        "matchPolicy": "Exact",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [rule],
    });
    let configuration = json!({"metadata": {"name": "a"}, "webhooks": [webhook]});
    let policy = json!({"metadata": {"name": "a"}, "spec": {
        "matchConstraints": matching,
        "validations": [{"expression": "true"}],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/x'}]"}}],
        "reinvocationPolicy": "Never",
    }});
    let binding = json!({"metadata": {"name": "a"}, "spec": {
        "policyName": "p",
        "validationActions": ["Deny"],
        "matchResources": matching,
    }});
    let (of_webhook, of_policy, of_binding) = (
        "webhooks.0.excludeResourceRules",
        "spec.matchConstraints.excludeResourceRules",
        "spec.matchResources.excludeResourceRules",
    );
    vec![
        (
            validating_webhook_configuration::kind(),
            of_webhook,
            configuration.clone(),
        ),
        (
            mutating_webhook_configuration::kind(),
            of_webhook,
            configuration,
        ),
        (
            validating_admission_policy::kind(),
            of_policy,
            policy.clone(),
        ),
        (mutating_admission_policy::kind(), of_policy, policy),
        (
            validating_admission_policy_binding::kind(),
            of_binding,
            binding.clone(),
        ),
        (
            mutating_admission_policy_binding::kind(),
            of_binding,
            binding,
        ),
    ]
}

fn policies() -> Vec<(Kind, &'static str, Value)> {
    places().split_off(2)
}

fn shown(path: &str) -> String {
    path.replace(".0.", "[0].")
}

/// A rule and its errors, the same in every kind; paths are relative to the rule.
#[track_caller]
fn check(rule: Value, expect: &[&str]) {
    for (kind, path, object) in places() {
        let object = with(&object, path, json!([rule]));
        let expect: Vec<String> = expect
            .iter()
            .map(|text| match text.strip_prefix(':') {
                Some(of_rule) => format!("{}[0]:{of_rule}", shown(path)),
                None => format!("{}[0].{text}", shown(path)),
            })
            .collect();
        let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
        check_create(&kind, &object, &expect);
    }
}

#[test]
fn exclusion_rules_are_validated() {
    check(json!({"resources": ["pods"]}), &[]);
    check(json!({"apiGroups": [""], "scope": "Cluster"}), &[]);
    check(json!({"resourceNames": ["a", "b"]}), &[]);
    check(
        json!({"namespaces": ["a", "b"], "scope": "Namespaced"}),
        &[],
    );
    check(
        json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
        &[],
    );
    check(
        json!({"namespaceSelector": {}, "resources": ["pods", "pods/*"]}),
        &[],
    );
    check(
        json!({"resourceNames": ["a/b", "c", "c"], "operations": ["*", "READ"], "apiVersions": [""]}),
        &[
            "resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
            "resourceNames[2]: Duplicate value: \"c\"",
            "operations: Invalid value: [\"*\",\"READ\"]: if '*' is present, must not specify other operations",
            "operations[1]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            "apiVersions[0]: Required value",
        ],
    );
    check(
        json!({"apiGroups": ["*", "apps"], "resources": ["*", "pods"], "scope": "Namespace"}),
        &[
            "apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
            "resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
            "scope: Unsupported value: \"Namespace\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
        ],
    );
}

#[test]
fn namespace_conditions_of_exclusion_rules_are_validated() {
    check(
        json!({"namespaces": ["a", "B", "a"]}),
        &[
            "namespaces[1]: Invalid value: \"B\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "namespaces[2]: Duplicate value: \"a\"",
        ],
    );
    check(
        json!({"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
        &[
            "namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ],
    );
    let forbidden = "Forbidden: may not be set when scope is Cluster";
    check(
        json!({"scope": "Cluster", "namespaces": ["a"], "namespaceSelector": {}}),
        &[
            &format!("namespaces: {forbidden}"),
            &format!("namespaceSelector: {forbidden}"),
        ],
    );
}

#[test]
fn exclusion_rules_matching_everything_are_rejected() {
    for all in [
        json!({}),
        json!({"scope": "*", "namespaceSelector": {}, "namespaces": []}),
        json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}),
        json!({"apiGroups": ["*"], "resources": ["*/*"]}),
        json!({"operations": ["CREATE", "UPDATE", "DELETE", "CONNECT"], "resources": ["*", "pods/exec"]}),
    ] {
        check(all.clone(), &[&format!(": Invalid value: {all}: {ALL}")]);
    }
    for some in [
        json!({"scope": "Namespaced"}),
        json!({"operations": ["CREATE", "UPDATE", "DELETE"]}),
        json!({"resources": ["*/scale"]}),
        json!({"apiVersions": ["v1"]}),
    ] {
        check(some, &[]);
    }
}

#[test]
fn existing_catch_all_exclusions_are_accepted_on_update() {
    let star = ["*"];
    let all = json!({"apiGroups": star, "apiVersions": star, "operations": star, "resources": star, "scope": "*"});
    for (kind, path, object) in policies() {
        let old = with(&object, path, json!([all]));
        let refused = format!("{}[1]: Invalid value: {{}}: {ALL}", shown(path));
        check_update(
            &kind,
            &with(&old, "metadata.labels", json!({"a": "b"})),
            &old,
            &[],
        );
        check_update(
            &kind,
            &with(&object, path, json!([{"scope": "Cluster"}, all])),
            &old,
            &[],
        );
        check_update(
            &kind,
            &with(&object, path, json!([all, {}])),
            &old,
            &[&refused],
        );
    }
}

/// Returns the rules that remain after a write, and the validation errors.
fn written(
    on: bool,
    kind: &Kind,
    path: &str,
    object: &Value,
    old: Option<&Value>,
) -> (Value, Vec<String>) {
    let gates = FeatureGates::default().with(Feature::AdmissionWebhookExclusionRules, on);
    let mut errors = ErrorList::new();
    let object = with_gates(gates, |request| {
        let mut object = defaulted(kind, object);
        let old = old.map(|old| defaulted(kind, old));
        let rules = &kind.strategy;
        match &old {
            None => rules.prepare_create(&mut object, request),
            Some(old) => rules.prepare_update(&mut object, old, request),
        }
        let view = FieldView::root(&object);
        match &old {
            None => rules.validate_create(&view, request, &mut errors),
            Some(old) => rules.validate_update(&view, &FieldView::root(old), request, &mut errors),
        }
        Value::Object(object)
    });
    let pointer = format!("/{}", path.replace('.', "/"));
    let left = object.pointer(&pointer).cloned().unwrap_or_default();
    (left, texts(&errors))
}

#[test]
fn while_the_gate_is_off_webhooks_keep_only_existing_exclusion_rules() {
    let (some, others) = (
        json!([{"namespaces": ["a"]}]),
        json!([{"resources": ["pods"]}]),
    );
    for (kind, path, bare) in places().into_iter().take(2) {
        let (with_some, with_others) = (
            with(&bare, path, some.clone()),
            with(&bare, path, others.clone()),
        );
        let blanket = with(&bare, path, json!([{}]));
        let right = |rules: &Value| (rules.clone(), Vec::<String>::new());
        let write = |on, object: &Value, old: Option<&Value>| written(on, &kind, path, object, old);

        assert_eq!(write(true, &with_some, None), right(&some), "on");
        assert_eq!(
            write(false, &with_some, None),
            right(&Value::Null),
            "off: not created"
        );
        assert_eq!(
            write(false, &blanket, None),
            right(&Value::Null),
            "nor looked at"
        );
        assert_eq!(
            write(false, &with_some, Some(&bare)),
            right(&Value::Null),
            "nor added"
        );
        assert_eq!(
            write(false, &with_some, Some(&with_some)),
            right(&some),
            "but kept"
        );
        assert_eq!(
            write(false, &with_others, Some(&with_some)),
            right(&others),
            "and changed"
        );
        assert_eq!(
            write(false, &bare, Some(&with_some)),
            right(&Value::Null),
            "or taken away"
        );
        assert_eq!(
            write(true, &with_others, Some(&with_some)),
            right(&others),
            "on again"
        );

        let two = with(
            &with_some,
            "webhooks",
            json!([with_some["webhooks"][0], bare["webhooks"][0]]),
        );
        let path = "webhooks.1.excludeResourceRules";
        let both = with(&two, path, others.clone());
        let kept = written(false, &kind, path, &both, Some(&two));
        assert_eq!(kept.0, others, "one webhook that has them is enough");
    }
}

#[test]
fn while_the_gate_is_off_policy_rules_with_namespaces_are_dropped_entirely() {
    let plain =
        json!({"apiGroups": ["a"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["b"]});
    let named = with(&plain, "namespaces", json!(["a"]));
    let selected = with(&plain, "namespaceSelector", json!({}));
    for (kind, path, bare) in policies() {
        let of = |rules: &[&Value]| with(&bare, path, json!(rules));
        let right = |rules: &[&Value]| (json!(rules), Vec::<String>::new());
        let none = (Value::Null, Vec::<String>::new());
        let write = |on, object: &Value, old: Option<&Value>| written(on, &kind, path, object, old);
        let all = of(&[&named, &plain, &selected]);

        assert_eq!(write(true, &all, None), right(&[&named, &plain, &selected]));
        assert_eq!(write(false, &all, None), right(&[&plain]));
        assert_eq!(write(false, &of(&[&named]), None), none);
        assert_eq!(write(false, &all, Some(&of(&[&plain]))), right(&[&plain]));
        let kept = write(false, &all, Some(&of(&[&selected])));
        assert_eq!(kept, right(&[&named, &plain, &selected]), "kept");
        let on_again = write(true, &of(&[&selected]), Some(&all));
        assert_eq!(on_again, right(&[&selected]));
    }
}

#[test]
fn while_the_gate_is_off_policies_are_validated_like_upstream() {
    let star = ["*"];
    let all =
        json!({"apiGroups": star, "apiVersions": star, "operations": star, "resources": star});
    let short = json!({"apiGroups": ["a"], "apiVersions": ["v1"], "operations": star});
    for (kind, path, bare) in policies() {
        let (_, errors) = written(false, &kind, path, &with(&bare, path, json!([all])), None);
        assert_eq!(errors, [""; 0]);
        let short = with(&bare, path, json!([short]));
        let (_, errors) = written(false, &kind, path, &short, None);
        assert_eq!(
            errors,
            [format!("{}[0].resources: Required value", shown(path))]
        );
        let (_, errors) = written(false, &kind, path, &short, Some(&short));
        assert_eq!(errors, [""; 0], "what is stored stays right");
    }
}
