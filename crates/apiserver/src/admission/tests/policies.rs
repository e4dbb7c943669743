//! Policies in expressions, on a whole server.

use http::Method;
use serde_json::{Value, json};

use super::{CORE, config_map, pod};
use crate::testing::{Server, Setup};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

async fn server() -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::open(directory.path(), Setup::default()).await;
    (server, directory)
}

fn rules(resource: &str, operations: &[&str]) -> Value {
    json!([{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": operations, "resources": [resource],
    }])
}

async fn put(server: &Server, plural: &str, object: Value) {
    let (code, answer) = server.create(&format!("{GROUP}/{plural}"), object).await;
    assert_eq!(code, 201, "{answer}");
}

/// A validating policy on config maps, and a binding of the same name.
async fn validating(server: &Server, name: &str, spec: Value, binding: Value) {
    let mut policy = json!({
        "matchConstraints": {"resourceRules": rules("configmaps", &["CREATE", "UPDATE", "DELETE"])},
    });
    merge(&mut policy, spec);
    let meta = json!({"name": name});
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": meta, "spec": policy,
    });
    put(server, "validatingadmissionpolicies", object).await;
    let mut bound = json!({"policyName": name, "validationActions": ["Deny"]});
    merge(&mut bound, binding);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": meta, "spec": bound,
    });
    put(server, "validatingadmissionpolicybindings", object).await;
}

/// The same for a mutating one, on pods.
async fn mutating(server: &Server, name: &str, spec: Value, binding: Value) {
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
    put(server, "mutatingadmissionpolicies", object).await;
    let mut bound = json!({"policyName": name});
    merge(&mut bound, binding);
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": meta, "spec": bound,
    });
    put(server, "mutatingadmissionpolicybindings", object).await;
}

