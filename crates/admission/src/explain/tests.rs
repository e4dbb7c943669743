//! Tests of [`explain`]: verdicts of webhooks and policies for single requests.

use std::collections::BTreeMap;

use rhumb_meta::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use super::{AdmissionParticipant, AdmissionRegistrations, ExplainedWrite, explain};
use crate::Object;
use crate::match_attributes::{MatchAttributes, Operation, ResourceAndKind};
use crate::match_criteria::CriteriaFeatures;
use crate::review::UserInfo;

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

/// The request of a test. By default, a pod is created in the namespace `shop`.
struct TestRequest {
    names: ResourceAndKind,
    equivalents: Vec<ResourceAndKind>,
    operation: Operation,
    subresource: &'static str,
    object: Value,
    dry_run: bool,
}

impl Default for TestRequest {
    fn default() -> Self {
        TestRequest {
            names: names("", "pods", "Pod"),
            equivalents: Vec::new(),
            operation: Operation::Create,
            subresource: "",
            object: json!({"metadata": {"name": "web", "labels": {"app": "web"}}}),
            dry_run: false,
        }
    }
}

impl TestRequest {
    fn explain(&self, configurations: Vec<Value>) -> Vec<AdmissionParticipant> {
        let mut all = AdmissionRegistrations::default();
        for configuration in configurations {
            all.add(object(configuration))
                .expect("the object is a configuration");
        }
        let is_namespaced = matches!(&*self.names.resource.group, "" | "apps");
        let namespace = object(json!({"metadata": {"name": "shop", "labels": {"tier": "web"}}}));
        let own = object(self.object.clone());
        let is_written = matches!(self.operation, Operation::Create | Operation::Update);
        let write = ExplainedWrite {
            attributes: MatchAttributes {
                operation: self.operation,
                requested: &self.names,
                equivalents: &self.equivalents,
                subresource: self.subresource,
                name: "web",
                namespace: if is_namespaced { "shop" } else { "" },
            },
            object: is_written.then_some(&own),
            old_object: (!is_written).then_some(&own),
            namespace: Some(&namespace),
            user: UserInfo {
                username: "ann",
                uid: "",
                groups: &["people".to_owned()],
                extra: &BTreeMap::new(),
            },
            dry_run: self.dry_run,
        };
        explain(
            &write,
            &all,
            CriteriaFeatures {
                exclusion_rules: true,
            },
        )
    }

    /// The verdict of the only participant.
    #[track_caller]
    fn verdict(&self, configurations: Vec<Value>) -> String {
        match &self.explain(configurations)[..] {
            [only] => only.verdict.to_string(),
            others => panic!("{others:?}"),
        }
    }
}

fn merged(mut base: Value, changes: &Value) -> Value {
    for (field, value) in changes.as_object().expect("a JSON object") {
        base[field] = value.clone();
    }
    base
}

fn rule(resource: &str) -> Value {
    json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}])
}

fn webhook(kind: &str, configuration: &str, changes: &Value) -> Value {
    let webhook = merged(
        json!({"name": "w.example.com", "sideEffects": "None", "rules": rule("pods")}),
        changes,
    );
    json!({"kind": kind, "metadata": {"name": configuration}, "webhooks": [webhook]})
}

