//! KEP-2732: version and status of network policies.

mod min_version;

use http::Method;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::make::object;
use crate::program::FEW_CONTROLLERS;
use crate::requests::{
    JSON, MERGE, OPERATIONS, PROTOBUF, RawResponse, STRATEGIC, TABLE, YAML, get_as, send,
};
use crate::support::TestServer;

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const OFF: &str = "--feature-gates=NetworkPolicyVersioning=false";

fn policy(name: &str, spec: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name},
        "spec": {"podSelector": {}},
    });
    for (field, value) in spec.as_object().expect("a spec") {
        policy["spec"][field] = value.clone();
    }
    policy
}

fn end_port() -> Value {
    json!({"ingress": [{"ports": [{"port": 80, "endPort": 90}]}]})
}

async fn create(client: &Client, name: &str, spec: Value) -> RawResponse {
    let body = policy(name, spec).to_string();
    send(client, Method::POST, POLICIES, JSON, body).await
}

async fn put(client: &Client, path: &str, object: &Value) -> RawResponse {
    let path = format!("{POLICIES}/{path}");
    send(client, Method::PUT, &path, JSON, object.to_string()).await
}

async fn patch(client: &Client, path: &str, media: &str, patch: Value) -> RawResponse {
    let path = format!("{POLICIES}/{path}");
    send(client, Method::PATCH, &path, media, patch.to_string()).await
}

async fn get(client: &Client, name: &str) -> Value {
    get_as(client, &format!("{POLICIES}/{name}"), JSON)
        .await
        .object()
}

/// Writes by current clients, which know neither versions nor a status.
fn typed(client: &Client) -> Api<NetworkPolicy> {
    Api::default_namespaced(client.clone())
}

fn version(policy: &Value) -> &Value {
    &policy["spec"]["minVersion"]
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "observedGeneration": 1, "reason": "Because", "message": "words",
        "lastTransitionTime": "2024-05-01T10:00:00Z"})
}

#[tokio::test]
async fn status_is_changed_only_through_its_subresource() {
    let server = TestServer::start();
    let client = server.client().await;
    let mut brought = policy("p", json!({}));
    brought["status"] = json!({"conditions": [condition("Problem", "True")]});
    let made = send(&client, Method::POST, POLICIES, JSON, brought.to_string()).await;
    let mut made = made.object();
    assert_eq!(made["status"], Value::Null, "a new policy has no status");

    let status = json!({"conditions": [condition("Supported", "True")]});
    made["status"] = status.clone();
    made["spec"]["egress"] = json!([{}]);
    let told = put(&client, "p/status", &made).await.object();
    assert_eq!(told["status"], status);
    assert_eq!(told["spec"]["egress"], Value::Null);
    assert_eq!(told["metadata"]["generation"], 1);

    // Conditions by type.
    let more = json!({"status": {"conditions": [condition("Programmed", "False")]}});
    let told = patch(&client, "p/status", STRATEGIC, more).await.object();
    let status =
        json!({"conditions": [condition("Programmed", "False"), condition("Supported", "True")]});
    assert_eq!(told["status"], status);
    let other = json!({"status": {"conditions": [{"type": "Programmed", "status": "True"}]}});
    let told = patch(&client, "p/status", STRATEGIC, other).await.object();
    assert_eq!(
        told["status"]["conditions"][0],
        condition("Programmed", "True")
    );
    let status = told["status"].clone();

    let known = typed(&client).get("p").await.expect("a policy");
    let (policies, params) = (typed(&client), PostParams::default());
    let replaced = policies.replace("p", &params, &known).await;
    replaced.expect("an update");
    assert_eq!(get(&client, "p").await["status"], status);
    let none = json!({"status": null, "spec": {"egress": [{}]}});
    let written = patch(&client, "p", MERGE, none).await.object();
    assert_eq!(written["status"], status);
    assert_eq!(written["metadata"]["generation"], 2);
    assert_eq!(
        get_as(&client, &format!("{POLICIES}/p/status"), JSON)
            .await
            .object(),
        written
    );
}

