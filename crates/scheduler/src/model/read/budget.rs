//! Budgets from JSON.

use std::collections::BTreeMap;

use rhumb_api::partial::{Text, or_default};
use rhumb_meta::labels::LabelSelector;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::parts::{Metadata, selector};
use crate::model::{Budget, PodKey};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    selector: Option<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(deserialize_with = "or_default")]
    disruptions_allowed: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    disrupted_pods: BTreeMap<Text<'a>, IgnoredAny>,
}

impl Budget {
    /// Reads a PodDisruptionBudget from its JSON.
    pub fn from_json(json: &[u8]) -> Result<Budget, serde_json::Error> {
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        let disrupted = wire.status.disrupted_pods.keys();
        let mut disrupted_pods: Vec<Box<str>> = disrupted.map(|name| (**name).into()).collect();
        disrupted_pods.sort();
        Ok(Budget {
            key: PodKey {
                namespace: (*wire.metadata.namespace).into(),
                name: (*wire.metadata.name).into(),
            },
            selector: selector(wire.spec.selector.as_ref()),
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
    fn a_budget_covers_those_whom_its_selector_picks() {
        let labels = json!({"app": "a"});
        for (what, selector, pod, expected) in [
            (
                "picked",
                json!({"matchLabels": {"app": "a"}}),
                pod("n", "p", labels.clone()),
                true,
            ),
            (
                "not picked",
                json!({"matchLabels": {"app": "b"}}),
                pod("n", "p", labels.clone()),
                false,
            ),
            (
                "elsewhere",
                json!({"matchLabels": {"app": "a"}}),
                pod("m", "p", labels.clone()),
                false,
            ),
            (
                "let go already",
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
            let budget = Budget::from_json(budget.to_string().as_bytes()).unwrap();
            assert_eq!(budget.disruptions_allowed, 3);
            assert_eq!(budget.covers(&pod), expected, "{what}");
        }
    }
}