fn policy(kind: &str, name: &str, constraints: &Value, changes: &Value) -> Value {
    let constraints = merged(json!({"resourceRules": rule("pods")}), constraints);
    let spec = merged(json!({"matchConstraints": constraints}), changes);
    json!({"kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn binding(kind: &str, name: &str, policy: &str, changes: &Value) -> Value {
    let spec = merged(json!({"policyName": policy}), changes);
    json!({"kind": kind, "metadata": {"name": name}, "spec": spec})
}

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const POLICY: &str = "ValidatingAdmissionPolicy";
const BINDING: &str = "ValidatingAdmissionPolicyBinding";

#[test]
fn participants_are_in_call_order() {
    let nothing = json!({});
    let participants = TestRequest::default().explain(vec![
        webhook(VALIDATING, "b", &nothing),
        webhook(VALIDATING, "a", &nothing),
        webhook("MutatingWebhookConfiguration", "z", &nothing),
        policy(POLICY, "p", &nothing, &nothing),
        binding(
            BINDING,
            "y",
            "p",
            &json!({"validationActions": ["Deny", "Audit"]}),
        ),
        binding(BINDING, "x", "p", &nothing),
        binding(BINDING, "lost", "nobody", &nothing),
        policy("MutatingAdmissionPolicy", "m", &nothing, &nothing),
        binding("MutatingAdmissionPolicyBinding", "m", "m", &nothing),
    ]);
    let shown: Vec<String> = participants
        .iter()
        .map(|it| {
            let (phase, actions) = (it.phase.as_str(), it.actions.join("+"));
            format!(
                "{phase} {}/{} {} {actions}",
                it.configuration, it.name, it.verdict
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "mutating policy m/m called ",
            "mutating webhook z/w.example.com called ",
            "validating policy p/x called ",
            "validating policy p/y called Deny+Audit",
            "validating policy nobody/lost the policy does not exist ",
            "validating webhook a/w.example.com called ",
            "validating webhook b/w.example.com called ",
        ]
    );
}

#[test]
fn webhook_verdicts_have_a_reason() {
    let condition = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    let table = [
        (json!({}), "called"),
        (json!({"rules": rule("nodes")}), "no rule matches"),
        (
            json!({"excludeResourceRules": [{"namespaces": ["x"]}, {"namespaces": ["shop"], "scope": "*"}]}),
            "excluded by excludeResourceRules[1]: {\"namespaces\":[\"shop\"]}",
        ),
        (
            json!({"excludeResourceRules": [{"namespaceSelector": {"matchLabels": {"tier": "web"}}}]}),
            "excluded by excludeResourceRules[0]: {\"namespaceSelector\":{\"matchLabels\":{\"tier\":\"web\"}}}",
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"tier": "base"}}}),
            "namespaceSelector does not match",
        ),
        (
            json!({"objectSelector": {"matchLabels": {"app": "other"}}}),
            "objectSelector does not match",
        ),
        (condition("object.metadata.name == 'web'"), "called"),
        (condition("request.userInfo.username == 'ann'"), "called"),
        (condition("'people' in request.userInfo.groups"), "called"),
        (
            condition("request.namespace == 'x'"),
            "match condition \"c\" is false",
        ),
        (
            condition("object.spec.x == 1"),
            "rejects the request: expression 'object.spec.x == 1' resulted in error: no such key: spec",
        ),
    ];
    for (changes, want) in table {
        let got = TestRequest::default().verdict(vec![webhook(VALIDATING, "c", &changes)]);
        assert_eq!(got, want, "{changes}");
    }
    let ignored = merged(
        condition("object.spec.x == 1"),
        &json!({"failurePolicy": "Ignore"}),
    );
    assert_eq!(
        TestRequest::default().verdict(vec![webhook(VALIDATING, "c", &ignored)]),
        "skipped, since failurePolicy is Ignore: a match condition cannot be evaluated"
    );
}

