use rhumb_meta::field::ErrorList;
use serde_json::{Value, json};

use crate::feature_gates::Feature;
use crate::testing::{self, check_create, check_status, check_update, kind, warnings};
use crate::{FeatureGates, fields};

fn check(spec: Value, want: &[&str]) {
    check_create(&kind("", "ResourceQuota"), json!({"spec": spec}), want);
}

#[test]
fn resource_names_and_quantities_are_validated() {
    check(
        json!({"hard": {"cpu": "1", "pods": "3", "count/jobs.batch": "1", "requests.example.com/gpu": 2,
            "gold.storageclass.storage.k8s.io/requests.storage": "1Gi", "hugepages-2Mi": "2Mi"}}),
        &[],
    );
    check(
        json!({"hard": {"cpu": "-1", "pods": "500m", "storage": "1", "x": "1"}}),
        &[
            "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
            "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            "spec.hard[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
            "spec.hard[x]: Invalid value: \"x\": must be a standard resource for quota",
        ],
    );
}

#[test]
fn scopes_match_the_resources_and_each_other() {
    check(
        json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}),
        &[],
    );
    check(
        json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Odd"]}),
        &[
            concat!(
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: unsupported scope ",
                "applied to resource"
            ),
            "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: unsupported scope",
            "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"Odd\"]: conflicting scopes",
        ],
    );
}

#[test]
fn scope_selectors_are_validated() {
    let selector = |scope: &str, operator: &str, values: Value| {
        json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": scope, "operator": operator, "values": values}
        ]}})
    };
    check(selector("PriorityClass", "In", json!(["a"])), &[]);
    check(
        selector("CrossNamespacePodAffinity", "Exists", json!([])),
        &[],
    );
    let at = "spec.scopeSelector.matchExpressions";
    check(
        selector("PriorityClass", "In", json!([])),
        &[&format!(
            "{at}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for \
             scope selector"
        )],
    );
    check(
        selector("BestEffort", "In", json!(["a"])),
        &[&format!(
            "{at}.operator: Invalid value: \"In\": {}",
            super::EXISTS_OPERATOR_REQUIRED
        )],
    );
    check(
        selector("Odd", "Like", json!([])),
        &[
            &format!("{at}.scopeName: Invalid value: \"Odd\": unsupported scope"),
            &format!("{at}.operator: Invalid value: \"Like\": not a valid selector operator"),
        ],
    );
}

#[test]
fn scopes_are_immutable() {
    check_update(
        &kind("", "ResourceQuota"),
        json!({"spec": {"scopes": ["BestEffort", "Terminating"]}}),
        json!({"spec": {"scopes": ["Terminating", "BestEffort"]}}),
        &[],
    );
    check_update(
        &kind("", "ResourceQuota"),
        json!({"spec": {"scopes": ["BestEffort"]}}),
        json!({"spec": {"scopes": ["Terminating"]}}),
        &["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"],
    );
}

#[test]
fn status_quantities_are_validated() {
    check_status(
        &kind("", "ResourceQuota"),
        json!({}),
        json!({"status": {"hard": {"pods": "1"}, "used": {"pods": "-1"}}}),
        &["status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0"],
    );
}

#[test]
fn hard_requests_above_hard_limits_cause_a_warning() {
    let quota = json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi",
        "limits.memory": "1Gi"}}});
    assert_eq!(
        warnings(&kind("", "ResourceQuota"), quota),
        ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
    );
}

const NAMES: [&str; 2] = ["CrossNamespacePodAffinity", "CrossNamespaceAffinity"];

fn gates(on: bool) -> FeatureGates {
    FeatureGates::default().with(Feature::PodAffinityNamespaceSelector, on)
}

