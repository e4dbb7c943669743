//! Label selectors on JSON.

use serde_json::Value;

use super::{list, text};

/// A missing selector matches nothing, an empty one everything.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let pairs = selector["matchLabels"].as_object();
    for (key, value) in pairs.into_iter().flatten() {
        if labels[key] != *value {
            return false;
        }
    }
    let expressions = list(&selector["matchExpressions"]);
    expressions
        .iter()
        .all(|expression| expression_matches(expression, labels))
}

pub(super) fn expression_matches(expression: &Value, labels: &Value) -> bool {
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
        other => panic!("unknown operator {other}"),
    }
}
