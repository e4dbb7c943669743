//! The PersistentVolumeClaimResize plugin: a claim can grow only if its StorageClass allows volume expansion.

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::{Quantity, Status};
use serde_json::Value;

use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadata;

#[derive(Debug)]
pub(super) struct PersistentVolumeClaimResizePlugin;

#[async_trait]
impl AdmissionPlugin for PersistentVolumeClaimResizePlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.operation == Operation::Update
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let (Operation::Update, Some(old), Some(claim)) =
            (attributes.operation, attributes.old_object, object)
        else {
            return Ok(());
        };
        if !attributes.is_resource("", "persistentvolumeclaims") || size(claim) <= size(old) {
            return Ok(());
        }
        if fields::str(old, "status.phase") != "Bound" {
            let reason = "Only bound persistent volume claims can be expanded";
            return Err(attributes.forbidden(object, reason));
        }
        let class = match class_of(claim) {
            name if name.is_empty() || name != class_of(old) => None,
            name => object_lookup::cached_cluster_object(
                attributes.context,
                "storage.k8s.io",
                "storageclasses",
                name,
            )?,
        };
        let can_grow = class
            .is_some_and(|class| fields::get(&class, "allowVolumeExpansion") == Some(&true.into()));
        if can_grow {
            return Ok(());
        }
        Err(attributes.forbidden(
            object,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}

/// The requested storage; `None` compares as less than any size.
fn size(claim: &JsonObject) -> Option<Quantity> {
    let size = fields::get(claim, "spec.resources.requests.storage")?;
    Quantity::from_json(size).ok()
}

fn class_of(claim: &JsonObject) -> &str {
    claim
        .metadata()
        .and_then(|metadata| metadata.get("annotations"))
        .and_then(|annotations| annotations.get("volume.beta.kubernetes.io/storage-class"))
        .and_then(Value::as_str)
        .unwrap_or_else(|| fields::str(claim, "spec.storageClassName"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn sizes_are_compared_as_quantities() {
        let claim =
            |size: &str| object(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
        assert!(size(&claim("1Gi")) > size(&claim("1000Mi")));
        assert!(size(&claim("1Gi")) <= size(&claim("1024Mi")));
        assert!(size(&object(json!({}))) < size(&claim("1")));
    }

    #[test]
    fn the_annotation_comes_before_the_field() {
        let claim = object(json!({
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {"storageClassName": "new"},
        }));
        assert_eq!(class_of(&claim), "old");
    }
}