fn selecting(expression: Value) -> Value {
    json!({"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [expression]}})
}

#[test]
fn example_of_the_proposal_is_accepted() {
    let quota = json!({
        "metadata": {"name": "disable-cross-namespace-affinity", "namespace": "foo-ns"},
        "spec": selecting(json!({"scopeName": "CrossNamespaceAffinity"})),
    });
    let (stored, errors) = testing::create(&kind("", "ResourceQuota"), quota, &gates(true));
    assert!(errors.is_empty(), "{errors:?}");
    let want = json!([{"scopeName": "CrossNamespaceAffinity", "operator": "Exists"}]);
    let found = fields::get(&stored, "spec.scopeSelector.matchExpressions");
    assert_eq!(found, Some(&want));
}

#[test]
fn only_cross_namespace_affinity_may_omit_the_operator() {
    for name in NAMES {
        for operator in [Value::Null, json!("")] {
            check(
                selecting(json!({"scopeName": name, "operator": operator})),
                &[],
            );
        }
    }
    let at = "spec.scopeSelector.matchExpressions.operator: Invalid value: \"\":";
    check(
        selecting(json!({"scopeName": "BestEffort"})),
        &[
            &format!("{at} {}", super::EXISTS_OPERATOR_REQUIRED),
            &format!("{at} not a valid selector operator"),
        ],
    );
}

#[test]
fn both_scope_names_have_the_same_rules() {
    let hard = json!({"pods": "1", "cpu": "1", "memory": "1", "requests.cpu": "1", "requests.memory": "1",
        "limits.cpu": "1", "limits.memory": "1", "count/pods": "1", "requests.example.com/gpu": "1"});
    for name in NAMES {
        check(json!({"hard": hard, "scopes": [name]}), &[]);
        for resource in [
            "services",
            "requests.storage",
            "ephemeral-storage",
            "hugepages-2Mi",
        ] {
            check(
                json!({"hard": {resource: "1"}, "scopes": [name]}),
                &[&format!(
                    "spec.scopes: Invalid value: [\"{name}\"]: unsupported scope applied to resource"
                )],
            );
        }
        let at = "spec.scopeSelector.matchExpressions";
        check(
            selecting(json!({"scopeName": name, "operator": "In", "values": ["a"]})),
            &[&format!(
                "{at}.operator: Invalid value: \"In\": {}",
                super::EXISTS_OPERATOR_REQUIRED
            )],
        );
        check(
            selecting(json!({"scopeName": name, "operator": "Exists", "values": ["a"]})),
            &[&format!(
                "{at}.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' \
                 for scope selector"
            )],
        );
    }
}

/// As upstream, a duplicate scope is accepted.
#[test]
fn duplicate_scopes_are_accepted() {
    let expressions = NAMES.map(|name| json!({"scopeName": name}));
    for scopes in [["BestEffort"; 2], [NAMES[0]; 2], NAMES] {
        check(json!({"hard": {"pods": "1"}, "scopes": scopes}), &[]);
    }
    check(
        json!({"scopeSelector": {"matchExpressions": expressions}}),
        &[],
    );
}

#[test]
fn scope_may_be_renamed_but_not_removed() {
    let old = json!({"spec": {"scopes": [NAMES[0]]}});
    for (scopes, want) in [
        (json!([NAMES[1]]), &[][..]),
        (json!(NAMES), &[]),
        (
            json!([]),
            &["spec.scopes: Invalid value: []: field is immutable"],
        ),
    ] {
        let patch = json!({"spec": {"scopes": scopes}});
        check_update(&kind("", "ResourceQuota"), old.clone(), patch, want);
    }
}

#[test]
fn scope_cannot_be_added_while_the_gate_is_off() {
    let quota = kind("", "ResourceQuota");
    let plain = json!({"hard": {"pods": "1"}});
    for name in NAMES {
        let selector = selecting(json!({"scopeName": name}));
        let scopes = json!({"hard": {"pods": "1"}, "scopes": [name]});
        let in_selector = format!(
            "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"{name}\": unsupported scope"
        );
        let in_scopes = format!("spec.scopes: Invalid value: [\"{name}\"]: unsupported scope");
        for (spec, want) in [(&selector, &in_selector), (&scopes, &in_scopes)] {
            let object = json!({"spec": spec});
            let (_, errors) = testing::create(&quota, object.clone(), &gates(false));
            assert_eq!(texts(&errors), [want.as_str()]);
            let old = json!({"spec": plain});
            let (_, errors) = testing::update_with(&quota, old, object.clone(), &gates(false));
            assert!(texts(&errors).contains(want), "{errors:?}");
        }
    }
}

/// Disable, then enable the gate: a quota with the scope, in either field and under either name, stays updatable.
#[test]
fn existing_scope_is_kept_while_the_gate_is_off() {
    let quota = kind("", "ResourceQuota");
    for name in NAMES {
        for other in NAMES {
            let old = json!({"spec": selecting(json!({"scopeName": name, "operator": "Exists"}))});
            let patch = json!({"spec": selecting(json!({"scopeName": other}))});
            for on in [true, false, true] {
                let (kept, errors) =
                    testing::update_with(&quota, old.clone(), patch.clone(), &gates(on));
                assert!(errors.is_empty(), "{name} {other} {on}: {errors:?}");
                let want = json!([{"scopeName": other, "operator": "Exists"}]);
                let found = fields::get(&kept, "spec.scopeSelector.matchExpressions");
                assert_eq!(found, Some(&want));
            }
        }
        let old = json!({"spec": {"scopes": [name], "hard": {"pods": "1"}}});
        let patch = json!({"spec": {"hard": {"pods": "2"}}});
        let (_, errors) = testing::update_with(&quota, old, patch, &gates(false));
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn class_and_count_resource_names_match_upstream() {
    let integer = "must be an integer";
    let table = [
        (
            "gold.storageclass.storage.k8s.io/requests.storage",
            "1Gi",
            None,
        ),
        (
            "gold.storageclass.storage.k8s.io/requests.storage",
            "500m",
            Some(integer),
        ),
        (
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
            "2",
            None,
        ),
        (
            "gold.volumeattributesclass.storage.k8s.io/requests.storage",
            "1Gi",
            None,
        ),
        ("gpu.deviceclass.resource.k8s.io/devices", "4", None),
        (
            "gpu.deviceclass.resource.k8s.io/devices",
            "500m",
            Some(integer),
        ),
        ("requests.deviceclass.resource.kubernetes.io/gpu", "4", None),
        (
            "requests.deviceclass.resource.kubernetes.io/gpu",
            "500m",
            None,
        ),
        ("requests.example.com/gpu", "500m", None),
        ("limits.example.com/gpu", "500m", Some(integer)),
        ("count/deployments.apps", "3", None),
        ("count/deployments.apps", "1500m", Some(integer)),
        ("services.loadbalancers", "1500m", Some(integer)),
        ("requests.hugepages-2Mi", "3Mi", None),
        ("pods", "10P", None),
        ("count/pods", "9E", None),
        ("services", "9Ei", None),
        // Upstream rejects this one, because it overflows when it is multiplied by 1000.
        ("services", "10Pi", None),
        // Thousandths are rounded up.
        ("pods", "999999u", None),
        ("pods", "1001u", Some(integer)),
    ];
    for (name, amount, problem) in table {
        let want = problem
            .map(|detail| format!("spec.hard[{name}]: Invalid value: \"{amount}\": {detail}"));
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        check(json!({"hard": {name: amount}}), &want);
    }
}
