//! Claims and ingresses without a class get the default one.

use std::cmp::Reverse;
use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::{Status, Timestamp};
use serde_json::Value;

use super::{Attributes, Operation, Plugin, Step, lookup};
use crate::objects::Metadata;

/// One kind of objects, and the classes that they may have.
#[derive(Debug)]
pub(super) struct DefaultClass {
    of: (&'static str, &'static str),
    classes: (&'static str, &'static str),
    /// Annotations of a class that make it the default.
    marks: &'static [&'static str],
    field: &'static str,
    /// The annotation by which old clients name a class.
    annotation: &'static str,
}

pub(super) const STORAGE: DefaultClass = DefaultClass {
    of: ("", "persistentvolumeclaims"),
    classes: ("storage.k8s.io", "storageclasses"),
    marks: &[
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ],
    field: "spec.storageClassName",
    annotation: "volume.beta.kubernetes.io/storage-class",
};

pub(super) const INGRESS: DefaultClass = DefaultClass {
    of: ("networking.k8s.io", "ingresses"),
    classes: ("networking.k8s.io", "ingressclasses"),
    marks: &["ingressclass.kubernetes.io/is-default-class"],
    field: "spec.ingressClassName",
    annotation: "kubernetes.io/ingress.class",
};

#[async_trait]
impl Plugin for DefaultClass {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Mutation && attributes.is_about(self.of.0, self.of.1)
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        let is_ours = is_create && attributes.is_about(self.of.0, self.of.1);
        let Some(object) = object.filter(|object| is_ours && !self.has_class(object)) else {
            return Ok(());
        };
        let classes = lookup::all(attributes.call, self.classes.0, self.classes.1)?;
        if let Some(class) = self.default_of(&classes) {
            fields::set(object, self.field, class.name());
        }
        Ok(())
    }
}

impl DefaultClass {
    /// An empty class is a class too: the client wants none.
    fn has_class(&self, object: &Object) -> bool {
        fields::get(object, self.field).is_some() || annotation(object, self.annotation).is_some()
    }

    /// The newest one that is marked.
    fn default_of<'a>(&self, classes: &'a [Arc<Object>]) -> Option<&'a Object> {
        let is_marked = |class: &&Object| {
            let mut marks = self.marks.iter();
            marks.any(|mark| annotation(class, mark) == Some("true"))
        };
        let classes = classes.iter().map(|class| &**class);
        classes.filter(is_marked).min_by_key(|class| {
            let created: Option<Timestamp> = class.meta_str("creationTimestamp").parse().ok();
            (Reverse(created), class.name())
        })
    }
}

fn annotation<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
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
    use crate::testing::object;

    #[test]
    fn whoever_names_a_class_keeps_it() {
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
            assert_eq!(STORAGE.has_class(&object(claim.clone())), want, "{claim}");
        }
    }

    #[test]
    fn the_newest_default_counts() {
        let class = |name: &str, created: &str, mark: &str| {
            Arc::new(object(json!({"metadata": {
                "name": name,
                "creationTimestamp": created,
                "annotations": {"storageclass.kubernetes.io/is-default-class": mark},
            }})))
        };
        let classes = [
            class("old", "2020-01-01T00:00:00Z", "true"),
            class("b", "2021-01-01T00:00:00Z", "true"),
            class("a", "2021-01-01T00:00:00Z", "true"),
            class("newer", "2022-01-01T00:00:00Z", "false"),
        ];
        let name = |classes: &[Arc<Object>]| {
            STORAGE
                .default_of(classes)
                .map(|class| class.name().to_owned())
        };
        assert_eq!(name(&classes).as_deref(), Some("a"));
        assert_eq!(name(&classes[3..]), None);
    }
}
