//! Nothing is created in a namespace that is not there or is going, and the first namespaces stay.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::{GroupResource, ObjectKey, Status};
use serde_json::Value;

use super::{Attributes, Operation, Plugin};
use crate::objects::Metadata;

/// Namespaces that no one may delete.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(super) struct NamespaceLifecycle;

#[async_trait]
impl Plugin for NamespaceLifecycle {
    async fn mutate(&self, attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
        if attributes.operation != Operation::Create {
            return Ok(());
        }
        let call = attributes.call;
        let Some(namespace) = call.namespace() else {
            return Ok(());
        };
        // Access reviews ask about namespaces that may not be there yet.
        if call.resource.storage.is_none() {
            return Ok(());
        }
        let name = match call.name() {
            "" => object.name(),
            name => name,
        };
        check_namespace(attributes, namespace, name)
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        let call = attributes.call;
        let is_namespace =
            call.resource.kind.group.is_empty() && call.resource.kind.plural == "namespaces";
        if attributes.operation == Operation::Delete
            && is_namespace
            && IMMORTAL.contains(&call.name())
        {
            return Err(Status::forbidden(
                &call.resource.group_resource,
                call.name(),
                "this namespace may not be deleted",
            ));
        }
        Ok(())
    }
}

fn check_namespace(attributes: &Attributes<'_>, namespace: &str, name: &str) -> Result<(), Status> {
    let call = attributes.call;
    let missing = || Status::not_found(&GroupResource::new("", "namespaces"), namespace);
    let key = ObjectKey::cluster(namespace).map_err(|_| missing())?;
    let namespaces = call
        .api
        .registry
        .find("", "namespaces")
        .and_then(|resource| resource.storage.as_ref())
        .ok_or_else(missing)?;
    let snapshot = namespaces.cache.snapshot();
    let entry = snapshot
        .get(&key)
        .map_err(Status::internal_error)?
        .ok_or_else(missing)?;
    let object: Value =
        serde_json::from_slice(entry.json_slice()).map_err(Status::internal_error)?;
    if object["status"]["phase"] == "Terminating"
        || object["metadata"].get("deletionTimestamp").is_some()
    {
        return Err(terminating(name, namespace, &call.resource.group_resource));
    }
    Ok(())
}

fn terminating(name: &str, namespace: &str, resource: &GroupResource) -> Status {
    let mut status = Status::forbidden(
        resource,
        name,
        format_args!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        ),
    );
    if let Some(details) = &mut status.details {
        details.causes.push(rhumb_meta::status::StatusCause {
            reason: rhumb_meta::status::CauseType::NAMESPACE_TERMINATING,
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
