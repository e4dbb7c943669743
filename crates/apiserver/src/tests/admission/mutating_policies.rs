//! Mutating admission policies, tested on a whole server.

use serde_json::{Value, json};

use super::policies::{GROUP, create, merge, rules, server};
use super::{CORE, pod};
use crate::testing::TestServer;

/// Creates a mutating policy on pods, and a binding of the same name.
async fn create_mutating_policy(server: &TestServer, name: &str, spec: Value, binding: Value) {
    let mut policy = json!({
        "matchConstraints": {"resourceRules": rules("pods", &["CREATE", "UPDATE"])},
        "reinvocationPolicy": "Never",
    });
    merge(&mut policy, spec);
    let meta = json!({"name": name});
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": meta, "spec": policy,
    });
    create(server, "mutatingadmissionpolicies", object).await;
    let mut bound = json!({"policyName": name});
    merge(&mut bound, binding);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": meta, "spec": bound,
    });
    create(server, "mutatingadmissionpolicybindings", object).await;
}

#[tokio::test]
async fn mutations_are_applied_in_order_then_defaulted_and_validated() {
    let (server, _directory) = server().await;
    let spec = json!({
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'i'}]}}"},
            },
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x/y'), value: string(size(object.spec.containers))}]"},
            },
        ],
    });
    create_mutating_policy(&server, "p", spec, json!({})).await;
    let (code, response) = server.create(&format!("{CORE}/pods"), pod("x")).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(
        response["metadata"]["labels"],
        json!({"a": "b", "x/y": "2"})
    );
    let containers = &response["spec"]["containers"];
    assert_eq!(containers[1]["name"], "side");
    // Defaults are applied after mutation, as for what a client sends.
    assert_eq!(containers[1]["imagePullPolicy"], "Always");
}

#[tokio::test]
async fn a_json_patch_with_a_failed_test_changes_nothing() {
    let (server, _directory) = server().await;
    let spec = json!({
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/metadata/name', value: 'other'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"},
        }],
    });
    create_mutating_policy(&server, "p", spec, json!({})).await;
    let pods = format!("{CORE}/pods");
    let (code, response) = server.create(&pods, pod("x")).await;
    assert_eq!(
        (code, &response["metadata"]["labels"]),
        (201, &Value::Null),
        "{response}"
    );
    let (code, response) = server.create(&pods, pod("other")).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(response["metadata"]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn a_failed_mutation_is_rejected_with_policy_and_reason() {
    let (server, _directory) = server().await;
    let spec = json!({
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{nodeSelector: Object.spec.nodeSelector{a: 'b'}}}"},
        }],
    });
    create_mutating_policy(&server, "p", spec, json!({})).await;
    let (code, response) = server.create(&format!("{CORE}/pods"), pod("x")).await;
    assert_eq!(
        (code, &response["reason"]),
        (403, &json!("Invalid")),
        "{response}"
    );
    assert_eq!(
        response["message"],
        "policy 'p' with binding 'p' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector"
    );
}

/// As upstream: an object that can be decoded but is invalid fails its validation; one that a JSON patch makes undecodable
/// is an internal error, whatever the failure policy; an apply configuration that does not fit is an error of the policy.
#[tokio::test]
async fn mutations_that_make_an_object_invalid_are_rejected_as_upstream() {
    let (server, _directory) = server().await;
    let json_patch = |value: &str| {
        let operation = format!("[JSONPatch{{op: 'add', {value}}}]");
        json!({"patchType": "JSONPatch", "jsonPatch": {"expression": operation}})
    };
    let apply = |spec: &str| {
        let object = format!("Object{{spec: Object.spec{{{spec}}}}}");
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": object}})
    };
    for (mutation, failure_policy, code, reason, expect) in [
        (
            json_patch("path: '/spec/restartPolicy', value: 'Sometimes'"),
            "Ignore",
            422,
            "Invalid",
            "Pod \"x\" is invalid: spec.restartPolicy: Unsupported value: \"Sometimes\"",
        ),
        (
            apply("restartPolicy: 'Sometimes'"),
            "Ignore",
            422,
            "Invalid",
            "Pod \"x\" is invalid: spec.restartPolicy: Unsupported value: \"Sometimes\"",
        ),
        (
            json_patch("path: '/spec/restart', value: 'Never'"),
            "Ignore",
            500,
            "InternalError",
            "Internal error occurred: strict decoding error: unknown field \"spec.restart\"",
        ),
        (
            json_patch("path: '/spec/restartPolicy', value: 7"),
            "Ignore",
            500,
            "InternalError",
            "Internal error occurred: json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type",
        ),
        (
            apply("restart: 'Never'"),
            "Fail",
            403,
            "Invalid",
            "policy 'p' with binding 'p' denied request: error applying patch: ",
        ),
        (apply("restart: 'Never'"), "Ignore", 201, "", ""),
    ] {
        let spec = json!({"mutations": [mutation], "failurePolicy": failure_policy});
        create_mutating_policy(&server, "p", spec, json!({})).await;
        let path = format!("{CORE}/pods?dryRun=All");
        let (got, response) = server.create(&path, pod("x")).await;
        assert_eq!(got, code, "{mutation}: {response}");
        let text = |field: &str| response[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("reason"), reason, "{mutation}");
        assert!(text("message").starts_with(expect), "{response}");
        for plural in [
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ] {
            let (code, response) = server.delete(&format!("{GROUP}/{plural}/p")).await;
            assert_eq!(code, 200, "{response}");
        }
    }
}

#[tokio::test]
async fn policies_are_reinvoked_after_a_later_change() {
    let (server, _directory) = server().await;
    let count = |reinvocation: &str| {
        json!({
            "reinvocationPolicy": reinvocation,
            "mutations": [{
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'seen': string(size(object.spec.containers))}}]"},
            }],
        })
    };
    create_mutating_policy(&server, "a-first", count("IfNeeded"), json!({})).await;
    let second_policy = json!({
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'i'}]}}"},
        }],
    });
    create_mutating_policy(&server, "b-second", second_policy, json!({})).await;
    let (code, response) = server.create(&format!("{CORE}/pods"), pod("x")).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(
        response["metadata"]["annotations"]["seen"], "2",
        "{response}"
    );
}

#[tokio::test]
async fn policies_cannot_set_system_metadata_or_kind() {
    let (server, _directory) = server().await;
    let patch = |operations: &str| json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": operations}}]});
    let system = "[JSONPatch{op: 'add', path: '/metadata/uid', value: 'zzz'}, JSONPatch{op: 'add', path: '/metadata/creationTimestamp', value: '2001-01-01T00:00:00Z'}]";
    create_mutating_policy(&server, "p", patch(system), json!({})).await;
    let pods = format!("{CORE}/pods");
    let (code, response) = server.create(&pods, pod("x")).await;
    assert_eq!(code, 201, "{response}");
    assert_ne!(response["metadata"]["uid"], "zzz");
    assert_ne!(
        response["metadata"]["creationTimestamp"],
        "2001-01-01T00:00:00Z"
    );
    let binding = format!("{GROUP}/mutatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&binding).await.0, 200);
    let kind = "[JSONPatch{op: 'replace', path: '/kind', value: 'Secret'}]";
    create_mutating_policy(&server, "q", patch(kind), json!({})).await;
    let (code, response) = server.create(&pods, pod("y")).await;
    assert_eq!(code, 500, "{response}");
    let text = response["message"].as_str().unwrap_or_default();
    assert!(
        text.ends_with(
            "mutating admission must not change kind of the object from Pod to \"Secret\""
        ),
        "{text}"
    );
}