#[tokio::test]
async fn invalid_conditions_are_rejected() {
    let server = TestServer::start();
    let client = server.client().await;
    create(&client, "p", json!({})).await.object();
    let table = [
        (
            json!([{"type": "Problem", "status": "Maybe"}]),
            "status.conditions[0].status: Unsupported value: \"Maybe\"",
        ),
        (
            json!([{"type": "Problem", "status": "True"}, {"type": "Problem", "status": "True"}]),
            "status.conditions[1].type: Duplicate value: \"Problem\"",
        ),
        (
            json!([{"type": "Problem", "status": "True", "reason": "n".repeat(1025)}]),
            "status.conditions[0].reason: Too long: may not be more than 1024 bytes",
        ),
    ];
    for (conditions, want) in table {
        let body = json!({"status": {"conditions": conditions}});
        let refused = patch(&client, "p/status", MERGE, body).await;
        let (code, message) = refused.refusal();
        assert_eq!(code, 422);
        assert!(message.contains(want), "{message}");
    }
}

/// Values of the `fieldValidation` parameter.
const VALIDATIONS: [&str; 4] = [
    "",
    "?fieldValidation=Ignore",
    "?fieldValidation=Warn",
    "?fieldValidation=Strict",
];

#[tokio::test]
async fn unknown_fields_are_rejected_regardless_of_field_validation() {
    let server = TestServer::start();
    let client = server.client().await;
    create(&client, "p", json!({})).await.object();
    let wrong = |name: &str| policy(name, json!({"egres": [{}]}));
    let yaml = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: q}\nspec: {egres: [{}]}\n";
    let of_spec = json!({"spec": {"egres": [{}]}}).to_string();
    let operations = json!([{"op": "add", "path": "/spec/egres", "value": [{}]}]).to_string();
    let ways = [
        (Method::POST, "", JSON, wrong("q").to_string(), 400),
        (Method::POST, "", YAML, yaml.to_owned(), 400),
        (Method::PUT, "/p", JSON, wrong("p").to_string(), 400),
        (Method::PATCH, "/p", MERGE, of_spec.clone(), 422),
        (Method::PATCH, "/p", STRATEGIC, of_spec, 422),
        (Method::PATCH, "/p", OPERATIONS, operations, 422),
    ];
    let want = "strict decoding error: unknown field \"spec.egres\" (network policies are always read strictly: without \
                some of its fields, one would mean something else)";
    for validation in VALIDATIONS {
        for (method, path, media, body, code) in &ways {
            let path = format!("{POLICIES}{path}{validation}");
            let refused = send(&client, method.clone(), &path, media, body.clone()).await;
            let (refused, message) = refused.refusal();
            assert_eq!(refused, *code, "{method} {media} {validation}");
            assert!(
                message.contains(want),
                "{method} {media} {validation}: {message}"
            );
        }
    }
    let names: Vec<String> = typed(&client)
        .list(&Default::default())
        .await
        .expect("policies")
        .into_iter()
        .filter_map(|policy| policy.metadata.name)
        .collect();
    assert_eq!(names, ["p"]);
}

#[tokio::test]
async fn unknown_status_fields_follow_field_validation() {
    let server = TestServer::start();
    let client = server.client().await;
    let mut made = create(&client, "p", json!({})).await.object();
    made["spec"]["egres"] = json!([{}]);
    made["status"] = json!({"other": 1});
    let told = put(&client, "p/status", &made).await;
    assert_eq!(told.code, 200, "{told:?}");
    let want = [
        "unknown field \"spec.egres\"",
        "unknown field \"status.other\"",
    ];
    let want = want.map(|text| format!("299 - \"{}\"", text.replace('"', "\\\"")));
    assert_eq!(told.warnings, want);
    let refused = put(&client, "p/status?fieldValidation=Strict", &made).await;
    assert_eq!(refused.refusal().0, 400);
}

/// A protobuf message with length-delimited fields.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, bytes) in fields {
        let length = u8::try_from(bytes.len()).expect("short");
        assert!(length < 128, "a length in one byte");
        message.extend([number << 3 | 2, length]);
        message.extend_from_slice(bytes);
    }
    message
}

