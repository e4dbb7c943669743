//! Network policies that a server or an admission policy has changed: without a version, or with fields that are not
//! known here.

use http::Method;
use rhumb_schema::{Table, protobuf};
use serde_json::{Value, json};

use super::server;
use crate::testing::Server;

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const KEY: &str = "/registry/networkpolicies/default/p";

fn policy(spec: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 7},
        "spec": spec,
    })
}

fn allowing(field: &str, value: Value) -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 1, "protocol": "TCP", field: value}]}]})
}

#[tokio::test]
async fn a_policy_that_was_stored_without_a_version_has_one_and_no_new_generation() {
    let (_directory, server) = server().await;
    let stored = policy(allowing("endPort", json!(2)));
    let table = Table::builtin();
    let of = table.named("io.k8s.api.networking.v1.NetworkPolicy");
    let sealed = protobuf::seal(table, of.expect("a type"), stored.as_object().expect("one"));
    for bytes in [stored.to_string().into_bytes(), sealed.expect("a message")] {
        server.plant(KEY, bytes).await;
        let (_, list) = server.get(POLICIES).await;
        assert_eq!(list["items"][0]["spec"]["minVersion"], "1.21");
        let (_, found) = server.get(&format!("{POLICIES}/p")).await;
        assert_eq!(found["spec"]["minVersion"], "1.21");
        assert_eq!(found["metadata"]["generation"], 7);
        for labels in [json!({}), json!({"a": "b"})] {
            let patch = json!({"metadata": {"labels": labels}});
            let path = format!("{POLICIES}/p");
            let (code, patched) = server.ask(Method::PATCH, &path, patch).await;
            assert_eq!(code, 200, "{patched}");
            assert_eq!(patched["metadata"]["generation"], 7);
        }
        let entry = server.api.store.get(KEY).await.expect("a read");
        let stored: Value = serde_json::from_slice(&entry.expect("one").value).expect("JSON");
        assert_eq!(stored["spec"]["minVersion"], "1.21");
    }
    server.close().await;
}

#[tokio::test]
async fn a_policy_that_was_stored_with_unknown_fields_can_be_read_labelled_and_reported_on() {
    let (_directory, server) = server().await;
    let stored = policy(allowing("icmpType", json!(8)));
    server.plant(KEY, stored.to_string()).await;
    let path = format!("{POLICIES}/p");
    let (code, mut found) = server.get(&path).await;
    assert_eq!(code, 200, "{found}");
    assert_eq!(found["spec"]["ingress"][0]["ports"][0]["icmpType"], 8);

    let status =
        json!({"conditions": [{"type": "Supported", "status": "False", "reason": "Version"}]});
    found["status"] = status.clone();
    let of_status = format!("{path}/status");
    for (method, body) in [
        (Method::PUT, found.clone()),
        (Method::PATCH, json!({ "status": status })),
    ] {
        let (code, told) = server.ask(method.clone(), &of_status, body).await;
        assert_eq!(code, 200, "{told}");
        assert_eq!(told["status"], status, "{method}");
        let ports = &told["spec"]["ingress"][0]["ports"];
        assert_eq!(ports[0]["icmpType"], 8, "{method}");
    }

    found["metadata"]["resourceVersion"] = Value::Null;
    let (code, refused) = server.ask(Method::PUT, &path, found).await;
    assert_eq!(code, 400, "{refused}");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, labelled) = server.ask(Method::PATCH, &path, label).await;
    assert_eq!(code, 200, "{labelled}");
    assert_eq!(labelled["status"], status);
    assert_eq!(server.delete(&path).await.0, 200);
    server.close().await;
}

/// An admission policy that adds a list to the specification of every new network policy.
async fn add_to_all(server: &Server, field: &str) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let expression = format!("[JSONPatch{{op: 'add', path: '/spec/{field}', value: [{{}}]}}]");
    let rule = json!({
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["networkpolicies"],
    });
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        "reinvocationPolicy": "Never",
    });
    let binding = json!({"policyName": field});
    for (kind, plural, spec) in [
        ("Policy", "policies", spec),
        ("PolicyBinding", "policybindings", binding),
    ] {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("MutatingAdmission{kind}"),
            "metadata": {"name": field}, "spec": spec,
        });
        let path = format!("{group}/mutatingadmission{plural}");
        let (code, answer) = server.create(&path, object).await;
        assert_eq!(code, 201, "{answer}");
    }
}

#[tokio::test]
async fn admission_may_add_what_is_known_and_the_version_follows_but_nothing_else() {
    let (_directory, server) = server().await;
    let new = |name: &str| {
        let mut policy = policy(json!({"podSelector": {}}));
        policy["metadata"] = json!({"name": name});
        policy
    };
    add_to_all(&server, "egress").await;
    let (code, made) = server.create(POLICIES, new("a")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["minVersion"], "1.8");
    add_to_all(&server, "other").await;
    let (code, refused) = server.create(POLICIES, new("b")).await;
    assert_eq!(code, 403, "{refused}");
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("unknown field \"spec.other\""),
        "{message}"
    );
    server.close().await;
}
