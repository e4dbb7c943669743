//! KEP-3693 with its gate off: exclusion rules with namespaces in policies and bindings, which upstream does not have.

use http::Method;
use serde_json::{Value, json};

use crate::exclusion_rules::{OFF, send, warning_headers};
use crate::requests::{JSON, MERGE};
use crate::support::TestServer;

/// Path, field with the rules, and an object of each kind that has them.
fn kinds() -> [(&'static str, &'static str, Value); 4] {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
    });
    let constraints = json!({"resourceRules": [rule]});
    let mutation = json!({
        "patchType": "JSONPatch",
        "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/kind', value: 'x'}]"},
    });
    let object = |spec: Value| json!({"metadata": {"name": "test"}, "spec": spec});
    [
        (
            "validatingadmissionpolicies",
            "matchConstraints",
            object(json!({
                "matchConstraints": constraints, "validations": [{"expression": "true"}],
            })),
        ),
        (
            "mutatingadmissionpolicies",
            "matchConstraints",
            object(json!({
                "matchConstraints": constraints, "mutations": [mutation], "reinvocationPolicy": "Never",
            })),
        ),
        (
            "validatingadmissionpolicybindings",
            "matchResources",
            object(json!({
                "policyName": "test", "validationActions": ["Deny"], "matchResources": constraints,
            })),
        ),
        (
            "mutatingadmissionpolicybindings",
            "matchResources",
            object(json!({"policyName": "test", "matchResources": constraints})),
        ),
    ]
}

/// A rule with the fields that every rule needs while the gate is off, and more.
fn rule(more: Value) -> Value {
    let mut rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"], "scope": "*",
    });
    for (field, value) in more.as_object().expect("an object") {
        rule[field] = value.clone();
    }
    rule
}

#[tokio::test]
async fn with_the_gate_off_clients_are_told_that_rules_of_policies_are_dropped() {
    let server = TestServer::start_with(&[OFF]);
    let client = server.client().await;
    let named = rule(json!({"Namespaces": ["ci"], "objectNames": ["a"]}));
    let selected = rule(json!({"namespaceSelector": {}}));
    let plain = rule(json!({"objectNames": ["a"]}));
    let stored = rule(json!({"resourceNames": ["a"]}));
    for (plural, field, object) in kinds() {
        let list = format!("spec.{field}.excludeResourceRules");
        let dropped = |rule: usize, field: &str, dropped: &str| {
            format!(
                "unknown field \"{list}[{rule}].{field}\": the feature gate AdmissionWebhookExclusionRules is disabled; \
                 {dropped} is dropped, because without the field it would mean something else"
            )
        };
        let spelling = format!("spec.{field}.exclusionRules: stored as excludeResourceRules");
        let inner = format!("{list}[1].objectNames: stored as resourceNames");
        let rules_of = |object: &mut Value| object["spec"][field]["excludeResourceRules"].take();

        // One rule of three is stored, so what is said about its spelling is true.
        let mut some = object.clone();
        some["spec"][field]["exclusionRules"] = json!([named, plain, selected]);
        let some_dropped = [
            dropped(0, "namespaces", &format!("{list}[0]")),
            dropped(2, "namespaceSelector", &format!("{list}[2]")),
        ];
        // Nothing is stored.
        let mut all = object.clone();
        all["spec"][field]["exclusionRules"] = json!([named]);
        let all_dropped = [dropped(0, "namespaces", &list)];
        let spellings = [spelling, inner];
        for (body, spellings, dropped, stored) in [
            (some, &spellings[..], &some_dropped[..], json!([stored])),
            (all, &[], &all_dropped, Value::Null),
        ] {
            let path =
                |validation: &str| format!("{plural}?dryRun=All&fieldValidation={validation}");
            let post = async |validation: &str| {
                let path = path(validation);
                send(&client, Method::POST, &path, JSON, body.to_string()).await
            };
            let made = post("Warn").await;
            let warnings: Vec<&str> = [spellings, dropped]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            assert_eq!(made.warnings, warning_headers(&warnings), "{plural}");
            assert_eq!(rules_of(&mut made.object()), stored, "{plural}");
            assert_eq!(rules_of(&mut post("Ignore").await.object()), stored);
            let refused = post("Strict").await;
            let message = refused.body["message"].as_str().unwrap_or_default();
            assert_eq!(refused.code, 400, "{plural}: {message}");
            assert_eq!(message, format!("strict decoding error: {}", dropped[0]));
        }

        // Patches too.
        send(&client, Method::POST, plural, JSON, object.to_string())
            .await
            .object();
        let patch = json!({"spec": {field: {"excludeRules": [named]}}}).to_string();
        for (validation, code, warnings) in [
            ("Strict", 400, vec![]),
            ("Warn", 200, warning_headers(&[&all_dropped[0]])),
        ] {
            let path = format!("{plural}/test?fieldValidation={validation}");
            let patched = send(&client, Method::PATCH, &path, MERGE, patch.clone()).await;
            assert_eq!(
                (patched.code, patched.warnings),
                (code, warnings),
                "{plural}"
            );
        }
    }
}
