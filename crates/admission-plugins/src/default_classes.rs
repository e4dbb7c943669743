//! The plugins DefaultStorageClass and DefaultIngressClass: set the default class of claims and ingresses without one.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::{Status, Timestamp};
use serde_json::Value;

use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadata;

/// Sets the default class of one resource; instantiated for claims and ingresses.
#[derive(Debug)]
pub(super) struct DefaultClassPlugin {
    resource: (&'static str, &'static str),
    class_resource: (&'static str, &'static str),
    /// Annotations that mark a class as the default.
    default_annotations: &'static [&'static str],
    class_field: &'static str,
    /// The annotation by which older clients name a class.
    legacy_annotation: &'static str,
}

pub(super) const DEFAULT_STORAGE_CLASS: DefaultClassPlugin = DefaultClassPlugin {
    resource: ("", "persistentvolumeclaims"),
    class_resource: ("storage.k8s.io", "storageclasses"),
    default_annotations: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
    class_field: "spec.storageClassName",
    legacy_annotation: "volume.beta.kubernetes.io/storage-class",
};

pub(super) const DEFAULT_INGRESS_CLASS: DefaultClassPlugin = DefaultClassPlugin {
    resource: ("networking.k8s.io", "ingresses"),
    class_resource: ("networking.k8s.io", "ingressclasses"),
    default_annotations: &["ingressclass.kubernetes.io/is-default-class"],
    class_field: "spec.ingressClassName",
    legacy_annotation: "kubernetes.io/ingress.class",
};

#[async_trait]
impl AdmissionPlugin for DefaultClassPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation && attributes.is_resource(self.resource.0, self.resource.1)
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        let is_handled = is_create && attributes.is_resource(self.resource.0, self.resource.1);
        let Some(object) = object.filter(|object| is_handled && !self.has_class(object)) else {
            return Ok(());
        };
        let classes = object_lookup::list_cached(
            attributes.context,
            self.class_resource.0,
            self.class_resource.1,
        )?;
        if let Some(class) = self.default_of(&classes) {
            fields::set(object, self.class_field, class.name());
        }
        Ok(())
    }
}

impl DefaultClassPlugin {
    /// An empty class counts as a class: the client wants none.
    fn has_class(&self, object: &JsonObject) -> bool {
        fields::get(object, self.class_field).is_some()
            || annotation(object, self.legacy_annotation).is_some()
    }

    /// The newest class that is marked as default.
    fn default_of<'a>(&self, classes: &'a [Arc<JsonObject>]) -> Option<&'a JsonObject> {
        let is_marked = |class: &&JsonObject| {
            let mut annotations = self.default_annotations.iter();
            annotations.any(|key| annotation(class, key) == Some("true"))
        };
        let classes = classes.iter().map(|class| &**class);
        classes.filter(is_marked).min_by_key(|class| {
            let created: Option<Timestamp> = class.meta_str("creationTimestamp").parse().ok();
            (Reverse(created), class.name())
        })
    }
}

fn annotation<'a>(object: &'a JsonObject, name: &str) -> Option<&'a str> {
    object
        .metadata()?
        .get("annotations")?
        .get(name)
        .and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn a_named_class_is_kept() {
        let table = [
            (json!({"spec": {}}), false),
            (json!({"spec": {"storageClassName": ""}}), true),
            (json!({"spec": {"storageClassName": "fast"}}), true),
            (
                json!({"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}}),
                true,
            ),
        ];
        for (claim, want) in table {
            assert_eq!(
                DEFAULT_STORAGE_CLASS.has_class(&object(claim.clone())),
                want,
                "{claim}"
            );
        }
    }

    #[test]
    fn the_newest_default_class_wins() {
        let class = |name: &str, created: &str, is_default: &str| {
            Arc::new(object(json!({"metadata": {
                "name": name,
                "creationTimestamp": created,
                "annotations": {"storageclass.kubernetes.io/is-default-class": is_default},
            }})))
        };
        let classes = [
            class("old", "2020-01-01T00:00:00Z", "true"),
            class("b", "2021-01-01T00:00:00Z", "true"),
            class("a", "2021-01-01T00:00:00Z", "true"),
            class("newer", "2022-01-01T00:00:00Z", "false"),
        ];
        let name = |classes: &[Arc<JsonObject>]| {
            DEFAULT_STORAGE_CLASS
                .default_of(classes)
                .map(|class| class.name().to_owned())
        };
        assert_eq!(name(&classes).as_deref(), Some("a"));
        assert_eq!(name(&classes[3..]), None);
    }
}
