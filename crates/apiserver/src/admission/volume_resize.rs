//! A claim grows only where its class says that volumes can grow.

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::{Quantity, Status};
use serde_json::Value;

use super::{Attributes, Operation, Plugin, Step, lookup};
use crate::objects::Metadata;

#[derive(Debug)]
pub(super) struct VolumeResize;

#[async_trait]
impl Plugin for VolumeResize {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && attributes.operation == Operation::Update
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let (Operation::Update, Some(old), Some(claim)) =
            (attributes.operation, attributes.old, object)
        else {
            return Ok(());
        };
        if !attributes.is_about("", "persistentvolumeclaims") || size(claim) <= size(old) {
            return Ok(());
        }
        if fields::str(old, "status.phase") != "Bound" {
            let reason = "Only bound persistent volume claims can be expanded";
            return Err(attributes.forbidden(object, reason));
        }
        let class = match class_of(claim) {
            name if name.is_empty() || name != class_of(old) => None,
            name => lookup::named(attributes.call, "storage.k8s.io", "storageclasses", name)?,
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

/// What the claim asks for; nothing is less than anything.
fn size(claim: &Object) -> Option<Quantity> {
    let size = fields::get(claim, "spec.resources.requests.storage")?;
    Quantity::from_json(size).ok()
}

fn class_of(claim: &Object) -> &str {
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
    use crate::testing::object;

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
