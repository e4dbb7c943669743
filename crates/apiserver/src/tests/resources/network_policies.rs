//! Network policies written by another server or changed by an admission policy: without `minVersion`, or with unknown
//! fields.

use http::Method;
use rhumb_schema::{Table, protobuf};
use serde_json::{Value, json};

use super::server;
use crate::testing::TestServer;

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

fn spec_with_port_field(field: &str, value: Value) -> Value {
    json!({"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 1, "protocol": "TCP", field: value}]}]})
}

#[tokio::test]
async fn a_network_policy_stored_without_a_version_gets_one_and_keeps_its_generation() {
    let (_directory, server) = server().await;
    let stored = policy(spec_with_port_field("endPort", json!(2)));
    let table = Table::builtin();
    let object_type = table.type_id("io.k8s.api.networking.v1.NetworkPolicy");
    let encoded = protobuf::encode_with_envelope(
        table,
        object_type.expect("schema type exists"),
        stored.as_object().expect("a JSON object"),
    );
    for bytes in [
        stored.to_string().into_bytes(),
        encoded.expect("encodes as protobuf"),
    ] {
        server.put_raw(KEY, bytes).await;
        let (_, list) = server.get(POLICIES).await;
        assert_eq!(list["items"][0]["spec"]["minVersion"], "1.21");
        let (_, fetched) = server.get(&format!("{POLICIES}/p")).await;
        assert_eq!(fetched["spec"]["minVersion"], "1.21");
        assert_eq!(fetched["metadata"]["generation"], 7);
        for labels in [json!({}), json!({"a": "b"})] {
            let patch = json!({"metadata": {"labels": labels}});
            let path = format!("{POLICIES}/p");
            let (code, patched) = server.request(Method::PATCH, &path, patch).await;
            assert_eq!(code, 200, "{patched}");
            assert_eq!(patched["metadata"]["generation"], 7);
        }
        let entry = server
            .state
            .registry
            .store
            .get(KEY)
            .await
            .expect("store is readable");
        let entry = entry.expect("entry exists");
        let stored: Value = serde_json::from_slice(&entry.value).expect("valid JSON");
        assert_eq!(stored["spec"]["minVersion"], "1.21");
    }
    server.close().await;
}

#[tokio::test]
async fn a_network_policy_stored_with_unknown_fields_can_be_read_and_updated() {
    let (_directory, server) = server().await;
    let stored = policy(spec_with_port_field("icmpType", json!(8)));
    server.put_raw(KEY, stored.to_string()).await;
    let path = format!("{POLICIES}/p");
    let (code, mut fetched) = server.get(&path).await;
    assert_eq!(code, 200, "{fetched}");
    assert_eq!(fetched["spec"]["ingress"][0]["ports"][0]["icmpType"], 8);

    let status =
        json!({"conditions": [{"type": "Supported", "status": "False", "reason": "Version"}]});
    fetched["status"] = status.clone();
    let status_path = format!("{path}/status");
    for (method, body) in [
        (Method::PUT, fetched.clone()),
        (Method::PATCH, json!({ "status": status })),
    ] {
        let (code, updated) = server.request(method.clone(), &status_path, body).await;
        assert_eq!(code, 200, "{updated}");
        assert_eq!(updated["status"], status, "{method}");
        let ports = &updated["spec"]["ingress"][0]["ports"];
        assert_eq!(ports[0]["icmpType"], 8, "{method}");
    }

    fetched["metadata"]["resourceVersion"] = Value::Null;
    fetched["spec"]["policyTypes"] = json!(["Ingress", "Egress"]);
    let (code, rejected) = server.request(Method::PUT, &path, fetched).await;
    assert_eq!(code, 400, "{rejected}");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, labelled) = server.request(Method::PATCH, &path, label).await;
    assert_eq!(code, 200, "{labelled}");
    assert_eq!(labelled["status"], status);
    assert_eq!(server.delete(&path).await.0, 200);
    server.close().await;
}

/// The spec of a later release, as it is stored.
const LATER_SPEC: &str = r#""spec":{"ingress":[{"ports":[{"icmpType":8,"port":1,"protocol":"TCP"}]}],"minVersion":"1.99","podSelector":{},"policyTypes":["Ingress"]}"#;

async fn stored_text(server: &TestServer) -> String {
    let entry = server.state.registry.store.get(KEY).await;
    let entry = entry.expect("store is readable").expect("entry exists");
    String::from_utf8(entry.value.to_vec()).expect("UTF-8")
}

#[tokio::test]
async fn updates_of_metadata_keep_the_spec_of_a_later_release() {
    let (_directory, server) = server().await;
    let metadata = r#"{"finalizers":["example.com/f"],"generation":7,"name":"p","namespace":"default","uid":"u"}"#;
    let stored = format!(
        r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{metadata},{LATER_SPEC}}}"#
    );
    server.put_raw(KEY, stored).await;
    let path = format!("{POLICIES}/p");
    let status = json!({"conditions": [{"type": "Supported", "status": "False"}]});
    for (method, target, body) in [
        (
            Method::PATCH,
            path.clone(),
            json!({"metadata": {"labels": {"a": "1"}}}),
        ),
        (
            Method::PATCH,
            format!("{path}/status"),
            json!({"status": status}),
        ),
        (
            Method::PATCH,
            path.clone(),
            json!({"spec": {"podSelector": {}}}),
        ),
    ] {
        let (code, patched) = server.request(method, &target, body).await;
        assert_eq!(code, 200, "{patched}");
        assert_eq!(patched["metadata"]["generation"], 7);
        let text = stored_text(&server).await;
        assert!(text.contains(LATER_SPEC), "{text}");
    }

    // As clients read it, with and without the fields that they do not know.
    let (_, read) = server.get(&path).await;
    let mut typed = read.clone();
    typed["metadata"]["labels"]["a"] = json!("2");
    typed["spec"] = json!({"ingress": [{"ports": [{"port": 1}]}], "podSelector": {}, "policyTypes": ["Ingress"]});
    let mut whole = read.clone();
    whole["metadata"]["labels"]["a"] = json!("3");
    for mut body in [typed, whole] {
        body["metadata"]["resourceVersion"] = Value::Null;
        let (code, updated) = server.request(Method::PUT, &path, body).await;
        assert_eq!(code, 200, "{updated}");
        assert_eq!(updated["metadata"]["generation"], 7);
        let text = stored_text(&server).await;
        assert!(text.contains(LATER_SPEC), "{text}");
    }

    // Whoever changes the spec has to remove what the server does not know; the version cannot be computed without it.
    for change in [
        json!({"spec": {"minVersion": null}}),
        json!({"spec": {"egress": [{}]}}),
        json!({"spec": {"minVersion": null, "policyTypes": ["Egress"]}}),
    ] {
        let (code, rejected) = server.request(Method::PATCH, &path, change).await;
        assert_eq!(code, 422, "{rejected}");
        let message = rejected["message"].as_str().unwrap_or_default();
        assert!(message.contains("icmpType"), "{message}");
    }

    assert_eq!(server.delete(&path).await.0, 200);
    let (_, mut read) = server.get(&path).await;
    assert!(read["metadata"]["deletionTimestamp"].is_string(), "{read}");
    read["metadata"]["finalizers"] = Value::Null;
    let (code, updated) = server.request(Method::PUT, &path, read).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(server.get(&path).await.0, 404);
    server.close().await;
}

