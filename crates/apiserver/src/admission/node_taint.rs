//! A new node gets no pods before somebody has found it ready.

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::Status;
use serde_json::json;

use super::{Attributes, Operation, Plugin, Step};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[derive(Debug)]
pub(super) struct TaintNodesByCondition;

#[async_trait]
impl Plugin for TaintNodesByCondition {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Mutation && attributes.is_about("", "nodes")
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        if let Some(node) = object.filter(|_| is_create && attributes.is_about("", "nodes")) {
            taint(node);
        }
        Ok(())
    }
}

fn taint(node: &mut Object) {
    let mut taints = fields::items(node, "spec.taints").to_vec();
    let is_there = taints
        .iter()
        .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
    if !is_there {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        fields::set(node, "spec.taints", taints);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn a_new_node_is_not_ready() {
        let ours = json!({"key": NOT_READY, "effect": "NoSchedule"});
        let other = json!({"key": NOT_READY, "effect": "NoExecute"});
        let table = [
            (json!({}), json!([ours])),
            (json!({"spec": {"taints": [ours]}}), json!([ours])),
            (json!({"spec": {"taints": [other]}}), json!([other, ours])),
        ];
        for (node, want) in table {
            let mut node = object(node);
            taint(&mut node);
            assert_eq!(node["spec"]["taints"], want);
        }
    }
}