fn merge(into: &mut Value, more: Value) {
    json_patch::merge(into, &more);
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
async fn what_a_policy_denies_is_refused_with_its_words() {
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
    validating(&server, "p", spec, json!({})).await;
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
        let (got, answer) = server.create(&maps(), object.clone()).await;
        assert_eq!(got, code, "{object}: {answer}");
        if !message.is_empty() {
            assert_eq!(answer["message"], message);
        }
        if !reason.is_empty() {
            assert_eq!(answer["reason"], reason, "{answer}");
            assert_eq!(
                answer["details"]["causes"].as_array().map(Vec::len),
                Some(1)
            );
        }
    }
    let (code, answer) = server.delete(&format!("{}/kept", maps())).await;
    assert_eq!(code, 422, "{answer}");
    let text = answer["message"].as_str().unwrap_or_default();
    let end = "denied request: failed expression: request.operation != 'DELETE' || oldObject.metadata.name != 'kept'";
    assert!(text.ends_with(end), "{text}");
    let (code, _) = server.delete(&format!("{}/a", maps())).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn a_policy_is_in_force_as_long_as_its_binding() {
    let (server, _directory) = server().await;
    let never = json!({"validations": [{"expression": "false"}]});
    validating(&server, "p", never, json!({})).await;
    let path = maps();
    let create = || server.create(&path, config_map("x"));
    assert_eq!(create().await.0, 422);
    let binding = format!("{GROUP}/validatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&binding).await.0, 200);
    assert_eq!(create().await.0, 201);
}

#[tokio::test]
async fn a_policy_that_cannot_be_evaluated_is_told_by_its_failure_policy() {
    let (server, _directory) = server().await;
    let broken = |failure: &str| {
        json!({
            "failurePolicy": failure,
            "validations": [{"expression": "object.data.absent == 'x'"}],
        })
    };
    validating(&server, "ignored", broken("Ignore"), json!({})).await;
    let (code, answer) = server.create(&maps(), map("a", json!({"b": "c"}))).await;
    assert_eq!(code, 201, "{answer}");
    validating(&server, "failed", broken("Fail"), json!({})).await;
    let (code, answer) = server.create(&maps(), map("b", json!({"b": "c"}))).await;
    assert_eq!(code, 422, "{answer}");
    let text = answer["message"].as_str().unwrap_or_default();
    let end = "ValidatingAdmissionPolicy 'failed' with binding 'failed' denied request: expression 'object.data.absent == 'x'' resulted in error: no such key: absent";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn conditions_keep_a_policy_away() {
    let (server, _directory) = server().await;
    let spec = json!({
        "matchConditions": [
            {"name": "not-free", "expression": "!object.metadata.name.startsWith('free')"},
            {"name": "not-root", "expression": "!('root' in request.userInfo.groups)"},
        ],
        "validations": [{"expression": "false"}],
    });
    validating(&server, "p", spec, json!({})).await;
    assert_eq!(server.create(&maps(), config_map("free-1")).await.0, 201);
    assert_eq!(server.create(&maps(), config_map("other")).await.0, 422);
}

#[tokio::test]
async fn parameters_are_found_by_name_and_by_selector() {
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
    validating(&server, "by-name", spec.clone(), by_name).await;
    assert_eq!(server.create(&secrets, secret("a", 3)).await.0, 201);
    assert_eq!(server.create(&secrets, secret("b", 4)).await.0, 422);
    let by_selector = json!({"paramRef": {
        "selector": {"matchLabels": {"kind": "limit"}}, "parameterNotFoundAction": "Deny",
    }});
    validating(&server, "by-selector", spec.clone(), by_selector).await;
    assert_eq!(server.create(&secrets, secret("c", 1)).await.0, 201);
    assert_eq!(server.create(&secrets, secret("d", 2)).await.0, 422);
    let absent =
        |action: &str| json!({"paramRef": {"name": "absent", "parameterNotFoundAction": action}});
    validating(&server, "allowed", spec.clone(), absent("Allow")).await;
    assert_eq!(server.create(&secrets, secret("e", 1)).await.0, 201);
    validating(&server, "denied", spec, absent("Deny")).await;
    let (code, answer) = server.create(&secrets, secret("f", 1)).await;
    assert_eq!(code, 422, "{answer}");
    let text = answer["message"].as_str().unwrap_or_default();
    let end = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn a_kind_of_parameters_that_nobody_knows_is_an_error_of_the_policy() {
    let (server, _directory) = server().await;
    let spec = json!({
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "true"}],
    });
    let binding = json!({"paramRef": {"name": "x", "parameterNotFoundAction": "Allow"}});
    validating(&server, "p", spec, binding).await;
    let (code, answer) = server.create(&maps(), config_map("x")).await;
    assert_eq!(code, 422, "{answer}");
    let text = answer["message"].as_str().unwrap_or_default();
    let end = "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Limit'";
    assert!(text.ends_with(end), "{text}");
}

#[tokio::test]
async fn exclusions_of_policies_and_of_bindings_win() {
    let (server, _directory) = server().await;
    let never = |exclusions: Value| {
        json!({
            "matchConstraints": {"excludeResourceRules": exclusions},
            "validations": [{"expression": "false"}],
        })
    };
    let by_name = json!([{"resources": ["configmaps"], "resourceNames": ["free"]}]);
    validating(&server, "p", never(by_name), json!({})).await;
    assert_eq!(server.create(&maps(), config_map("free")).await.0, 201);
    assert_eq!(server.create(&maps(), config_map("other")).await.0, 422);
    let path = format!("{GROUP}/validatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&path).await.0, 200);
    let by_namespace = json!({"matchResources": {
        "excludeResourceRules": [{"resources": ["configmaps"], "namespaces": ["default"]}],
    }});
    validating(&server, "q", never(json!([])), by_namespace).await;
    assert_eq!(server.create(&maps(), config_map("inside")).await.0, 201);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(server.create(elsewhere, config_map("outside")).await.0, 422);
}

#[tokio::test]
async fn policies_may_judge_webhooks_but_not_policies() {
    let (server, _directory) = server().await;
    let spec = json!({
        "matchConstraints": {"resourceRules": rules("*", &["*"])},
        "validations": [{"expression": "false"}],
    });
    validating(&server, "p", spec, json!({})).await;
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
async fn expressions_may_ask_what_the_user_may_do_and_where_it_is() {
    let (server, _directory) = server().await;
    let spec = json!({
        "validations": [
            {"expression": "authorizer.group('').resource('pods').namespace('default').check('create').allowed()"},
            {"expression": "namespaceObject.metadata.name == 'default'"},
            {"expression": "authorizer.requestResource.check('create').allowed()"},
            {"expression": "!authorizer.serviceAccount('default', 'default').group('').resource('pods').check('create').allowed()"},
        ],
    });
    validating(&server, "p", spec, json!({})).await;
    let (code, answer) = server.create(&maps(), config_map("x")).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn mutations_are_made_in_order_then_defaulted_and_validated() {
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
    mutating(&server, "p", spec, json!({})).await;
    let (code, answer) = server.create(&format!("{CORE}/pods"), pod("x")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["metadata"]["labels"], json!({"a": "b", "x/y": "2"}));
    let containers = &answer["spec"]["containers"];
    assert_eq!(containers[1]["name"], "side");
    // Defaults come after it, as they do for what a client sends.
    assert_eq!(containers[1]["imagePullPolicy"], "Always");
}

#[tokio::test]
async fn a_patch_that_tests_in_vain_changes_nothing() {
    let (server, _directory) = server().await;
    let spec = json!({
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/metadata/name', value: 'other'}, JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"},
        }],
    });
    mutating(&server, "p", spec, json!({})).await;
    let pods = format!("{CORE}/pods");
    let (code, answer) = server.create(&pods, pod("x")).await;
    assert_eq!(
        (code, &answer["metadata"]["labels"]),
        (201, &Value::Null),
        "{answer}"
    );
    let (code, answer) = server.create(&pods, pod("other")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["metadata"]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn a_mutation_that_fails_is_refused_with_the_policy_and_the_reason() {
    let (server, _directory) = server().await;
    let spec = json!({
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{nodeSelector: Object.spec.nodeSelector{a: 'b'}}}"},
        }],
    });
    mutating(&server, "p", spec, json!({})).await;
    let (code, answer) = server.create(&format!("{CORE}/pods"), pod("x")).await;
    assert_eq!(
        (code, &answer["reason"]),
        (403, &json!("Invalid")),
        "{answer}"
    );
    assert_eq!(
        answer["message"],
        "policy 'p' with binding 'p' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.nodeSelector"
    );
}

#[tokio::test]
async fn who_was_asked_before_a_change_may_be_asked_again() {
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
    mutating(&server, "a-first", count("IfNeeded"), json!({})).await;
    let more = json!({
        "mutations": [{
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'i'}]}}"},
        }],
    });
    mutating(&server, "b-second", more, json!({})).await;
    let (code, answer) = server.create(&format!("{CORE}/pods"), pod("x")).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["metadata"]["annotations"]["seen"], "2", "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_expression_holds_the_server() {
    let (server, _directory) = server().await;
    let digits: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let list = format!("[{}]", digits.join(","));
    let mut nested = "true".to_owned();
    for depth in 0..9 {
        nested = format!("{list}.all(x{depth}, {nested})");
    }
    let spec = json!({"validations": [{"expression": nested}]});
    validating(&server, "p", spec, json!({})).await;
    let (code, answer) = server.create(&maps(), config_map("x")).await;
    assert_eq!(code, 422, "{answer}");
    let text = answer["message"].as_str().unwrap_or_default();
    assert!(text.contains("cost limit exceeded"), "{text}");
    // Now that it is known to be slow, others are served while it is evaluated.
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

