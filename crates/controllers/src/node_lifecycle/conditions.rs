//! Conditions that are set to `Unknown` when a node stops sending heartbeats, with upstream's texts.

use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::partial_objects::{Node, NodeReadiness};

/// Conditions that only the kubelet reports; `NetworkUnavailable` is set by others.
const KUBELET_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The conditions of a node without heartbeats; `None` if `Ready` is `Unknown` already.
pub(super) fn unknown_conditions(node: &Node, now: &Time) -> Option<Vec<NodeCondition>> {
    if node.ready() == NodeReadiness::Unknown {
        return None;
    }
    let mut conditions = node.status.conditions.clone();
    for type_ in KUBELET_CONDITIONS {
        let known = conditions.iter_mut().find(|own| own.type_ == type_);
        match known {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                condition.status = "Unknown".to_owned();
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(now.clone());
            }
            None => conditions.push(NodeCondition {
                type_: type_.to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(now.clone()),
            }),
        }
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// `expect`: type, status and reason of each resulting condition.
    fn check(conditions: Value, expect: Option<&[(&str, &str, &str)]>) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "status": {"conditions": conditions},
        }))
        .unwrap();
        let now = Time("2030-01-02T00:00:00Z".parse().unwrap());
        let lost = unknown_conditions(&node, &now);
        let found: Option<Vec<_>> = lost.as_ref().map(|conditions| {
            let each = conditions.iter().map(|condition| {
                (
                    condition.type_.as_str(),
                    condition.status.as_str(),
                    condition.reason.as_deref().unwrap_or_default(),
                )
            });
            each.collect()
        });
        assert_eq!(found.as_deref(), expect);
    }

    #[test]
    fn conditions_of_a_silent_node_become_unknown() {
        check(
            json!([]),
            Some(&[
                ("Ready", "Unknown", "NodeStatusNeverUpdated"),
                ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"),
                ("DiskPressure", "Unknown", "NodeStatusNeverUpdated"),
                ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
            ]),
        );
        check(
            json!([
                {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"},
                {"type": "MemoryPressure", "status": "Unknown", "reason": "Mine"},
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            ]),
            Some(&[
                ("NetworkUnavailable", "False", "RouteCreated"),
                ("MemoryPressure", "Unknown", "Mine"),
                ("Ready", "Unknown", "NodeStatusUnknown"),
                ("DiskPressure", "Unknown", "NodeStatusNeverUpdated"),
                ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
            ]),
        );
        check(json!([{"type": "Ready", "status": "Unknown"}]), None);
    }
}
