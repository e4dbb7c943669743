//! Tests of matching, of parsing webhooks and of building an `AdmissionReview`.

use std::collections::BTreeMap;
use std::time::Duration;

use rhumb_meta::labels::Labels;
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use crate::Object;
use crate::match_attributes::{
    MatchAttributes, ObjectLabels, Operation, ResourceAndKind, SelectorLabels,
};
use crate::match_criteria::{CriteriaFeatures, MatchCriteria, MatchOutcome};
use crate::review::{AdmissionRequest, ReviewVersion, UserInfo};
use crate::webhook::{
    FailurePolicy, ServiceReference, SideEffects, WebhookAddress, parse_webhooks,
};

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is not an object"),
    }
}

fn names(group: &'static str, resource: &'static str, kind: &'static str) -> ResourceAndKind {
    ResourceAndKind {
        resource: GroupVersionResource::new(group, "v1", resource),
        kind: GroupVersionKind::new(group, "v1", kind),
    }
}

fn decide(
    criteria: &MatchCriteria,
    target: &ResourceAndKind,
    namespace: &str,
    name: &str,
) -> String {
    let labels: BTreeMap<String, String> = BTreeMap::new();
    let attributes = MatchAttributes {
        operation: Operation::Create,
        requested: target,
        equivalents: &[],
        subresource: "",
        name,
        namespace,
    };
    let labels = SelectorLabels {
        namespace: Ok(&labels as &dyn Labels),
        object: None,
        old_object: None,
    };
    match criteria.evaluate(&attributes, &labels) {
        MatchOutcome::Matched(_) => "seen".to_owned(),
        MatchOutcome::Excluded { rule } => format!("excluded by {rule}"),
        other => format!("{other:?}"),
    }
}

const ALL: &str =
    r#"[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]"#;

fn criteria(exclusions: Value, exclusions_on: bool) -> MatchCriteria {
    let rules: Value = serde_json::from_str(ALL).expect("valid rules");
    let webhook = json!({"rules": rules, "excludeResourceRules": exclusions});
    MatchCriteria::of_webhook(
        &webhook,
        CriteriaFeatures {
            exclusion_rules: exclusions_on,
        },
    )
}

#[test]
fn absent_rule_fields_match_everything() {
    let pods = names("", "pods", "Pod");
    let leases = names("coordination.k8s.io", "leases", "Lease");
    let table = [
        (json!([]), &pods, "a", "x", "seen"),
        (
            json!([{"resources": ["pods"]}]),
            &pods,
            "a",
            "x",
            "excluded by 0",
        ),
        (json!([{"resources": ["pods"]}]), &leases, "a", "x", "seen"),
        (
            json!([{"apiGroups": ["coordination.k8s.io"]}]),
            &leases,
            "a",
            "x",
            "excluded by 0",
        ),
        (
            json!([{"namespaces": ["b"]}, {"namespaces": ["a"]}]),
            &pods,
            "a",
            "x",
            "excluded by 1",
        ),
        (
            json!([{"namespaces": ["a"]}]),
            &names("", "nodes", "Node"),
            "",
            "x",
            "seen",
        ),
        (
            json!([{"namespaces": ["a"]}]),
            &names("", "namespaces", "Namespace"),
            "a",
            "a",
            "seen",
        ),
        (
            json!([{"namespaceSelector": {}}]),
            &pods,
            "a",
            "x",
            "excluded by 0",
        ),
        (
            json!([{"namespaceSelector": {"matchLabels": {"a": "b"}}}]),
            &pods,
            "a",
            "x",
            "seen",
        ),
        // The name is not known yet.
        (json!([{"resourceNames": ["x"]}]), &pods, "a", "", "seen"),
        (
            json!([{"resourceNames": ["x"]}]),
            &pods,
            "a",
            "x",
            "excluded by 0",
        ),
        (
            json!([{"namespaces": ["a"], "resourceNames": ["x"]}]),
            &pods,
            "a",
            "y",
            "seen",
        ),
        (json!([{"scope": "Cluster"}]), &pods, "a", "x", "seen"),
    ];
    for (exclusions, target, namespace, name, want) in table {
        let got = decide(&criteria(exclusions.clone(), true), target, namespace, name);
        assert_eq!(got, want, "{exclusions} {namespace}/{name}");
        assert_eq!(
            decide(&criteria(exclusions, false), target, namespace, name),
            "seen"
        );
    }
}

#[test]
fn while_the_gate_is_off_policy_rules_beyond_upstream_are_ignored_entirely() {
    let pods = names("", "pods", "Pod");
    let rules: Value = serde_json::from_str(ALL).expect("valid rules");
    let table = [
        (
            json!([{"resources": ["pods"], "resourceNames": ["x"]}]),
            "excluded by 0",
            "excluded by 0",
        ),
        (
            json!([{"resources": ["pods"], "namespaces": ["a"]}]),
            "excluded by 0",
            "seen",
        ),
        (
            json!([{"resources": ["pods"], "namespaceSelector": {}}]),
            "excluded by 0",
            "seen",
        ),
    ];
    for (exclusions, on, off) in table {
        let matching = json!({"resourceRules": rules, "excludeResourceRules": exclusions});
        for (gate, want) in [(true, on), (false, off)] {
            let criteria = MatchCriteria::of_policy(
                &matching,
                CriteriaFeatures {
                    exclusion_rules: gate,
                },
            );
            assert_eq!(
                decide(&criteria, &pods, "a", "x"),
                want,
                "{exclusions} {gate}"
            );
        }
    }
}

