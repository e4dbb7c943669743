//! KEP-2249: who may have pods that look at other namespaces.

use http::Request;
use serde_json::{Value, json};

use crate::space::{Space, pod, pod_with, start};

/// As the KEP prints it: without an operator.
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

/// Creates a quota from YAML as it is: types would fill in what was left out.
async fn make_from(space: &Space, yaml: &str) -> Value {
    let quota: Value = serde_saphyr::from_str(yaml).expect("YAML");
    let path = format!("/api/v1/namespaces/{}/resourcequotas", space.namespace);
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(quota.to_string().into_bytes())
        .expect("a request");
    let made = space.client.request(request).await;
    made.expect("a quota")
}

/// The four places that a term about other pods can have.
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

/// Terms that look at other namespaces, even if it is only their own that they name.
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
async fn the_example_of_the_kep_keeps_out_every_kind_of_cross_namespace_term() {
    let server = start();
    let space = Space::make(&server.client().await, "foo-ns").await;
    let made = make_from(&space, DISABLED).await;
    assert_eq!(
        made["spec"]["scopeSelector"]["matchExpressions"],
        json!([{"scopeName": "CrossNamespaceAffinity", "operator": "Exists"}])
    );
    for (how, term) in crossing() {
        for (place, spec) in everywhere(&term) {
            let name = format!("{how}-{place}");
            assert_eq!(
                space.refused(pod_with(&name, spec)).await,
                format!(
                    "pods \"{name}\" is forbidden: exceeded quota: disable-cross-namespace-affinity, \
                     requested: pods=1, used: pods=0, limited: pods=0"
                )
            );
        }
    }
    // Those that stay at home are let in, here as elsewhere.
    space.must_create(pod("plain")).await;
    for term in [json!({}), json!({"namespaces": []})] {
        for (place, spec) in everywhere(&term) {
            space.must_create(pod_with(&place, spec)).await;
            space.delete(&place).await;
        }
    }
    let quota = "disable-cross-namespace-affinity";
    assert_eq!(space.used(quota).await, json!({"pods": "0"}));
    let elsewhere = Space::make(&space.client, "bar-ns").await;
    for (how, term) in crossing() {
        let [(place, spec), ..] = everywhere(&term);
        let name = format!("{how}-{place}");
        elsewhere.must_create(pod_with(&name, spec)).await;
    }
}

/// Both names of the scope, in both places, mean the same.
#[tokio::test]
async fn both_names_of_the_scope_count_the_same_pods() {
    let server = start();
    let space = Space::make(&server.client().await, "a").await;
    let names = ["CrossNamespaceAffinity", "CrossNamespacePodAffinity"];
    let mut quotas = Vec::new();
    for (place, name) in names.into_iter().enumerate() {
        let hard = json!({"pods": "2"});
        let selector = json!({"matchExpressions": [{"scopeName": name, "operator": "Exists"}]});
        for (how, spec) in [
            ("list", json!({"hard": hard, "scopes": [name]})),
            ("selector", json!({"hard": hard, "scopeSelector": selector})),
        ] {
            let quota = format!("{how}-{place}");
            space.make_quota(&quota, spec).await;
            quotas.push(quota);
        }
    }
    let [(_, spec), ..] = everywhere(&json!({"namespaceSelector": {}}));
    for name in ["one", "two"] {
        space.must_create(pod_with(name, spec.clone())).await;
        space.must_create(pod(&format!("plain-{name}"))).await;
    }
    space.refused(pod_with("three", spec)).await;
    for quota in quotas {
        assert_eq!(space.used(&quota).await, json!({"pods": "2"}), "{quota}");
    }
}
