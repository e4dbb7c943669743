//! The NamespaceLifecycle plugin: rejects creations in missing or terminating namespaces, and the deletion of built-in
//! namespaces.

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{GroupResource, Status};

use super::{
    AdmissionAttributes, AdmissionPass, AdmissionPlugin, GuardedObject, Operation, object_lookup,
};

/// Namespaces that cannot be deleted.
const IMMORTAL_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(super) struct NamespaceLifecyclePlugin;

#[async_trait]
impl AdmissionPlugin for NamespaceLifecyclePlugin {
    fn handles(&self, step: AdmissionPass, _attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let object = object.as_deref();
        if attributes.is_resource_or_subresource("", "namespaces") {
            return check_immortal(attributes);
        }
        // Access reviews may name namespaces that do not exist; the response must not reveal that.
        if attributes.operation == Operation::Delete
            || attributes
                .is_resource_or_subresource("authorization.k8s.io", "localsubjectaccessreviews")
        {
            return Ok(());
        }
        let Some(name) = attributes.context.namespace() else {
            return Ok(());
        };
        let namespace =
            object_lookup::find_cluster_object(attributes.context, "", "namespaces", name)
                .await?
                .ok_or_else(|| not_found(name))?;
        if attributes.operation == Operation::Create && is_terminating(&namespace) {
            return Err(terminating_error(attributes, object, name));
        }
        Ok(())
    }

    /// The namespace of a creation. If it starts terminating before the commit, its content is deleted once, and an
    /// object created later would stay forever.
    fn guarded_object(&self, attributes: &AdmissionAttributes<'_>) -> Option<GuardedObject> {
        if attributes.operation != Operation::Create {
            return None;
        }
        let namespace = attributes.context.namespace()?;
        Some(GuardedObject {
            group: "",
            plural: "namespaces",
            name: namespace.to_owned(),
        })
    }

    fn check_guarded_object(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &JsonObject,
        now: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let name = attributes.context.namespace().unwrap_or_default();
        match now {
            None => Err(not_found(name)),
            Some(namespace) if is_terminating(namespace) => {
                Err(terminating_error(attributes, Some(object), name))
            }
            Some(_) => Ok(()),
        }
    }
}

fn not_found(namespace: &str) -> Status {
    Status::not_found(&GroupResource::new("", "namespaces"), namespace)
}

fn is_terminating(namespace: &JsonObject) -> bool {
    fields::str(namespace, "status.phase") == "Terminating"
}

fn check_immortal(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    let name = attributes.name(None);
    if attributes.operation == Operation::Delete && IMMORTAL_NAMESPACES.contains(&name) {
        return Err(attributes.forbidden(None, "this namespace may not be deleted"));
    }
    Ok(())
}

fn terminating_error(
    attributes: &AdmissionAttributes<'_>,
    object: Option<&JsonObject>,
    namespace: &str,
) -> Status {
    let reason = format_args!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = attributes.forbidden(object, reason);
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: CauseType::NAMESPACE_TERMINATING,
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
