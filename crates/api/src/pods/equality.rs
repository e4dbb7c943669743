//! Whether two parts of a pod, or of what owns pods, mean the same, however they are written.

use rhumb_meta::Quantity;
use serde_json::Value;

/// Fields whose absence means their zero. All others tell absent from zero.
const ZERO_IF_ABSENT: &[&str] = &[
    "apiVersion",
    "args",
    "containerName",
    "containerPort",
    "defaultMode",
    "effect",
    "fsType",
    "hostIP",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "hostname",
    "image",
    "initialDelaySeconds",
    "key",
    "lun",
    "medium",
    "name",
    "nodeName",
    "operator",
    "partition",
    "path",
    "prefix",
    "priorityClassName",
    "readOnly",
    "secretName",
    "serviceAccount",
    "serviceAccountName",
    "serviceName",
    "stdin",
    "stdinOnce",
    "subPath",
    "subPathExpr",
    "subdomain",
    "targetContainerName",
    "tty",
    "value",
    "volumeName",
    "workingDir",
];

/// Objects that mean something when they are there, even if nothing is in them: an empty selector of namespaces
/// picks all of them, an absent one none.
const PRESENT_IF_EMPTY: &[&str] = &[
    "affinity",
    "emptyDir",
    "labelSelector",
    "namespaceSelector",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
];

/// Maps of amounts, which are equal as numbers.
const AMOUNTS: &[&str] = &["limits", "requests", "overhead"];

pub(crate) fn same(left: Option<&Value>, right: Option<&Value>) -> bool {
    same_field("", left, right)
}

/// The same for a field, whose name may say what it means.
pub(super) fn same_field(name: &str, left: Option<&Value>, right: Option<&Value>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => same_value(name, left, right),
        (Some(only), None) | (None, Some(only)) => is_absent(name, only),
    }
}

/// Whether a value means the same as none.
fn is_absent(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(_) if PRESENT_IF_EMPTY.contains(&name) => false,
        Value::Object(fields) => fields.iter().all(|(name, value)| is_absent(name, value)),
        Value::String(text) => text.is_empty() && ZERO_IF_ABSENT.contains(&name),
        Value::Bool(value) => !value && ZERO_IF_ABSENT.contains(&name),
        Value::Number(number) => number.as_i64() == Some(0) && ZERO_IF_ABSENT.contains(&name),
    }
}

fn same_value(name: &str, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same_value("", left, right))
        }
        (Value::Object(left), Value::Object(right)) if AMOUNTS.contains(&name) => {
            left.len() == right.len()
                && left.iter().all(|(key, amount)| {
                    right
                        .get(key)
                        .is_some_and(|other| same_amount(amount, other))
                })
        }
        (Value::Object(left), Value::Object(right)) => {
            left.iter()
                .all(|(key, value)| same_field(key, Some(value), right.get(key)))
                && right
                    .iter()
                    .all(|(key, value)| left.contains_key(key) || is_absent(key, value))
        }
        _ if matches!(name, "sizeLimit" | "divisor") => same_amount(left, right),
        _ => left == right || (is_absent(name, left) && is_absent(name, right)),
    }
}

fn same_amount(left: &Value, right: &Value) -> bool {
    match (Quantity::from_json(left), Quantity::from_json(right)) {
        (Ok(left), Ok(right)) => left == right,
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_means_the_same_is_the_same() {
        let table = [
            (
                json!({}),
                json!({"hostNetwork": false, "volumes": [], "nodeSelector": null}),
                true,
            ),
            (
                json!({}),
                json!({"automountServiceAccountToken": false}),
                false,
            ),
            (
                json!({"limits": {"cpu": "1"}}),
                json!({"limits": {"cpu": "1000m"}}),
                true,
            ),
            (
                json!({"limits": {"cpu": "1"}}),
                json!({"limits": {"cpu": "2"}}),
                false,
            ),
            (
                json!({"limits": {"cpu": "1"}}),
                json!({"limits": {"memory": "1"}}),
                false,
            ),
            (json!({"emptyDir": {}}), json!({}), false),
            (
                json!([{"namespaceSelector": {}}]),
                json!([{"namespaceSelector": null}]),
                false,
            ),
            (
                json!({"labelSelector": {"matchLabels": {}}}),
                json!({"labelSelector": {}}),
                true,
            ),
            (json!({"a": [1, 2]}), json!({"a": [2, 1]}), false),
            (
                json!({"a": {"b": [{"c": "x"}]}}),
                json!({"a": {"b": [{"c": "x", "tty": false}]}}),
                true,
            ),
            (json!({"nodeName": "a"}), json!({"nodeName": "b"}), false),
            (json!({"nodeName": "a"}), json!({}), false),
        ];
        for (left, right, want) in table {
            assert_eq!(same(Some(&left), Some(&right)), want, "{left} {right}");
            assert_eq!(same(Some(&right), Some(&left)), want, "{right} {left}");
        }
    }
}
