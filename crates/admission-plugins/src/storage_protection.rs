//! The StorageObjectInUseProtection plugin: adds a finalizer to volumes, claims and volume attributes classes, so that
//! they are not removed while in use.

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_meta::Status;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::{ObjectMetadata, ObjectMetadataMut};

const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
    ),
];

#[derive(Debug)]
pub(super) struct StorageObjectInUseProtectionPlugin;

#[async_trait]
impl AdmissionPlugin for StorageObjectInUseProtectionPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation && attributes.operation == Operation::Create
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let (Operation::Create, Some(object)) = (attributes.operation, object) else {
            return Ok(());
        };
        for (group, plural, finalizer) in FINALIZERS {
            if attributes.is_resource(group, plural) {
                protect(object, finalizer);
            }
        }
        Ok(())
    }
}

fn protect(object: &mut JsonObject, finalizer: &str) {
    let mut finalizers: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|existing| existing == finalizer) {
        finalizers.push(finalizer.to_owned());
        object.set_finalizers(finalizers);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn the_finalizer_is_added_once() {
        let mut claim = object(json!({"metadata": {"name": "a", "finalizers": ["mine"]}}));
        protect(&mut claim, "kubernetes.io/pvc-protection");
        protect(&mut claim, "kubernetes.io/pvc-protection");
        assert_eq!(claim.finalizers(), ["mine", "kubernetes.io/pvc-protection"]);
    }
}
