//! Nothing is created in a namespace that is not there or is going, and the first namespaces stay.

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{GroupResource, Status};

use super::{Attributes, Operation, Plugin, lookup};

/// Namespaces that no one may delete.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(super) struct NamespaceLifecycle;

#[async_trait]
impl Plugin for NamespaceLifecycle {
    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let object = object.as_deref();
        if attributes.is_below("", "namespaces") {
            return check_immortal(attributes);
        }
        // Access reviews ask about namespaces that may not be there; the answer must not tell.
        if attributes.operation == Operation::Delete
            || attributes.is_below("authorization.k8s.io", "localsubjectaccessreviews")
        {
            return Ok(());
        }
        let Some(name) = attributes.call.namespace() else {
            return Ok(());
        };
        let namespace = lookup::named_anywhere(attributes.call, "", "namespaces", name)
            .await?
            .ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), name))?;
        let is_going = fields::str(&namespace, "status.phase") == "Terminating";
        if attributes.operation == Operation::Create && is_going {
            return Err(terminating(attributes, object, name));
        }
        Ok(())
    }
}

fn check_immortal(attributes: &Attributes<'_>) -> Result<(), Status> {
    let name = attributes.name(None);
    if attributes.operation == Operation::Delete && IMMORTAL.contains(&name) {
        return Err(attributes.forbidden(None, "this namespace may not be deleted"));
    }
    Ok(())
}

fn terminating(attributes: &Attributes<'_>, object: Option<&Object>, namespace: &str) -> Status {
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
