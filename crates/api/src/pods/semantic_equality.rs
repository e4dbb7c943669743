//! Semantic equality of JSON values of pods and workloads, as upstream's `apiequality.Semantic.DeepEqual` on the
//! decoded Go structs. Entry point: `semantically_equal`.

use rhumb_meta::Quantity;
use serde_json::Value;

/// Fields whose Go type is not a pointer: absent equals zero. In all other fields, absent and zero differ.
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

/// Objects for which empty and absent differ: an empty namespace selector matches all namespaces, an absent one none.
const SET_WHEN_EMPTY: &[&str] = &[
    "affinity",
    "emptyDir",
    "labelSelector",
    "namespaceSelector",
    "nodeAffinity",
    "podAffinity",
    "podAntiAffinity",
];

/// Maps of quantities, which are compared by value.
const QUANTITY_MAPS: &[&str] = &["limits", "requests", "overhead"];

pub(crate) fn semantically_equal(left: Option<&Value>, right: Option<&Value>) -> bool {
    field_semantically_equal("", left, right)
}

/// Like `semantically_equal`, for a field, whose name selects the comparison.
pub(super) fn field_semantically_equal(
    name: &str,
    left: Option<&Value>,
    right: Option<&Value>,
) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => values_equal(name, left, right),
        (Some(only), None) | (None, Some(only)) => is_zero_value(name, only),
    }
}

/// Returns whether a value equals an absent one.
fn is_zero_value(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(_) if SET_WHEN_EMPTY.contains(&name) => false,
        Value::Object(fields) => fields
            .iter()
            .all(|(name, value)| is_zero_value(name, value)),
        Value::String(text) => text.is_empty() && ZERO_IF_ABSENT.contains(&name),
        Value::Bool(value) => !value && ZERO_IF_ABSENT.contains(&name),
        Value::Number(number) => number.as_i64() == Some(0) && ZERO_IF_ABSENT.contains(&name),
    }
}

fn values_equal(name: &str, left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| values_equal("", left, right))
        }
        (Value::Object(left), Value::Object(right)) if QUANTITY_MAPS.contains(&name) => {
            left.len() == right.len()
                && left.iter().all(|(key, amount)| {
                    right
                        .get(key)
                        .is_some_and(|other| quantities_equal(amount, other))
                })
        }
        (Value::Object(left), Value::Object(right)) => {
            left.iter()
                .all(|(key, value)| field_semantically_equal(key, Some(value), right.get(key)))
                && right
                    .iter()
                    .all(|(key, value)| left.contains_key(key) || is_zero_value(key, value))
        }
        _ if matches!(name, "sizeLimit" | "divisor") => quantities_equal(left, right),
        _ => left == right || (is_zero_value(name, left) && is_zero_value(name, right)),
    }
}

fn quantities_equal(left: &Value, right: &Value) -> bool {
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
    fn semantically_equal_specs_are_equal() {
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
            assert_eq!(
                semantically_equal(Some(&left), Some(&right)),
                want,
                "{left} {right}"
            );
            assert_eq!(
                semantically_equal(Some(&right), Some(&left)),
                want,
                "{right} {left}"
            );
        }
    }
}