#[tokio::test]
async fn unknown_fields_are_rejected_in_protobuf() {
    let server = TestServer::start();
    let client = server.client().await;
    let sealed = |name: &str, spec: &[(u8, &[u8])]| {
        let of_type = message(&[(1, b"networking.k8s.io/v1"), (2, b"NetworkPolicy")]);
        let metadata = message(&[(1, name.as_bytes())]);
        let policy = message(&[(1, &metadata), (2, &message(spec)), (3, b"")]);
        let envelope = message(&[(1, &of_type), (2, &policy)]);
        [b"k8s\0", &*envelope].concat()
    };
    let egress: (u8, &[u8]) = (4, b"Egress");
    let known = sealed("p", &[(1, b""), egress, (7, b"")]);
    let made = send(&client, Method::POST, POLICIES, PROTOBUF, known).await;
    assert_eq!(version(&made.object()), "1.8");
    for validation in VALIDATIONS {
        let path = format!("{POLICIES}{validation}");
        let unknown = sealed("q", &[(1, b""), egress, (7, b"x")]);
        let refused = send(&client, Method::POST, &path, PROTOBUF, unknown).await;
        let (code, message) = refused.refusal();
        assert_eq!(code, 400, "{validation}");
        let want = "unknown field number 7 of v1.NetworkPolicySpec";
        assert!(message.contains(want), "{validation}: {message}");
    }
}

#[tokio::test]
async fn ambiguous_blocks_are_accepted_with_a_warning() {
    let server = TestServer::start();
    let client = server.client().await;
    let block = |cidr: &str| json!({"egress": [{"to": [{"ipBlock": {"cidr": cidr}}]}]});
    let made = create(&client, "p", block("192.168.1.5/24")).await;
    let want = "299 - \"spec.egress[0].to[0].ipBlock.cidr: CIDR value \\\"192.168.1.5/24\\\" is ambiguous in this \
                context (should be \\\"192.168.1.0/24\\\" or \\\"192.168.1.5/32\\\"?)\"";
    assert_eq!(made.warnings, [want]);
    let made = made.object();
    let stored = &made["spec"]["egress"][0]["to"][0]["ipBlock"]["cidr"];
    assert_eq!(stored, "192.168.1.5/24");
    for wrong in ["192.168.01.0/24", "::ffff:1.2.3.0/120", "192.168.1.0"] {
        let refused = create(&client, "q", block(wrong)).await;
        assert_eq!(refused.refusal().0, 422, "{wrong}");
    }
}

#[tokio::test]
async fn table_shows_the_policy_state() {
    let server = TestServer::start();
    let client = server.client().await;
    create(&client, "p", json!({"egress": [{}]})).await.object();
    let row = || async {
        let table = get_as(&client, POLICIES, TABLE).await.object();
        let columns = table["columnDefinitions"].as_array().expect("columns");
        let columns = columns.iter().map(|column| {
            let name = column["name"].as_str().expect("a name");
            (name.to_owned(), column["priority"].as_i64().expect("one"))
        });
        let columns: Vec<(String, i64)> = columns.collect();
        (columns, table["rows"][0]["cells"].clone())
    };
    let (columns, mut cells) = row().await;
    let names = ["Name", "Pod-Selector", "Status", "Age"].map(|name| (name.to_owned(), 0));
    let wide = ["Policy-Types", "Min-Version", "Message"].map(|name| (name.to_owned(), 1));
    assert_eq!(columns, [&names[..], &wide[..]].concat());
    cells[3].take();
    let want = json!([
        "p",
        "<none>",
        "<unknown>",
        null,
        "Ingress,Egress",
        "1.8",
        ""
    ]);
    assert_eq!(cells, want);
    let status = json!({"status": {"conditions": [condition("Programmed", "True")]}});
    patch(&client, "p/status", MERGE, status).await.object();
    let (_, cells) = row().await;
    assert_eq!(
        (&cells[2], &cells[6]),
        (&json!("Programmed"), &json!("words"))
    );
}

