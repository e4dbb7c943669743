//! The PodTopologyLabels plugin: copies the zone and the region of a node to the pods that are bound to it, so that
//! containers can read them through the downward API.

use async_trait::async_trait;
use rhumb_api::feature_gates::Feature;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::Status;
use serde_json::{Map, Value};

use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadataMut;

const COPIED_LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

#[derive(Debug)]
pub(super) struct PodTopologyLabelsPlugin;

#[async_trait]
impl AdmissionPlugin for PodTopologyLabelsPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation
            && attributes.operation == Operation::Create
            && attributes.is_resource_or_subresource("", "pods")
            && matches!(attributes.subresource(), "" | "binding")
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let gates = &attributes.context.registry.gates;
        let Some(object) = object.filter(|_| gates.enabled(Feature::PodTopologyLabelsAdmission))
        else {
            return Ok(());
        };
        // The registry copies the labels of a binding to the pod.
        let Some(node) = assigned_node(object, attributes.subresource()) else {
            return Ok(());
        };
        // A pod may name a node that does not exist: its labels are then unknown.
        let node = object_lookup::cached_cluster_object(attributes.context, "", "nodes", node)?;
        if let Some(node) = node {
            copy_labels(object, &node);
        }
        Ok(())
    }
}

fn assigned_node<'a>(object: &'a JsonObject, subresource: &str) -> Option<&'a str> {
    let is_binding = subresource == "binding";
    if is_binding && fields::get(object, "target.kind").and_then(Value::as_str) != Some("Node") {
        return None;
    }
    let path = if is_binding {
        "target.name"
    } else {
        "spec.nodeName"
    };
    fields::get(object, path)
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
}

fn copy_labels(object: &mut JsonObject, node: &JsonObject) {
    for label in COPIED_LABELS {
        let Some(value) = node
            .get("metadata")
            .and_then(|metadata| metadata.get("labels")?.get(label))
        else {
            continue;
        };
        object.edit_metadata(|metadata| {
            let labels = metadata.entry("labels").or_insert(Value::Null);
            if labels.is_null() {
                *labels = Value::Object(Map::new());
            }
            if let Value::Object(labels) = labels {
                labels.insert(label.to_owned(), value.clone());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_registry::testing::object;
    use serde_json::json;

    #[test]
    fn zone_and_region_replace_labels_of_the_object() {
        let node = object(json!({"metadata": {"labels": {
            "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "rack": "7",
        }}}));
        let mut pod = object(
            json!({"metadata": {"labels": {"app": "x", "topology.kubernetes.io/zone": "b"}}}),
        );
        copy_labels(&mut pod, &node);
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "x", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"})
        );
        let mut binding = object(json!({"metadata": {"name": "p"}}));
        copy_labels(&mut binding, &object(json!({"metadata": {"name": "n"}})));
        assert_eq!(binding["metadata"], json!({"name": "p"}));
    }

    #[test]
    fn only_bindings_to_nodes_are_considered() {
        let table = [
            (
                json!({"target": {"kind": "Node", "name": "n"}}),
                "binding",
                Some("n"),
            ),
            (json!({"target": {"name": "n"}}), "binding", None),
            (json!({"spec": {"nodeName": "n"}}), "", Some("n")),
            (json!({"spec": {"nodeName": ""}}), "", None),
            (json!({"spec": {}}), "", None),
        ];
        for (value, subresource, want) in table {
            assert_eq!(assigned_node(&object(value), subresource), want);
        }
    }
}
