//! Validating admission policies, tested on a whole server, and helpers for mutating ones.

use serde_json::{Value, json};

use super::{CORE, config_map};
use crate::testing::{TestServer, TestServerOptions};

pub(super) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

pub(super) async fn server() -> (TestServer, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = TestServer::open(directory.path(), TestServerOptions::default()).await;
    (server, directory)
}

pub(super) fn rules(resource: &str, operations: &[&str]) -> Value {
    json!([{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": [resource],
    }])
}

pub(super) async fn create(server: &TestServer, plural: &str, object: Value) {
    let (code, response) = server.create(&format!("{GROUP}/{plural}"), object).await;
    assert_eq!(code, 201, "{response}");
}

/// Creates a validating policy on config maps, and a binding of the same name.
pub(super) async fn create_validating_policy(
    server: &TestServer,
    name: &str,
    spec: Value,
    binding: Value,
) {
    let mut policy = json!({
        "matchConstraints": {"resourceRules": rules("configmaps", &["CREATE", "UPDATE", "DELETE"])},
    });
    merge(&mut policy, spec);
    let meta = json!({"name": name});
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": meta, "spec": policy,
    });
    create(server, "validatingadmissionpolicies", object).await;
    let mut bound = json!({"policyName": name, "validationActions": ["Deny"]});
    merge(&mut bound, binding);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta, "spec": bound,
    });
    create(server, "validatingadmissionpolicybindings", object).await;
}

pub(super) fn merge(target: &mut Value, patch: Value) {
    json_patch::merge(target, &patch);
}

fn map(name: &str, data: Value) -> Value {
    let mut map = config_map(name);
    map["data"] = data;
    map
}

fn maps() -> String {
    format!("{CORE}/configmaps")
}

#[tokio::test]
async fn a_denial_contains_the_policys_message() {
    let (server, _directory) = server().await;
    let spec = json!({
        "variables": [{"name": "size", "expression": "size(object.data)"}],
        "validations": [
            {
                "expression": "request.operation == 'DELETE' || variables.size < 3",
                "messageExpression": "'too many: ' + string(variables.size)",
            },
            {
                "expression": "request.operation == 'DELETE' || !('secret' in object.data)",
                "message": "no secrets", "reason": "Forbidden",
            },
            {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'"},
        ],
    });
    create_validating_policy(&server, "p", spec, json!({})).await;
    let table = [
        (map("a", json!({"a": "1"})), 201, String::new(), ""),
        (
            map("b", json!({"a": "1", "b": "2", "c": "3"})),
            422,
            "configmaps \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: too many: 3".into(),
            "Invalid",
        ),
        (
            map("c", json!({"secret": "1"})),
            403,
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no secrets".into(),
            "Forbidden",
        ),
        (map("kept", json!({})), 422, String::new(), "Invalid"),
        (map("kept", json!({"a": "1"})), 201, String::new(), ""),
    ];
    for (object, code, message, reason) in table {
        let (got, response) = server.create(&maps(), object.clone()).await;
        assert_eq!(got, code, "{object}: {response}");
        if !message.is_empty() {
            assert_eq!(response["message"], message);
        }
        if !reason.is_empty() {
            assert_eq!(response["reason"], reason, "{response}");
            assert_eq!(
                response["details"]["causes"].as_array().map(Vec::len),
                Some(1)
            );
        }
    }
    let (code, response) = server.delete(&format!("{}/kept", maps())).await;
    assert_eq!(code, 422, "{response}");
    let text = response["message"].as_str().unwrap_or_default();
    let end = "denied request: failed expression: request.operation != 'DELETE' || oldObject.metadata.name != 'kept'";
    assert!(text.ends_with(end), "{text}");
    let (code, _) = server.delete(&format!("{}/a", maps())).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn a_policy_is_enforced_only_while_bound() {
    let (server, _directory) = server().await;
    let never = json!({"validations": [{"expression": "false"}]});
    create_validating_policy(&server, "p", never, json!({})).await;
    let path = maps();
    let create = || server.create(&path, config_map("x"));
    assert_eq!(create().await.0, 422);
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&binding).await.0, 200);
    assert_eq!(create().await.0, 201);
}