#[test]
fn binding_without_rules_matches_everything() {
    let pods = names("", "pods", "Pod");
    let reading = CriteriaFeatures {
        exclusion_rules: true,
    };
    let open = json!({"excludeResourceRules": [{"namespaces": ["b"]}]});
    let criteria = MatchCriteria::of_binding(&open, reading);
    assert_eq!(decide(&criteria, &pods, "a", "x"), "seen");
    assert_eq!(decide(&criteria, &pods, "b", "x"), "excluded by 0");
    assert_eq!(
        decide(&MatchCriteria::of_policy(&open, reading), &pods, "a", "x"),
        "NoRule"
    );
}

#[test]
fn admission_configurations_are_exempt() {
    let check = |kind: &'static str| {
        let target = names("admissionregistration.k8s.io", "x", kind);
        let attributes = MatchAttributes {
            operation: Operation::Delete,
            requested: &target,
            equivalents: &[],
            subresource: "",
            name: "x",
            namespace: "",
        };
        (
            attributes.is_exempt_from_webhooks(),
            attributes.is_exempt_from_policies(),
        )
    };
    assert_eq!(check("ValidatingWebhookConfiguration"), (true, false));
    assert_eq!(check("MutatingAdmissionPolicyBinding"), (true, true));
    assert_eq!(check("Pod"), (false, false));
}

#[test]
fn webhooks_are_parsed_with_defaults() {
    let configuration = object(json!({
        "metadata": {"name": "c"},
        "webhooks": [
            {"name": "a.b.c", "clientConfig": {"url": "https://x/y"}, "admissionReviewVersions": ["v2", "v1beta1", "v1"]},
            {
                "name": "a.b.c", "clientConfig": {"service": {"namespace": "n", "name": "s"}, "caBundle": "YQ=="},
                "failurePolicy": "Ignore", "timeoutSeconds": 3, "sideEffects": "NoneOnDryRun",
                "reinvocationPolicy": "IfNeeded", "matchConditions": [{"name": "m", "expression": "true"}],
            },
        ],
    }));
    let webhooks = parse_webhooks(
        &configuration,
        CriteriaFeatures {
            exclusion_rules: true,
        },
    );
    let [first, second] = &webhooks[..] else {
        panic!("{webhooks:?}");
    };
    assert_eq!((&*first.id, &*second.id), ("c/a.b.c/0", "c/a.b.c/1"));
    assert_eq!(first.address, WebhookAddress::Url("https://x/y".into()));
    assert_eq!(first.review_version, Some(ReviewVersion::V1Beta1));
    assert_eq!(first.failure_policy, FailurePolicy::Fail);
    assert_eq!(first.timeout, Duration::from_secs(10));
    assert_eq!(first.side_effects, SideEffects::Unspecified);
    assert!(
        first.ca_bundle.is_none() && !first.reinvoke_if_needed && first.match_conditions.is_empty()
    );
    assert_eq!(
        second.address,
        WebhookAddress::Service(ServiceReference {
            namespace: "n".into(),
            name: "s".into(),
            port: 443,
            path: "/".into()
        })
    );
    assert_eq!(second.failure_policy, FailurePolicy::Ignore);
    assert_eq!(second.timeout, Duration::from_secs(3));
    assert_eq!(second.side_effects, SideEffects::None);
    assert_eq!(second.ca_bundle.as_deref(), Some(&b"a"[..]));
    assert!(
        second.reinvoke_if_needed
            && !second.match_conditions.is_empty()
            && second.review_version.is_none()
    );
    assert!(
        parse_webhooks(
            &Object::new(),
            CriteriaFeatures {
                exclusion_rules: true
            }
        )
        .is_empty()
    );
}

#[test]
fn review_contains_request_and_object() {
    let (target, seen) = (
        names("events.k8s.io", "events", "Event"),
        names("", "events", "Event"),
    );
    let extra = BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]);
    let it = object(json!({"kind": "Event"}));
    let request = AdmissionRequest {
        uid: "u",
        matched: &seen,
        requested: &target,
        subresource: "",
        name: "n",
        namespace: "",
        operation: Operation::Update,
        user: UserInfo {
            username: "ann",
            uid: "",
            groups: &["g".to_owned()],
            extra: &extra,
        },
        object: Some(&it),
        old_object: None,
        dry_run: true,
        options: None,
    };
    let bytes = request
        .to_json(ReviewVersion::V1)
        .expect("the review can be encoded");
    let kind = |group: &str| json!({"group": group, "version": "v1", "kind": "Event"});
    let resource = |group: &str| json!({"group": group, "version": "v1", "resource": "events"});
    let review: Value = serde_json::from_slice(&bytes).expect("valid JSON");
    assert_eq!(
        review,
        json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u", "kind": kind(""), "resource": resource(""),
                "requestKind": kind("events.k8s.io"), "requestResource": resource("events.k8s.io"),
                "name": "n", "operation": "UPDATE",
                "userInfo": {"username": "ann", "groups": ["g"], "extra": {"k": ["v"]}},
                "object": {"kind": "Event"}, "oldObject": null, "dryRun": true, "options": null,
            },
        })
    );
}

#[test]
fn labels_are_read_from_metadata() {
    let labelled = object(json!({"metadata": {"labels": {"a": "b", "n": 1}}}));
    assert_eq!(ObjectLabels(&labelled).get("a"), Some("b"));
    assert_eq!(ObjectLabels(&labelled).get("n"), None);
    assert_eq!(ObjectLabels(&Object::new()).get("a"), None);
}
