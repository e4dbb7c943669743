//! Label selectors, node affinity and tolerations on JSON.

use serde_json::{Value, json};

use super::{list, text};

/// A missing selector matches nothing, an empty one everything.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object();
    let mut pairs = pairs.into_iter().flatten();
    let mut expressions = list(&selector["matchExpressions"]).iter();
    !selector.is_null()
        && pairs.all(|(key, value)| labels[key] == *value)
        && expressions.all(|expression| expression_matches(expression, labels))
}

fn expression_matches(expression: &Value, labels: &Value) -> bool {
    let value = labels[text(&expression["key"])].as_str();
    let values = list(&expression["values"]);
    let is_listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let number = |value: Option<&str>| value.and_then(|value| value.parse::<i64>().ok());
    let numbers = number(value).zip(number(values.first().and_then(Value::as_str)));
    match text(&expression["operator"]) {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers.is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers.is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Whether the pod's node selector and required node affinity allow a node.
pub(super) fn satisfies_node_affinity(pod: &Value, node: &Value) -> bool {
    let spec = &pod["spec"];
    let labels = &node["metadata"]["labels"];
    let pairs = spec["nodeSelector"].as_object();
    let mut pairs = pairs.into_iter().flatten();
    let required =
        &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let mut terms = list(&required["nodeSelectorTerms"]).iter();
    pairs.all(|(key, value)| labels[key] == *value)
        && (required.is_null() || terms.any(|term| term_matches(term, node)))
}

fn term_matches(term: &Value, node: &Value) -> bool {
    let (expressions, fields) = (list(&term["matchExpressions"]), list(&term["matchFields"]));
    let as_labels = json!({"metadata.name": node["metadata"]["name"]});
    !(expressions.is_empty() && fields.is_empty())
        && expressions
            .iter()
            .all(|one| expression_matches(one, &node["metadata"]["labels"]))
        && fields.iter().all(|one| expression_matches(one, &as_labels))
}

/// Whether the pod tolerates all `NoSchedule` taints of the node.
pub(super) fn tolerates_all(pod: &Value, node: &Value) -> bool {
    let taints = list(&node["spec"]["taints"]).iter();
    let mut hard = taints.filter(|taint| taint["effect"] == "NoSchedule");
    hard.all(|taint| {
        let mut tolerations = list(&pod["spec"]["tolerations"]).iter();
        tolerations.any(|toleration| tolerates(toleration, taint))
    })
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let is_about = |field: &str| {
        let wanted = text(&toleration[field]);
        wanted.is_empty() || wanted == text(&taint[field])
    };
    let (value, wanted) = (text(&taint["value"]), text(&toleration["value"]));
    let numbers = value.parse::<i64>().ok().zip(wanted.parse::<i64>().ok());
    is_about("effect")
        && is_about("key")
        && match text(&toleration["operator"]) {
            "" | "Equal" => value == wanted,
            "Exists" => true,
            "Lt" => numbers.is_some_and(|(value, wanted)| value < wanted),
            "Gt" => numbers.is_some_and(|(value, wanted)| value > wanted),
            _ => false,
        }
}
