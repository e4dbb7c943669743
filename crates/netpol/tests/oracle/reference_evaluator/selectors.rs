//! Label selectors.

use serde_json::Value;

use super::{list, text};

/// Whether a selector (not null) matches the labels.
pub(crate) fn selector_matches(selector: &Value, labels: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object();
    let mut pairs = pairs.into_iter().flatten();
    let expressions = list(&selector["matchExpressions"]);
    expressions.iter().all(is_valid)
        && pairs.all(|(key, value)| labels[key] == *value)
        && expressions
            .iter()
            .all(|expression| expression_matches(expression, labels))
}

fn is_valid(expression: &Value) -> bool {
    let has_values = !list(&expression["values"]).is_empty();
    match text(&expression["operator"]) {
        "In" | "NotIn" => has_values,
        "Exists" | "DoesNotExist" => !has_values,
        _ => false,
    }
}

fn expression_matches(expression: &Value, labels: &Value) -> bool {
    let value = &labels[text(&expression["key"])];
    let is_listed = list(&expression["values"]).contains(value);
    match text(&expression["operator"]) {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => !value.is_null(),
        _ => value.is_null(),
    }
}
