//! Decodes PodDisruptionBudgets.

use std::collections::BTreeMap;

use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_meta::labels::LabelSelector;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::common::{WireObjectMeta, decode_selector};
use crate::model::{DisruptionBudget, NamespacedName};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireDisruptionBudget<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: WireObjectMeta<'a>,
    #[serde(deserialize_with = "or_default")]
    spec: WireDisruptionBudgetSpec,
    #[serde(borrow, deserialize_with = "or_default")]
    status: WireDisruptionBudgetStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WireDisruptionBudgetSpec {
    selector: Option<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WireDisruptionBudgetStatus<'a> {
    #[serde(deserialize_with = "or_default")]
    disruptions_allowed: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    disrupted_pods: BTreeMap<BorrowedStr<'a>, IgnoredAny>,
}

impl DisruptionBudget {
    /// Decodes a PodDisruptionBudget from JSON.
    pub fn from_json(json: &[u8]) -> Result<DisruptionBudget, serde_json::Error> {
        let wire: WireDisruptionBudget<'_> = serde_json::from_slice(json)?;
        let disrupted = wire.status.disrupted_pods.keys();
        let mut disrupted_pods: Vec<Box<str>> = disrupted.map(|name| (**name).into()).collect();
        disrupted_pods.sort();
        Ok(DisruptionBudget {
            key: NamespacedName {
                namespace: (*wire.metadata.namespace).into(),
                name: (*wire.metadata.name).into(),
            },
            selector: decode_selector(wire.spec.selector.as_ref()),
            disruptions_allowed: wire.status.disruptions_allowed,
            disrupted_pods: disrupted_pods.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::Pod;

    fn pod(namespace: &str, name: &str, labels: Value) -> Pod {
        let pod = json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}});
        Pod::from_json(pod.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_budget_covers_the_pods_matching_its_selector() {
        let labels = json!({"app": "a"});
        for (what, selector, pod, expected) in [
            (
                "matched",
                json!({"matchLabels": {"app": "a"}}),
                pod("n", "p", labels.clone()),
                true,
            ),
            (
                "not matched",
                json!({"matchLabels": {"app": "b"}}),
                pod("n", "p", labels.clone()),
                false,
            ),
            (
                "other namespace",
                json!({"matchLabels": {"app": "a"}}),
                pod("m", "p", labels.clone()),
                false,
            ),
            (
                "already disrupted",
                json!({"matchLabels": {"app": "a"}}),
                pod("n", "gone", labels.clone()),
                false,
            ),
            (
                "an empty selector",
                json!({}),
                pod("n", "p", labels.clone()),
                false,
            ),
            ("no selector", Value::Null, pod("n", "p", labels), false),
            (
                "no labels",
                json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
                pod("n", "p", json!({})),
                false,
            ),
        ] {
            let budget = json!({
                "metadata": {"namespace": "n", "name": "b"},
                "spec": {"selector": selector, "minAvailable": "50%"},
                "status": {"disruptionsAllowed": 3, "disruptedPods": {"gone": "2026-01-01T00:00:00Z"}},
            });
            let budget = DisruptionBudget::from_json(budget.to_string().as_bytes()).unwrap();
            assert_eq!(budget.disruptions_allowed, 3);
            assert_eq!(budget.covers(&pod), expected, "{what}");
        }
    }
}
