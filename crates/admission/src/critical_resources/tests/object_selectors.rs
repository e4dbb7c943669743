//! Object selectors: critical objects may get the labels that a webhook selects.

use serde_json::json;

use super::{ALL, CriticalResources, intercepted_names};

#[test]
fn an_object_selector_does_not_prevent_interception() {
    let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let table = [
        (json!({"matchLabels": {"checked": "yes"}}), ALL),
        (
            json!({"matchExpressions": [
                expression("a", "Exists", &[]),
                expression("a", "NotIn", &["", "0", "1"]),
                expression("b", "In", &["x", "y"]),
                expression("b", "NotIn", &["x"]),
            ]}),
            ALL,
        ),
        // It selects nothing.
        (
            json!({"matchExpressions": [
                expression("a", "Exists", &[]),
                expression("a", "DoesNotExist", &[]),
            ]}),
            "",
        ),
    ];
    for (selector, want) in table {
        let changes = json!({"objectSelector": selector});
        let actual = intercepted_names(&CriticalResources::default(), changes.clone());
        assert_eq!(actual, want, "{changes}");
    }
}
