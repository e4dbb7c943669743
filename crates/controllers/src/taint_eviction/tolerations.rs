//! Decides when a pod must leave a tainted node, from its tolerations.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether and when a pod is evicted from a tainted node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EvictionDecision {
    Cancel,
    GoesAfter(Duration),
}

/// Every taint must be tolerated. For each, the first matching toleration counts; the shortest `tolerationSeconds` of
/// these is the delay.
pub(super) fn decision(tolerations: &[Toleration], taints: &[Taint]) -> EvictionDecision {
    let mut decision = EvictionDecision::Cancel;
    for taint in taints {
        let first = tolerations
            .iter()
            .find(|toleration| tolerates(toleration, taint));
        let Some(toleration) = first else {
            return EvictionDecision::GoesAfter(Duration::ZERO);
        };
        let Some(seconds) = toleration.toleration_seconds else {
            continue;
        };
        let tolerates_until = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        decision = match decision {
            EvictionDecision::GoesAfter(shortest) => {
                EvictionDecision::GoesAfter(shortest.min(tolerates_until))
            }
            EvictionDecision::Cancel => EvictionDecision::GoesAfter(tolerates_until),
        };
    }
    decision
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_empty_or = |text: &Option<String>, other: &str| {
        let text = text.as_deref().unwrap_or_default();
        text.is_empty() || text == other
    };
    if !is_empty_or(&toleration.effect, &taint.effect) || !is_empty_or(&toleration.key, &taint.key)
    {
        return false;
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    let taint_value = taint.value.as_deref().unwrap_or_default();
    // `Lt` and `Gt` occur only if the API server admits these operators.
    let compared = || Some((integer(taint_value)?, integer(value)?));
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => value == taint_value,
        "Exists" => true,
        "Lt" => compared().is_some_and(|(taint, toleration)| taint < toleration),
        "Gt" => compared().is_some_and(|(taint, toleration)| taint > toleration),
        _ => false,
    }
}

/// A decimal integer as upstream accepts it: no `+`, no leading zeros.
fn integer(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(tolerations: Value, taints: &[(&str, &str)], expect: Option<u64>) {
        let shown = tolerations.to_string();
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        let taints: Vec<Taint> = taints
            .iter()
            .map(|&(key, value)| Taint {
                key: key.to_owned(),
                value: Some(value.to_owned()),
                effect: "NoExecute".to_owned(),
                time_added: None,
            })
            .collect();
        let expect = match expect {
            Some(seconds) => EvictionDecision::GoesAfter(Duration::from_secs(seconds)),
            None => EvictionDecision::Cancel,
        };
        assert_eq!(decision(&tolerations, &taints), expect, "{shown}");
    }

    #[test]
    fn the_shortest_toleration_time_applies() {
        check(json!([]), &[], None);
        check(json!([]), &[("a", "")], Some(0));
        check(json!([{"operator": "Exists"}]), &[("a", "1")], None);
        check(json!([{"key": "a", "value": "1"}]), &[("a", "1")], None);
        check(json!([{"key": "a", "value": "2"}]), &[("a", "1")], Some(0));
        check(
            json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
            &[("a", "")],
            Some(0),
        );
        let two = json!([
            {"key": "a", "operator": "Exists", "tolerationSeconds": 300},
            {"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20},
        ]);
        check(two.clone(), &[("a", "")], Some(300));
        check(two.clone(), &[("a", ""), ("b", "")], Some(20));
        check(two, &[("a", ""), ("c", "")], Some(0));
        check(
            json!([{"key": "a", "operator": "Exists", "tolerationSeconds": -5}]),
            &[("a", "")],
            Some(0),
        );
        check(
            json!([{"operator": "Exists", "tolerationSeconds": i64::MAX}]),
            &[("a", "")],
            Some(9_223_372_036_854_775_807),
        );
        check(
            json!([{"key": "a", "operator": "Exists"}, {"operator": "Exists", "tolerationSeconds": 7}]),
            &[("a", ""), ("b", "")],
            Some(7),
        );
    }

    #[test]
    fn numeric_operators_compare_numbers() {
        let than = |operator: &str, value: &str| json!([{"key": "a", "operator": operator, "value": value}]);
        check(than("Lt", "5"), &[("a", "4")], None);
        check(than("Lt", "5"), &[("a", "5")], Some(0));
        check(than("Gt", "5"), &[("a", "6")], None);
        check(than("Gt", "5"), &[("a", "06")], Some(0));
        check(than("Gt", "x"), &[("a", "6")], Some(0));
    }
}