#[tokio::test]
async fn a_policy_is_told_what_is_wrong_with_its_types() {
    let (server, _directory) = server().await;
    let spec = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"],
        }]},
        "validations": [
            {"expression": "object.spec.replicas > 1"},
            {"expression": "object.spec.replicasWrong > 1"},
        ],
    });
    validating(&server, "p", spec, json!({})).await;
    let path = format!("{GROUP}/validatingadmissionpolicies/p");
    let status = checked(&server, &path, 1).await;
    let warnings = &status["typeChecking"]["expressionWarnings"];
    assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(warnings[0]["fieldRef"], "spec.validations[1].expression");
    assert_eq!(
        warnings[0]["warning"],
        "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replicasWrong'\n | object.spec.replicasWrong > 1\n | ...........^\n"
    );
    let patch = json!({"spec": {"validations": [{"expression": "object.spec.replicas > 1"}]}});
    let (code, answer) = server.ask(Method::PATCH, &path, patch).await;
    assert_eq!(code, 200, "{answer}");
    let status = checked(&server, &path, 2).await;
    assert_eq!(status["typeChecking"], json!({}), "{status}");
}

/// The status of a policy, once it is about this generation.
async fn checked(server: &Server, path: &str, generation: u64) -> Value {
    for _ in 0..1000 {
        let (_, policy) = server.get(path).await;
        if policy["status"]["observedGeneration"] == generation {
            return policy["status"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the policy is not looked at");
}

#[tokio::test]
async fn what_only_the_server_says_no_policy_can_say() {
    let (server, _directory) = server().await;
    let patch = |operations: &str| json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": operations}}]});
    let system = "[JSONPatch{op: 'add', path: '/metadata/uid', value: 'zzz'}, JSONPatch{op: 'add', path: '/metadata/creationTimestamp', value: '2001-01-01T00:00:00Z'}]";
    mutating(&server, "p", patch(system), json!({})).await;
    let pods = format!("{CORE}/pods");
    let (code, answer) = server.create(&pods, pod("x")).await;
    assert_eq!(code, 201, "{answer}");
    assert_ne!(answer["metadata"]["uid"], "zzz");
    assert_ne!(
        answer["metadata"]["creationTimestamp"],
        "2001-01-01T00:00:00Z"
    );
    let binding = format!("{GROUP}/mutatingadmissionpolicybindings/p");
    assert_eq!(server.delete(&binding).await.0, 200);
    let kind = "[JSONPatch{op: 'replace', path: '/kind', value: 'Secret'}]";
    mutating(&server, "q", patch(kind), json!({})).await;
    let (code, answer) = server.create(&pods, pod("y")).await;
    assert_eq!(code, 403, "{answer}");
    let text = answer["message"].as_str().unwrap_or_default();
    assert!(
        text.ends_with("the kind Pod of the object cannot become \"Secret\""),
        "{text}"
    );
}
