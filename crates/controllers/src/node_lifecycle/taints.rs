//! Computes the taints of a node from its conditions.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::partial_objects::{Node, NodeReadiness};

pub(super) const NO_SCHEDULE: &str = "NoSchedule";
pub(super) const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, status, and the key of the corresponding NoSchedule taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Whether NoExecute taints may be added to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoExecuteTaintMode {
    /// Remove them: no node is ready, so the fault is probably this process's connection.
    Never,
    /// Add none, but keep an existing one, updating its key.
    NotYet,
    Now,
}

/// Key of the NoExecute taint for this readiness.
pub(super) fn eviction_taint_key(ready: NodeReadiness) -> Option<&'static str> {
    match ready {
        NodeReadiness::False => Some(NOT_READY),
        NodeReadiness::Unknown => Some(UNREACHABLE),
        NodeReadiness::True | NodeReadiness::Missing => None,
    }
}

/// Whether the node has a `not-ready` or `unreachable` NoExecute taint, even if it no longer matches the condition.
pub(super) fn is_evicting(node: &Node) -> bool {
    [NOT_READY, UNREACHABLE]
        .iter()
        .any(|key| node.has_taint(key, NO_EXECUTE))
}

/// The node's desired taints; `None` if it has them already. Taints that others manage are kept.
pub(super) fn desired_taints(
    node: &Node,
    eviction: NoExecuteTaintMode,
    now: &Time,
) -> Option<Vec<Taint>> {
    let wanted = desired_taint_keys(node, eviction);
    let is_wanted = |taint: &Taint| {
        let mut wanted = wanted.iter();
        wanted.any(|&(key, effect)| taint.key == key && taint.effect == effect)
    };
    let mut taints = node.spec.taints.clone();
    taints.retain(|taint| !is_ours(taint, node.ready()) || is_wanted(taint));
    for &(key, effect) in &wanted {
        if !node.has_taint(key, effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(now.clone()),
                value: None,
            });
        }
    }
    (taints != node.spec.taints).then_some(taints)
}

fn desired_taint_keys(
    node: &Node,
    eviction: NoExecuteTaintMode,
) -> Vec<(&'static str, &'static str)> {
    let mut keys = Vec::new();
    for (condition, status, key) in BY_CONDITION {
        if node
            .condition(condition)
            .is_some_and(|own| own.status == status)
        {
            keys.push((key, NO_SCHEDULE));
        }
    }
    if node.spec.unschedulable {
        keys.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    // A change between not-ready and unreachable must not stop the eviction.
    let is_evicted = match eviction {
        NoExecuteTaintMode::Never => false,
        NoExecuteTaintMode::NotYet => is_evicting(node),
        NoExecuteTaintMode::Now => true,
    };
    if let Some(key) = eviction_taint_key(node.ready())
        && is_evicted
    {
        keys.push((key, NO_EXECUTE));
    }
    keys
}

/// Whether this controller adds and removes the taint.
fn is_ours(taint: &Taint, ready: NodeReadiness) -> bool {
    let is_of_condition = BY_CONDITION.iter().any(|(_, _, key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => is_of_condition || taint.key == UNSCHEDULABLE,
        NO_EXECUTE => {
            ready != NodeReadiness::Missing
                && [NOT_READY, UNREACHABLE].contains(&taint.key.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// `taints` and `expect` are `key:effect`, with `~` for `node.kubernetes.io/`; `conditions` are `type=status` or
    /// `cordoned`. `None`: the taints do not change.
    fn check(
        taints: &[&str],
        conditions: &[&str],
        eviction: NoExecuteTaintMode,
        expect: Option<&[&str]>,
    ) {
        let prefix = |text: &str| match text.strip_prefix('~') {
            Some(short) => format!("node.kubernetes.io/{short}"),
            None => text.to_owned(),
        };
        let taint = |text: &&str| -> Value {
            let (key, effect) = text.split_once(':').unwrap();
            json!({"key": prefix(key), "effect": effect})
        };
        let condition = |text: &&str| -> Option<Value> {
            let (type_, status) = text.split_once('=')?;
            Some(json!({"type": type_, "status": status}))
        };
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "spec": {
                "taints": taints.iter().map(taint).collect::<Vec<_>>(),
                "unschedulable": conditions.contains(&"cordoned"),
            },
            "status": {"conditions": conditions.iter().filter_map(condition).collect::<Vec<_>>()},
        }))
        .unwrap();
        let now = Time("2030-01-02T00:00:00Z".parse().unwrap());
        let found = desired_taints(&node, eviction, &now).map(|taints| {
            let text = |taint: &Taint| format!("{}:{}", taint.key, taint.effect);
            taints.iter().map(text).collect::<Vec<_>>()
        });
        let expect = expect.map(|taints| taints.iter().map(|text| prefix(text)).collect());
        assert_eq!(found, expect, "{taints:?} {conditions:?} {eviction:?}");
    }

    #[test]
    fn condition_taints_are_set_and_foreign_taints_kept() {
        use NoExecuteTaintMode::{Never, NotYet, Now};
        check(&[], &["Ready=True"], Now, None);
        check(&["mine:NoExecute"], &["Ready=True"], Now, None);
        check(&["~not-ready:NoSchedule"], &[], NotYet, Some(&[]));
        check(
            &["mine:NoSchedule"],
            &["Ready=True", "MemoryPressure=True", "cordoned"],
            NotYet,
            Some(&[
                "mine:NoSchedule",
                "~memory-pressure:NoSchedule",
                "~unschedulable:NoSchedule",
            ]),
        );
        check(
            &[],
            &[
                "DiskPressure=True",
                "PIDPressure=True",
                "NetworkUnavailable=True",
            ],
            NotYet,
            Some(&[
                "~disk-pressure:NoSchedule",
                "~network-unavailable:NoSchedule",
                "~pid-pressure:NoSchedule",
            ]),
        );
        check(
            &[],
            &["Ready=Unknown"],
            NotYet,
            Some(&["~unreachable:NoSchedule"]),
        );
        check(
            &["~unreachable:NoSchedule"],
            &["Ready=Unknown"],
            Now,
            Some(&["~unreachable:NoSchedule", "~unreachable:NoExecute"]),
        );
        check(
            &["~not-ready:NoSchedule", "~not-ready:NoExecute"],
            &["Ready=Unknown"],
            NotYet,
            Some(&["~unreachable:NoSchedule", "~unreachable:NoExecute"]),
        );
        check(
            &["~unreachable:NoSchedule", "~unreachable:NoExecute"],
            &["Ready=Unknown"],
            Never,
            Some(&["~unreachable:NoSchedule"]),
        );
        check(
            &[
                "~unreachable:NoSchedule",
                "~unreachable:NoExecute",
                "mine:NoExecute",
            ],
            &["Ready=True"],
            NotYet,
            Some(&["mine:NoExecute"]),
        );
        check(&["~unreachable:NoExecute"], &[], NotYet, None);
        check(
            &["~memory-pressure:NoExecute"],
            &["Ready=True"],
            NotYet,
            None,
        );
    }
}
