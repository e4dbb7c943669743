//! KEP-2249: quotas for pods with cross-namespace affinity.

use http::Request;
use serde_json::{Value, json};

use crate::quota_namespace::{TestNamespace, pod, pod_with, start};

/// The example of the KEP, which has no operator.
const DISABLED: &str = r#"
apiVersion: v1
kind: ResourceQuota
metadata:
  name: disable-cross-namespace-affinity
  namespace: foo-ns
spec:
  hard:
    pods: "0"
  scopeSelector:
    matchExpressions:
    - scopeName: CrossNamespaceAffinity
"#;

/// Creates a quota from raw YAML, because typed clients would add omitted fields.
async fn make_from(ns: &TestNamespace, yaml: &str) -> Value {
    let quota: Value = serde_saphyr::from_str(yaml).expect("YAML");
    let path = format!("/api/v1/namespaces/{}/resourcequotas", ns.namespace);
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(quota.to_string().into_bytes())
        .expect("a request");
    let created = ns.client.request(request).await;
    created.expect("a quota")
}

/// The four fields that can contain an affinity term.
fn everywhere(term: &Value) -> [(String, Value); 4] {
    let mut whole = term.clone();
    whole["topologyKey"] = json!("zone");
    whole["labelSelector"] = json!({"matchLabels": {"app": "other"}});
    let at = |kind: &str, required: bool| {
        let (strength, terms) = if required {
            ("required", json!([whole]))
        } else {
            (
                "preferred",
                json!([{"weight": 1, "podAffinityTerm": whole}]),
            )
        };
        let field = format!("{strength}DuringSchedulingIgnoredDuringExecution");
        (
            format!("{strength}-{}", kind.to_lowercase()),
            json!({"affinity": {kind: {field: terms}}}),
        )
    };
    [
        at("podAffinity", true),
        at("podAffinity", false),
        at("podAntiAffinity", true),
        at("podAntiAffinity", false),
    ]
}

/// Cross-namespace terms, also those that name only their own namespace.
fn crossing() -> [(&'static str, Value); 5] {
    [
        ("listed", json!({"namespaces": ["bar-ns"]})),
        ("own", json!({"namespaces": ["foo-ns"]})),
        ("all", json!({"namespaceSelector": {}})),
        (
            "labelled",
            json!({"namespaceSelector": {"matchLabels": {"team": "devs"}}}),
        ),
        (
            "both",
            json!({
                "namespaces": ["bar-ns"],
                "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            }),
        ),
    ]
}

#[tokio::test]
async fn kep_example_rejects_every_cross_namespace_term() {
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "foo-ns").await;
    let created = make_from(&ns, DISABLED).await;
    assert_eq!(
        created["spec"]["scopeSelector"]["matchExpressions"],
        json!([{"scopeName": "CrossNamespaceAffinity", "operator": "Exists"}])
    );
    for (how, term) in crossing() {
        for (index, spec) in everywhere(&term) {
            let name = format!("{how}-{index}");
            assert_eq!(
                ns.refused(pod_with(&name, spec)).await,
                format!(
                    "pods \"{name}\" is forbidden: exceeded quota: disable-cross-namespace-affinity, \
                     requested: pods=1, used: pods=0, limited: pods=0"
                )
            );
        }
    }
    // Terms without namespaces are allowed everywhere.
    ns.must_create(pod("plain")).await;
    for term in [json!({}), json!({"namespaces": []})] {
        for (index, spec) in everywhere(&term) {
            ns.must_create(pod_with(&index, spec)).await;
            ns.delete(&index).await;
        }
    }
    let quota = "disable-cross-namespace-affinity";
    assert_eq!(ns.used(quota).await, json!({"pods": "0"}));
    let elsewhere = TestNamespace::make(&ns.client, "bar-ns").await;
    for (how, term) in crossing() {
        let [(index, spec), ..] = everywhere(&term);
        let name = format!("{how}-{index}");
        elsewhere.must_create(pod_with(&name, spec)).await;
    }
}

/// Both scope names mean the same, in `scopes` and in `scopeSelector`.
#[tokio::test]
async fn both_scope_names_count_the_same_pods() {
    let server = start();
    let ns = TestNamespace::make(&server.client().await, "a").await;
    let names = ["CrossNamespaceAffinity", "CrossNamespacePodAffinity"];
    let mut quotas = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let hard = json!({"pods": "2"});
        let selector = json!({"matchExpressions": [{"scopeName": name, "operator": "Exists"}]});
        for (how, spec) in [
            ("list", json!({"hard": hard, "scopes": [name]})),
            ("selector", json!({"hard": hard, "scopeSelector": selector})),
        ] {
            let quota = format!("{how}-{index}");
            ns.make_quota(&quota, spec).await;
            quotas.push(quota);
        }
    }
    let [(_, spec), ..] = everywhere(&json!({"namespaceSelector": {}}));
    for name in ["one", "two"] {
        ns.must_create(pod_with(name, spec.clone())).await;
        ns.must_create(pod(&format!("plain-{name}"))).await;
    }
    ns.refused(pod_with("three", spec)).await;
    for quota in quotas {
        assert_eq!(ns.used(&quota).await, json!({"pods": "2"}), "{quota}");
    }
}
