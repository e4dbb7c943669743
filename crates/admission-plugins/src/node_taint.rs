//! The TaintNodesByCondition plugin: taints new nodes as not ready, so that no pods are scheduled before they are.

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::Status;
use serde_json::json;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[derive(Debug)]
pub(super) struct TaintNodesByConditionPlugin;

#[async_trait]
impl AdmissionPlugin for TaintNodesByConditionPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation && attributes.is_resource("", "nodes")
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        if let Some(node) = object.filter(|_| is_create && attributes.is_resource("", "nodes")) {
            taint(node);
        }
        Ok(())
    }
}

fn taint(node: &mut JsonObject) {
    let mut taints = fields::items(node, "spec.taints").to_vec();
    let has_taint = taints
        .iter()
        .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if !has_taint {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        fields::set(node, "spec.taints", taints);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn new_nodes_get_the_not_ready_taint() {
        let not_ready = json!({"key": NOT_READY, "effect": "NoSchedule"});
        let other = json!({"key": NOT_READY, "effect": "NoExecute"});
        let table = [
            (json!({}), json!([not_ready])),
            (json!({"spec": {"taints": [not_ready]}}), json!([not_ready])),
            (
                json!({"spec": {"taints": [other]}}),
                json!([other, not_ready]),
            ),
        ];
        for (node, want) in table {
            let mut node = object(node);
            taint(&mut node);
            assert_eq!(node["spec"]["taints"], want);
        }
    }
}
