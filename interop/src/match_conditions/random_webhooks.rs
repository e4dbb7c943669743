//! Random webhooks with exclusion rules. All values are valid, since servers validate them.

use fastrand::Rng;
use serde_json::{Map, Value, json};

const GROUPS: &[&[&str]] = &[
    &["*"],
    &["*"],
    &[""],
    &["", "apps"],
    &["events.k8s.io"],
    &["autoscaling", "coordination.k8s.io"],
];
const VERSIONS: &[&[&str]] = &[&["*"], &["*"], &["v1"], &["v2"], &["v1", "v2"]];
const RESOURCES: &[&[&str]] = &[
    &["*/*"],
    &["*/*"],
    &["*"],
    &["pods", "configmaps"],
    &["pods/*"],
    &["events", "leases"],
    &["*/status"],
    &["pods/status", "deployments/scale", "pods/eviction"],
    &["namespaces", "nodes"],
    &["horizontalpodautoscalers", "deployments"],
];
const OPERATIONS: &[&[&str]] = &[
    &["*"],
    &["*"],
    &["CREATE"],
    &["UPDATE", "DELETE"],
    &["CONNECT", "CREATE"],
];
const SCOPES: &[&str] = &["*", "*", "Namespaced", "Cluster"];
const NAMES: &[&[&str]] = &[&[], &[], &[], &["x"], &["y", "n1"]];
const NAMESPACES: &[&[&str]] = &[&[], &[], &["n1"], &["n2", "x"]];

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

fn rule(rng: &mut Rng) -> Value {
    json!({
        "apiGroups": pick(rng, GROUPS),
        "apiVersions": pick(rng, VERSIONS),
        "operations": pick(rng, OPERATIONS),
        "resources": pick(rng, RESOURCES),
        "scope": pick(rng, SCOPES),
    })
}

fn exclusion(rng: &mut Rng) -> Value {
    let mut exclusion = rule(rng);
    exclusion["resourceNames"] = json!(pick(rng, NAMES));
    if exclusion["scope"] != "Cluster" {
        exclusion["namespaces"] = json!(pick(rng, NAMESPACES));
        exclusion["namespaceSelector"] = selector(rng);
    }
    // An omitted list means everything.
    for list in ["apiGroups", "apiVersions", "operations", "resources"] {
        if rng.u8(..6) == 0 {
            exclusion[list] = json!([]);
        }
    }
    exclusion
}

fn selector(rng: &mut Rng) -> Value {
    let name = "kubernetes.io/metadata.name";
    match rng.u8(..8) {
        0 => json!({}),
        1 => json!({"matchLabels": {name: "n1"}}),
        2 => {
            json!({"matchExpressions": [{"key": name, "operator": "NotIn", "values": ["n1", "x"]}]})
        }
        3 => json!({"matchLabels": {"team": "a"}}),
        _ => Value::Null,
    }
}

/// An exclusion whose selector can be moved to a webhook that sees only namespaced objects.
fn movable_exclusion(rng: &mut Rng) -> Value {
    let operator = pick(rng, &["In", "NotIn"]);
    json!({
        "resources": ["*/*"],
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": operator, "values": ["a"]}]},
    })
}

fn with_defaults(index: usize, fields: Value) -> Map<String, Value> {
    let mut webhook = json!({
        "name": format!("w{index}.example.com"),
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1"],
    });
    if let (Value::Object(webhook), Value::Object(fields)) = (&mut webhook, fields) {
        webhook.extend(fields);
    }
    webhook.as_object().cloned().unwrap_or_default()
}

pub(super) fn webhook(rng: &mut Rng, index: usize) -> Map<String, Value> {
    let mut rules: Vec<Value> = (0..1 + rng.usize(..2)).map(|_| rule(rng)).collect();
    if rng.bool() {
        // Few requests match a random rule.
        rules.push(json!({
            "apiGroups": ["*"], "apiVersions": [pick(rng, &["*", "v1", "v2"])],
            "operations": ["*"], "resources": ["*/*"],
        }));
    }
    let mut exclusions: Vec<Value> = (0..1 + rng.usize(..3)).map(|_| exclusion(rng)).collect();
    if rng.u8(..5) == 0 {
        for rule in &mut rules {
            rule["scope"] = "Namespaced".into();
        }
        exclusions.push(movable_exclusion(rng));
    }
    with_defaults(
        index,
        json!({
            "rules": rules,
            "excludeResourceRules": exclusions,
            "matchPolicy": pick(rng, &["Exact", "Equivalent"]),
        }),
    )
}

/// A webhook that is called for every config map that is created.
pub(super) fn marker(index: usize) -> Map<String, Value> {
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
    });
    with_defaults(index, json!({"rules": [rule]}))
}