/// The requests of the namespace controller, and of one that removes its finalizer from a policy of a later release.
#[tokio::test]
async fn a_namespace_with_a_policy_of_a_later_release_terminates() {
    let (_directory, server) = server().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}});
    let (code, created) = server.create("/api/v1/namespaces", namespace).await;
    assert_eq!(code, 201, "{created}");
    let key = KEY.replace("default", "later");
    let policies = POLICIES.replace("default", "later");
    for (name, finalizers) in [("p", r#""finalizers":["example.com/f"],"#), ("q", "")] {
        let metadata = format!(
            r#"{{{finalizers}"generation":7,"name":"{name}","namespace":"later","uid":"{name}"}}"#
        );
        let stored = format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{metadata},{LATER_SPEC}}}"#
        );
        server
            .put_raw(&format!("{}{name}", &key[..key.len() - 1]), stored)
            .await;
    }
    assert_eq!(server.delete("/api/v1/namespaces/later").await.0, 200);
    let (code, deleted) = server.delete(&policies).await;
    assert_eq!(code, 200, "{deleted}");
    let (_, list) = server.get(&policies).await;
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "{list}");
    assert!(
        items[0]["metadata"]["deletionTimestamp"].is_string(),
        "{list}"
    );
    assert_eq!(items[0]["spec"]["minVersion"], "1.99");

    // The finalizer is removed by a patch, as most controllers do.
    let path = format!("{policies}/p");
    let patch = json!({"metadata": {"finalizers": null}});
    let (code, patched) = server.request(Method::PATCH, &path, patch).await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(server.get(&path).await.0, 404);
    let (_, mut namespace) = server.get("/api/v1/namespaces/later").await;
    namespace["spec"]["finalizers"] = json!([]);
    let finalize = "/api/v1/namespaces/later/finalize";
    let (code, finalized) = server.request(Method::PUT, finalize, namespace).await;
    assert_eq!(code, 200, "{finalized}");
    assert_eq!(server.get("/api/v1/namespaces/later").await.0, 404);
    server.close().await;
}

#[tokio::test]
async fn unknown_fields_of_the_stored_spec_can_be_removed() {
    let (_directory, server) = server().await;
    let stored = policy(spec_with_port_field("icmpType", json!(8)));
    server.put_raw(KEY, stored.to_string()).await;
    let path = format!("{POLICIES}/p");
    let ports = json!([{"port": 1, "protocol": "TCP"}]);
    let patch = json!({"spec": {"ingress": [{"ports": ports}]}});
    let (code, patched) = server.request(Method::PATCH, &path, patch).await;
    assert_eq!(code, 200, "{patched}");
    assert_eq!(patched["spec"]["ingress"][0]["ports"], ports);
    assert_eq!(patched["metadata"]["generation"], 8);
    server.close().await;
}

/// Creates a mutating admission policy that adds a list field to the spec of every new network policy.
async fn add_mutating_policy(server: &TestServer, field: &str) {
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
        let (code, response) = server.create(&path, object).await;
        assert_eq!(code, 201, "{response}");
    }
}

#[tokio::test]
async fn mutations_raise_the_minimum_version_and_cannot_add_unknown_fields() {
    let (_directory, server) = server().await;
    let new = |name: &str| {
        let mut policy = policy(json!({"podSelector": {}}));
        policy["metadata"] = json!({"name": name});
        policy
    };
    add_mutating_policy(&server, "egress").await;
    let (code, created) = server.create(POLICIES, new("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"]["minVersion"], "1.8");
    add_mutating_policy(&server, "other").await;
    let (code, rejected) = server.create(POLICIES, new("b")).await;
    // As upstream: a JSON patch after which the object cannot be decoded strictly is an internal error.
    assert_eq!(code, 500, "{rejected}");
    let message = rejected["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("unknown field \"spec.other\""),
        "{message}"
    );
    server.close().await;
}
