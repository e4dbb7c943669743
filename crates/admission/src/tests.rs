use std::collections::BTreeMap;
use std::time::Duration;

use rhumb_meta::labels::Labels;
use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use crate::Object;
use crate::criteria::{Criteria, Outcome, Reading};
use crate::facts::{Facts, LabelSets, Names, ObjectLabels, Operation};
use crate::review::{AnswerError, Request, ReviewVersion, UserInfo, read_answer};
use crate::webhook::{Address, FailurePolicy, Service, SideEffects, webhooks_of};

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

fn names(group: &'static str, resource: &'static str, kind: &'static str) -> Names {
    Names {
        resource: GroupVersionResource::new(group, "v1", resource),
        kind: GroupVersionKind::new(group, "v1", kind),
    }
}

fn decide(criteria: &Criteria, asked: &Names, namespace: &str, name: &str) -> String {
    let labels: BTreeMap<String, String> = BTreeMap::new();
    let facts = Facts {
        operation: Operation::Create,
        asked,
        equivalents: &[],
        subresource: "",
        name,
        namespace,
    };
    let labels = LabelSets {
        namespace: Ok(&labels as &dyn Labels),
        object: None,
        old: None,
    };
    match criteria.decide(&facts, &labels) {
        Outcome::Seen(_) => "seen".to_owned(),
        Outcome::Excluded { rule } => format!("excluded by {rule}"),
        other => format!("{other:?}"),
    }
}

const ALL: &str =
    r#"[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]"#;

fn criteria(exclusions: Value, exclusions_on: bool) -> Criteria {
    let rules: Value = serde_json::from_str(ALL).expect("rules");
    let webhook = json!({"rules": rules, "excludeResourceRules": exclusions});
    Criteria::of_webhook(
        &webhook,
        Reading {
            exclusions: exclusions_on,
        },
    )
}

#[test]
fn what_a_rule_leaves_open_is_everything() {
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
        // Nobody knows the name yet.
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
    for (exclusions, asked, namespace, name, want) in table {
        let got = decide(&criteria(exclusions.clone(), true), asked, namespace, name);
        assert_eq!(got, want, "{exclusions} {namespace}/{name}");
        assert_eq!(
            decide(&criteria(exclusions, false), asked, namespace, name),
            "seen"
        );
    }
}

#[test]
fn without_the_gate_a_policy_keeps_what_upstream_knows_and_no_half_of_what_it_does_not() {
    let pods = names("", "pods", "Pod");
    let rules: Value = serde_json::from_str(ALL).expect("rules");
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
            let criteria = Criteria::of_policy(&matching, Reading { exclusions: gate });
            assert_eq!(
                decide(&criteria, &pods, "a", "x"),
                want,
                "{exclusions} {gate}"
            );
        }
    }
}

#[test]
fn a_binding_without_rules_is_about_all_that_its_policy_is_about() {
    let pods = names("", "pods", "Pod");
    let reading = Reading { exclusions: true };
    let open = json!({"excludeResourceRules": [{"namespaces": ["b"]}]});
    let criteria = Criteria::of_binding(&open, reading);
    assert_eq!(decide(&criteria, &pods, "a", "x"), "seen");
    assert_eq!(decide(&criteria, &pods, "b", "x"), "excluded by 0");
    assert_eq!(
        decide(&Criteria::of_policy(&open, reading), &pods, "a", "x"),
        "NoRule"
    );
}

#[test]
fn configurations_of_admission_are_exempt() {
    let check = |kind: &'static str| {
        let asked = names("admissionregistration.k8s.io", "x", kind);
        let facts = Facts {
            operation: Operation::Delete,
            asked: &asked,
            equivalents: &[],
            subresource: "",
            name: "x",
            namespace: "",
        };
        (
            facts.is_exempt_from_webhooks(),
            facts.is_exempt_from_policies(),
        )
    };
    assert_eq!(check("ValidatingWebhookConfiguration"), (true, false));
    assert_eq!(check("MutatingAdmissionPolicyBinding"), (true, true));
    assert_eq!(check("Pod"), (false, false));
}

#[test]
fn webhooks_are_read_with_their_defaults() {
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
    let webhooks = webhooks_of(&configuration, Reading { exclusions: true });
    let [first, second] = &webhooks[..] else {
        panic!("{webhooks:?}");
    };
    assert_eq!((&*first.id, &*second.id), ("c/a.b.c/0", "c/a.b.c/1"));
    assert_eq!(first.address, Address::Url("https://x/y".into()));
    assert_eq!(first.reviews, Some(ReviewVersion::V1Beta1));
    assert_eq!(first.failure, FailurePolicy::Fail);
    assert_eq!(first.timeout, Duration::from_secs(10));
    assert_eq!(first.side_effects, SideEffects::Absent);
    assert!(first.authorities.is_none() && !first.reinvoked && first.conditions.is_empty());
    assert_eq!(
        second.address,
        Address::Service(Service {
            namespace: "n".into(),
            name: "s".into(),
            port: 443,
            path: "/".into()
        })
    );
    assert_eq!(second.failure, FailurePolicy::Ignore);
    assert_eq!(second.timeout, Duration::from_secs(3));
    assert_eq!(second.side_effects, SideEffects::None);
    assert_eq!(second.authorities.as_deref(), Some(&b"a"[..]));
    assert!(second.reinvoked && !second.conditions.is_empty() && second.reviews.is_none());
    assert!(webhooks_of(&Object::new(), Reading { exclusions: true }).is_empty());
}

