//! What stores data is not removed while it is in use: a finalizer holds it.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::Status;

use super::{Attributes, Operation, Plugin, Step};
use crate::objects::{Metadata, MetadataMut};

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
pub(super) struct StorageProtection;

#[async_trait]
impl Plugin for StorageProtection {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Mutation && attributes.operation == Operation::Create
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let (Operation::Create, Some(object)) = (attributes.operation, object) else {
            return Ok(());
        };
        for (group, plural, finalizer) in FINALIZERS {
            if attributes.is_about(group, plural) {
                protect(object, finalizer);
            }
        }
        Ok(())
    }
}

fn protect(object: &mut Object, finalizer: &str) {
    let mut finalizers: Vec<String> = object.finalizers().into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|own| own == finalizer) {
        finalizers.push(finalizer.to_owned());
        object.set_finalizers(finalizers);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::object;

    #[test]
    fn the_finalizer_is_added_once() {
        let mut claim = object(json!({"metadata": {"name": "a", "finalizers": ["mine"]}}));
        protect(&mut claim, "kubernetes.io/pvc-protection");
        protect(&mut claim, "kubernetes.io/pvc-protection");
        assert_eq!(claim.finalizers(), ["mine", "kubernetes.io/pvc-protection"]);
    }
}