#[test]
fn policy_verdicts_have_a_reason() {
    let nothing = json!({});
    let excludes = json!({"excludeResourceRules": [{"resourceNames": ["web"]}]});
    let false_condition = json!({"matchConditions": [{"name": "c", "expression": "false"}]});
    let params = json!({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let table = [
        (&nothing, &nothing, &nothing, "called"),
        (
            &excludes,
            &nothing,
            &nothing,
            "excluded by excludeResourceRules[0]: {\"resourceNames\":[\"web\"]}",
        ),
        (
            &nothing,
            &false_condition,
            &nothing,
            "match condition \"c\" is false",
        ),
        (
            &nothing,
            &nothing,
            &json!({"matchResources": excludes}),
            "excluded by excludeResourceRules[0] of the binding: {\"resourceNames\":[\"web\"]}",
        ),
        (
            &nothing,
            &nothing,
            &json!({"matchResources": {"resourceRules": rule("nodes")}}),
            "no rule of the binding matches",
        ),
        (
            &nothing,
            &nothing,
            &json!({"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "x"}}}}),
            "namespaceSelector of the binding does not match",
        ),
        (
            &nothing,
            &params,
            &json!({"paramRef": {"name": "limits", "namespace": "base"}}),
            "called, with ConfigMap limits in base",
        ),
    ];
    for (constraints, own, of_binding, want) in table {
        let got = TestRequest::default().verdict(vec![
            policy(POLICY, "p", constraints, own),
            binding(BINDING, "b", "p", of_binding),
        ]);
        assert_eq!(got, want, "{constraints} {own} {of_binding}");
    }
    let alone = TestRequest::default().verdict(vec![policy(POLICY, "p", &nothing, &nothing)]);
    assert_eq!(alone, "not bound");
}

#[test]
fn delete_has_only_the_old_object() {
    let request = TestRequest {
        operation: Operation::Delete,
        ..TestRequest::default()
    };
    let by_old = json!({
        "objectSelector": {"matchLabels": {"app": "web"}},
        "matchConditions": [{"name": "c", "expression": "object == null && oldObject.metadata.name == 'web'"}],
    });
    assert_eq!(
        request.verdict(vec![webhook(VALIDATING, "c", &by_old)]),
        "called"
    );
}

#[test]
fn dry_run_is_rejected_by_webhooks_with_side_effects() {
    for (effects, want) in [
        ("None", "called"),
        ("NoneOnDryRun", "called"),
        ("Some", "rejects dry runs: it has side effects"),
    ] {
        let request = TestRequest {
            dry_run: true,
            ..TestRequest::default()
        };
        let configuration = webhook(VALIDATING, "c", &json!({"sideEffects": effects}));
        assert_eq!(request.verdict(vec![configuration]), want, "{effects}");
    }
}

#[test]
fn configurations_and_reviews_are_exempt_like_in_the_server() {
    let everything = json!({"rules": [
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]},
    ]});
    let constraints = json!({"resourceRules": everything["rules"]});
    let admission = "admissionregistration.k8s.io";
    let table = [
        (
            names(admission, "x", "ValidatingWebhookConfiguration"),
            "exempt: never called for this resource",
            "not bound",
        ),
        (
            names(admission, "x", "ValidatingAdmissionPolicy"),
            "exempt: never called for this resource",
            "exempt: never called for this resource",
        ),
        (
            names("authentication.k8s.io", "tokenreviews", "TokenReview"),
            "called",
            "exempt: never called for this resource",
        ),
    ];
    for (names, by_webhook, by_policy) in table {
        let request = TestRequest {
            names,
            ..TestRequest::default()
        };
        let got = request.verdict(vec![webhook(VALIDATING, "c", &everything)]);
        assert_eq!(got, by_webhook, "{:?}", request.names);
        let got = request.verdict(vec![policy(POLICY, "p", &constraints, &json!({}))]);
        assert_eq!(got, by_policy, "{:?}", request.names);
    }
}

#[test]
fn equivalent_resource_is_named() {
    let request = TestRequest {
        names: names("apps", "pods", "Pod"),
        equivalents: vec![names("", "pods", "Pod")],
        ..TestRequest::default()
    };
    let equivalent = webhook(VALIDATING, "c", &json!({}));
    assert!(request.verdict(vec![equivalent]).starts_with("called, as "));
    let exact = webhook(VALIDATING, "c", &json!({"matchPolicy": "Exact"}));
    assert_eq!(request.verdict(vec![exact]), "no rule matches");
}

#[test]
fn conditions_evaluated_on_another_version_are_noted() {
    let other = || TestRequest {
        names: names("apps", "pods", "Pod"),
        equivalents: vec![names("", "pods", "Pod")],
        ..TestRequest::default()
    };
    let condition = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    let want =
        Some("its conditions are evaluated on the object in apps/v1, though it would see it in v1");
    let nothing = json!({});
    let table = [
        (other(), nothing.clone(), None),
        (other(), condition("true"), want),
        (other(), condition("false"), want),
        (TestRequest::default(), condition("true"), None),
    ];
    for (request, own, want) in table {
        let warnings = request.explain(vec![
            webhook(VALIDATING, "c", &own),
            policy(POLICY, "p", &nothing, &own),
            binding(BINDING, "b", "p", &nothing),
        ]);
        assert_eq!(warnings.len(), 2);
        for participant in warnings {
            let phase = participant.phase.as_str();
            assert_eq!(participant.note.as_deref(), want, "{phase} {own}");
        }
    }
}

#[test]
fn namespace_selector_uses_new_labels_only_for_the_namespace_object() {
    // The stored namespace has the label `tier: web`.
    let by_tier = |tier: &str| json!({"rules": rule("*/*"), "namespaceSelector": {"matchLabels": {"tier": tier}}});
    for (operation, subresource, tier) in [
        (Operation::Create, "", "new"),
        (Operation::Update, "", "new"),
        (Operation::Update, "status", "web"),
        (Operation::Update, "finalize", "web"),
        (Operation::Delete, "", "web"),
    ] {
        let request = TestRequest {
            names: names("", "namespaces", "Namespace"),
            operation,
            subresource,
            object: json!({"metadata": {"name": "shop", "labels": {"tier": "new"}}}),
            ..TestRequest::default()
        };
        let got = request.verdict(vec![webhook(VALIDATING, "c", &by_tier(tier))]);
        assert_eq!(got, "called", "{operation:?} {subresource}");
    }
}

#[test]
fn only_policy_conditions_see_the_namespace_object() {
    let condition = |text: &str| json!({"matchConditions": [{"name": "c", "expression": text}]});
    let nothing = json!({});
    let of_policy = |request: &TestRequest, text: &str| {
        let constraints = json!({"resourceRules": rule("*")});
        request.verdict(vec![
            policy(POLICY, "p", &constraints, &condition(text)),
            binding(BINDING, "b", "p", &nothing),
        ])
    };
    let shown = "namespaceObject.metadata.name == 'shop'";
    assert_eq!(of_policy(&TestRequest::default(), shown), "called");
    let namespace = TestRequest {
        names: names("", "namespaces", "Namespace"),
        ..TestRequest::default()
    };
    assert_eq!(of_policy(&namespace, "namespaceObject == null"), "called");
    let hook = webhook(VALIDATING, "c", &condition("namespaceObject == null"));
    assert_eq!(TestRequest::default().verdict(vec![hook]), "called");
}

#[test]
fn conditions_of_webhooks_see_the_requested_resource() {
    let request = TestRequest {
        names: names("events.k8s.io", "events", "Event"),
        equivalents: vec![names("", "events", "Event")],
        ..TestRequest::default()
    };
    let condition = "request.resource.group == 'events.k8s.io' && request.kind.group == ''";
    let changes = json!({
        "rules": rule("events"),
        "matchConditions": [{"name": "c", "expression": condition}],
    });
    assert_eq!(
        request.verdict(vec![webhook(VALIDATING, "c", &changes)]),
        "called, as /v1, Resource=events"
    );
    let constraints = json!({"resourceRules": rule("events")});
    let condition = json!({"matchConditions": [
        {"name": "c", "expression": "request.resource.group == '' && request.kind.group == ''"},
    ]});
    let verdict = request.verdict(vec![
        policy(POLICY, "p", &constraints, &condition),
        binding(BINDING, "b", "p", &json!({})),
    ]);
    assert_eq!(verdict, "called, as /v1, Resource=events");
}