#[tokio::test]
async fn evaluation_errors_follow_the_failure_policy() {
    let (server, _directory) = server().await;
    let broken = |failure: &str| {
        json!({
            "failurePolicy": failure,
            "validations": [{"expression": "object.data.absent == 'x'"}],
        })
    };
    create_validating_policy(&server, "ignored", broken("Ignore"), json!({})).await;
    let (code, response) = server.create(&maps(), map("a", json!({"b": "c"}))).await;
    assert_eq!(code, 201, "{response}");
    create_validating_policy(&server, "failed", broken("Fail"), json!({})).await;
    let (code, response) = server.create(&maps(), map("b", json!({"b": "c"}))).await;
    assert_eq!(code, 422, "{response}");
    let text = response["message"].as_str().unwrap_or_default();
    let end = "ValidatingAdmissionPolicy 'failed' with binding 'failed' denied request: expression 'object.data.absent == 'x'' resulted in error: no such key: absent";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn match_conditions_skip_a_policy() {
    let (server, _directory) = server().await;
    let spec = json!({
        "matchConditions": [
            {"name": "not-free", "expression": "!object.metadata.name.startsWith('free')"},
            {"name": "not-root", "expression": "!('root' in request.userInfo.groups)"},
        ],
        "validations": [{"expression": "false"}],
    });
    create_validating_policy(&server, "p", spec, json!({})).await;
    assert_eq!(server.create(&maps(), config_map("free-1")).await.0, 201);
    assert_eq!(server.create(&maps(), config_map("other")).await.0, 422);
}

#[tokio::test]
async fn params_are_found_by_name_and_by_selector() {
    let (server, _directory) = server().await;
    for (name, limit) in [("low", "1"), ("high", "3")] {
        let mut params = map(name, json!({"limit": limit}));
        params["metadata"]["labels"] = json!({"kind": "limit"});
        assert_eq!(server.create(&maps(), params).await.0, 201);
    }
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": rules("secrets", &["CREATE"])},
        "validations": [{"expression": "size(object.data) <= int(params.data.limit)"}],
    });
    let secrets = format!("{CORE}/secrets");
    let secret = |name: &str, count: usize| {
        let data: serde_json::Map<String, Value> = (0..count)
            .map(|n| (format!("k{n}"), json!("YQ==")))
            .collect();
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})
    };
    let by_name = json!({"paramRef": {
        "name": "high", "namespace": "default", "parameterNotFoundAction": "Deny",
    }});
    create_validating_policy(&server, "by-name", spec.clone(), by_name).await;
    assert_eq!(server.create(&secrets, secret("a", 3)).await.0, 201);
    assert_eq!(server.create(&secrets, secret("b", 4)).await.0, 422);
    let by_selector = json!({"paramRef": {
        "selector": {"matchLabels": {"kind": "limit"}}, "parameterNotFoundAction": "Deny",
    }});
    create_validating_policy(&server, "by-selector", spec.clone(), by_selector).await;
    assert_eq!(server.create(&secrets, secret("c", 1)).await.0, 201);
    assert_eq!(server.create(&secrets, secret("d", 2)).await.0, 422);
    let absent =
        |action: &str| json!({"paramRef": {"name": "absent", "parameterNotFoundAction": action}});
    create_validating_policy(&server, "allowed", spec.clone(), absent("Allow")).await;
    assert_eq!(server.create(&secrets, secret("e", 1)).await.0, 201);
    create_validating_policy(&server, "denied", spec, absent("Deny")).await;
    let (code, response) = server.create(&secrets, secret("f", 1)).await;
    assert_eq!(code, 422, "{response}");
    let text = response["message"].as_str().unwrap_or_default();
    let end = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn an_unknown_param_kind_is_a_policy_error() {
    let (server, _directory) = server().await;
    let spec = json!({
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "true"}],
    });
    let binding = json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}});
    create_validating_policy(&server, "p", spec, binding).await;
    let (code, response) = server.create(&maps(), config_map("x")).await;
    assert_eq!(code, 422, "{response}");
    let text = response["message"].as_str().unwrap_or_default();
    let end = "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Limit'";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn exclusion_rules_of_policies_and_bindings_take_precedence() {
    let (server, _directory) = server().await;
    let never = |exclusions: Value| {
        json!({
            "matchConstraints": {"excludeResourceRules": exclusions},
            "validations": [{"expression": "false"}],
        })
    };
    let by_name = json!([{"resources": ["configmaps"], "resourceNames": ["free"]}]);
    create_validating_policy(&server, "p", never(by_name), json!({})).await;
    assert_eq!(server.create(&maps(), config_map("free")).await.0, 201);
    assert_eq!(server.create(&maps(), config_map("other")).await.0, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&path).await.0, 200);
    let by_namespace = json!({"matchResources": {
        "excludeResourceRules": [{"resources": ["configmaps"], "namespaces": ["default"]}],
    }});
    create_validating_policy(&server, "q", never(json!([])), by_namespace).await;
    assert_eq!(server.create(&maps(), config_map("inside")).await.0, 201);
    let excluded_path = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(
        server.create(excluded_path, config_map("outside")).await.0,
        422
    );
}