#[tokio::test]
async fn gate_off_and_on_again_keeps_status_and_version() {
    let mut server = TestServer::start();
    let client = server.client().await;
    create(&client, "filled", json!({})).await.object();
    create(&client, "set", json!({"minVersion": "1.12"}))
        .await
        .object();
    let status = json!({"status": {"conditions": [condition("Supported", "True")]}});
    for name in ["filled", "set"] {
        let path = format!("{name}/status");
        patch(&client, &path, MERGE, status.clone()).await.object();
    }

    server.restart_with(&[FEW_CONTROLLERS, OFF]);
    let client = server.client().await;
    check_while_off(&client, &status).await;

    server.restart_with(&[FEW_CONTROLLERS]);
    let client = server.client().await;
    for (name, want, generation) in [
        ("filled", "1.21", 2),
        ("set", "1.12", 2),
        ("new", "1.21", 1),
    ] {
        let found = get(&client, name).await;
        assert_eq!(version(&found), want, "{name}");
        assert_eq!(found["metadata"]["generation"], generation, "{name}");
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let labelled = patch(&client, name, MERGE, label).await.object();
        assert_eq!(labelled["metadata"]["generation"], generation, "{name}");
    }
    assert_eq!(get(&client, "set").await["status"], status["status"]);
    assert_eq!(get(&client, "new").await["status"], Value::Null);
}

async fn check_while_off(client: &Client, status: &Value) {
    for name in ["filled", "set"] {
        assert_eq!(get(client, name).await["status"], status["status"]);
    }
    // An existing version is kept and updated.
    let newer = json!({"spec": end_port()});
    let written = patch(client, "filled", MERGE, newer).await.object();
    assert_eq!(version(&written), "1.21");
    let egress = json!({"spec": {"egress": [{}]}});
    let written = patch(client, "set", MERGE, egress).await.object();
    assert_eq!(version(&written), "1.12");
    assert_eq!(written["status"], status["status"]);

    // New objects get no version and no status, and everything else is like upstream.
    let mut spec = end_port();
    spec["minVersion"] = json!("1.3");
    spec["egres"] = json!([{}]);
    let made = create(client, "new", spec).await;
    assert_eq!(
        made.warnings,
        [
            "299 - \"unknown field \\\"spec.egres\\\"\"",
            "299 - \"unknown field \\\"spec.minVersion\\\": the feature gate NetworkPolicyVersioning is disabled\"",
        ]
    );
    let made = made.object();
    assert_eq!(version(&made), &Value::Null);
    let told = patch(client, "new/status", MERGE, status.clone()).await;
    assert_eq!(told.object()["status"], Value::Null);
    let block = json!({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.5/24"}}]}]});
    let refused = create(client, "ambiguous", block).await;
    assert_eq!(refused.refusal().0, 422);
}

#[tokio::test]
async fn a_typed_client_can_patch_the_status() {
    let server = TestServer::start();
    let client = server.client().await;
    let policies = typed(&client);
    let made: NetworkPolicy = object(policy("p", json!({})));
    let made = policies.create(&PostParams::default(), &made).await;
    assert_eq!(made.expect("a policy").metadata.generation, Some(1));
    let status = json!({"status": {"conditions": [condition("Problem", "True")]}});
    let (params, merge) = (PatchParams::default(), Patch::Merge(&status));
    let patched = policies.patch_status("p", &params, &merge).await;
    patched.expect("a patch");
    assert_eq!(get(&client, "p").await["status"], status["status"]);
}

#[tokio::test]
async fn unquoted_version_is_rejected_with_advice() {
    let server = TestServer::start_with(&[FEW_CONTROLLERS]);
    let client = server.client().await;
    let advice = "write it in quotes, such as minVersion: \"1.21\"";
    let refused = create(&client, "a", json!({"minVersion": 1.8})).await;
    assert_eq!(refused.code, 400);
    let message = refused.body["message"].to_string().replace('\\', "");
    assert!(message.contains(advice), "{message}");
    create(&client, "a", json!({})).await;
    for media in [MERGE, STRATEGIC] {
        let refused = patch(&client, "a", media, json!({"spec": {"minVersion": 1.8}})).await;
        assert!([400, 422].contains(&refused.code), "{}", refused.code);
        let message = refused.body["message"].to_string().replace('\\', "");
        assert!(message.contains(advice), "{media}: {message}");
    }
}