#[test]
fn a_review_says_what_was_asked_and_what_is_seen() {
    let (asked, seen) = (
        names("events.k8s.io", "events", "Event"),
        names("", "events", "Event"),
    );
    let extra = BTreeMap::from([("k".to_owned(), vec!["v".to_owned()])]);
    let it = object(json!({"kind": "Event"}));
    let request = Request {
        uid: "u",
        seen: &seen,
        asked: &asked,
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
        old: None,
        dry_run: true,
        options: None,
    };
    let bytes = request.to_json(ReviewVersion::V1).expect("a review");
    let kind = |group: &str| json!({"group": group, "version": "v1", "kind": "Event"});
    let resource = |group: &str| json!({"group": group, "version": "v1", "resource": "events"});
    let review: Value = serde_json::from_slice(&bytes).expect("JSON");
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
fn answers_are_read_as_strictly_as_upstream_reads_them() {
    let review = |response: Value| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let invalid = |text: &str| Err(AnswerError::Invalid(text.to_owned()));
    let table = [
        (review(json!({"uid": "u", "allowed": true})), true, Ok(true)),
        (review(json!({"uid": "u"})), false, Ok(false)),
        (
            review(json!(null)),
            false,
            invalid("webhook response was absent"),
        ),
        (
            review(json!({"uid": "x"})),
            false,
            invalid("expected response.uid=\"u\", got \"x\""),
        ),
        (
            json!({"response": {"uid": "u", "allowed": true}}),
            false,
            invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
        ),
        (
            review(json!({"uid": "u", "patch": "W10="})),
            true,
            invalid("webhook returned response.patch but not response.patchType"),
        ),
        (
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            true,
            invalid("webhook returned response.patchType but not response.patch"),
        ),
        (
            review(json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "X"})),
            true,
            Err(AnswerError::UnsupportedPatch("X".to_owned())),
        ),
        (
            review(json!({"uid": "u", "patch": "W10=", "patchType": ""})),
            true,
            invalid("webhook returned invalid response.patchType of \"\""),
        ),
        // A rejection is one, also with a patch that could not be applied.
        (
            review(json!({"uid": "u", "patch": "W10=", "patchType": "X"})),
            true,
            Ok(false),
        ),
        (
            review(json!({"uid": "u", "allowed": false, "patch": "?", "patchType": "JSONPatch"})),
            true,
            Ok(false),
        ),
        // What is null is not there.
        (
            review(json!({"uid": "u", "allowed": null})),
            true,
            Ok(false),
        ),
        (
            review(json!({"uid": null})),
            true,
            invalid("expected response.uid=\"u\", got \"\""),
        ),
        (
            json!({"apiVersion": null, "kind": null, "response": {"uid": "u"}}),
            false,
            invalid(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
        ),
        (
            review(json!({
                "uid": "u", "allowed": true, "status": null, "patch": null, "patchType": null,
                "auditAnnotations": null, "warnings": null,
            })),
            true,
            Ok(true),
        ),
        (
            review(json!({"uid": "u", "patch": "W10="})),
            false,
            invalid("validating webhook may not return response.patch"),
        ),
        (
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            false,
            invalid("validating webhook may not return response.patchType"),
        ),
        (
            review(json!({"uid": "u", "patch": "W10=", "patchType": "JSONPatch"})),
            true,
            Ok(false),
        ),
    ];
    for (answer, mutating, want) in table {
        let bytes = answer.to_string();
        let got = read_answer(bytes.as_bytes(), "u", ReviewVersion::V1, mutating);
        assert_eq!(got.map(|answer| answer.allowed), want, "{answer}");
    }
    let broken =
        review(json!({"uid": "u", "allowed": true, "patch": "?", "patchType": "JSONPatch"}));
    for nonsense in ["<html>", &*broken.to_string()] {
        let got = read_answer(nonsense.as_bytes(), "u", ReviewVersion::V1, true);
        assert!(matches!(got, Err(AnswerError::Unreadable(_))), "{got:?}");
    }
}

#[test]
fn null_in_an_answer_is_what_go_makes_of_it() {
    let rejected = |status: Value| {
        let answer = json!({"response": {
            "status": status, "auditAnnotations": {"a": null, "b": "c"}, "warnings": [null, "w"],
        }});
        let bytes = answer.to_string();
        let answer = read_answer(bytes.as_bytes(), "u", ReviewVersion::V1Beta1, true);
        let answer = answer.unwrap_or_else(|error| panic!("{status}: {error}"));
        assert!(!answer.allowed);
        assert_eq!(answer.annotations["a"], "");
        assert_eq!(answer.annotations["b"], "c");
        assert_eq!(answer.warnings, ["", "w"]);
        answer.status.map(|status| json!(status))
    };
    assert_eq!(rejected(json!(null)), None);
    let bare = rejected(json!({}));
    let table = [
        json!({"message": null, "code": null, "reason": null, "status": null}),
        json!({"metadata": null, "details": null}),
        json!({"metadata": {"continue": null}}),
    ];
    for status in table {
        assert_eq!(rejected(status.clone()), bare, "{status}");
    }
    let details = json!({
        "name": null, "group": null, "kind": null, "uid": null, "retryAfterSeconds": null,
        "causes": [null, {"reason": null, "message": null, "field": "spec"}],
    });
    let told = rejected(json!({"code": 418, "message": "no", "details": details}));
    let told = told.expect("a status");
    assert_eq!(told["code"], 418);
    assert_eq!(told["message"], "no");
    assert_eq!(told["details"], json!({"causes": [{}, {"field": "spec"}]}));
}

#[test]
fn labels_are_read_where_they_are() {
    let labelled = object(json!({"metadata": {"labels": {"a": "b", "n": 1}}}));
    assert_eq!(ObjectLabels(&labelled).get("a"), Some("b"));
    assert_eq!(ObjectLabels(&labelled).get("n"), None);
    assert_eq!(ObjectLabels(&Object::new()).get("a"), None);
}