#[tokio::test]
async fn policies_apply_to_webhook_configurations_but_not_to_policies() {
    let (server, _directory) = server().await;
    let spec = json!({
        "matchConstraints": {"resourceRules": rules("*", &["*"])},
        "validations": [{"expression": "false"}],
    });
    create_validating_policy(&server, "p", spec, json!({})).await;
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
    });
    let path = format!("{GROUP}/validatingwebhookconfigurations");
    assert_eq!(server.create(&path, webhooks).await.0, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&path).await.0, 200);
}

#[tokio::test]
async fn expressions_can_use_the_authorizer_and_the_namespace() {
    let (server, _directory) = server().await;
    let spec = json!({
        "validations": [
            {"expression": "authorizer.group('').resource('pods').namespace('default').check('create').allowed()"},
            {"expression": "namespaceObject.metadata.name == 'default'"},
            {"expression": "authorizer.requestResource.check('create').allowed()"},
            {"expression": "!authorizer.serviceAccount('default', 'default').group('').resource('pods').check('create').allowed()"},
        ],
    });
    create_validating_policy(&server, "p", spec, json!({})).await;
    let (code, response) = server.create(&maps(), config_map("x")).await;
    assert_eq!(code, 201, "{response}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expensive_expressions_do_not_block_other_requests() {
    let (server, _directory) = server().await;
    let digits: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let list = format!("[{}]", digits.join(","));
    let mut nested = "true".to_owned();
    for depth in 0..9 {
        nested = format!("{list}.all(x{depth}, {nested})");
    }
    let spec = json!({"validations": [{"expression": nested}]});
    create_validating_policy(&server, "p", spec, json!({})).await;
    let (code, response) = server.create(&maps(), config_map("x")).await;
    assert_eq!(code, 422, "{response}");
    let text = response["message"].as_str().unwrap_or_default();
    assert!(text.contains("cost limit exceeded"), "{text}");
    // Now that the policy is known to be slow, other requests are served while it is evaluated.
    let slow: Vec<_> = (0..4)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move { server.create(&maps(), config_map("x")).await })
        })
        .collect();
    let mut served = 0;
    while !slow.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(server.get(&maps()).await.0, 200);
        served += 1;
    }
    assert!(served > 20, "only {served} were served");
}
