//! Nothing is created in a namespace that is not there or is going, and the first namespaces stay.

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{GroupResource, Status};

use super::{Attributes, On, Operation, Plugin, Step, lookup};

/// Namespaces that no one may delete.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

#[derive(Debug)]
pub(super) struct NamespaceLifecycle;

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn takes_part(&self, step: Step, _attributes: &Attributes<'_>) -> bool {
        step == Step::Mutation
    }

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
            .ok_or_else(|| not_found(name))?;
        if attributes.operation == Operation::Create && is_going(&namespace) {
            return Err(terminating(attributes, object, name));
        }
        Ok(())
    }

    /// The namespace that it is let into: one that begins to end meanwhile is emptied once, and what came later
    /// would stay for ever.
    fn rests_on(&self, attributes: &Attributes<'_>) -> Option<On> {
        if attributes.operation != Operation::Create {
            return None;
        }
        let namespace = attributes.call.namespace()?;
        Some(On {
            group: "",
            plural: "namespaces",
            name: namespace.to_owned(),
        })
    }

    fn still_admits(
        &self,
        attributes: &Attributes<'_>,
        object: &Object,
        now: Option<&Object>,
    ) -> Result<(), Status> {
        let name = attributes.call.namespace().unwrap_or_default();
        match now {
            None => Err(not_found(name)),
            Some(namespace) if is_going(namespace) => {
                Err(terminating(attributes, Some(object), name))
            }
            Some(_) => Ok(()),
        }
    }
}

fn not_found(namespace: &str) -> Status {
    Status::not_found(&GroupResource::new("", "namespaces"), namespace)
}

fn is_going(namespace: &Object) -> bool {
    fields::str(namespace, "status.phase") == "Terminating"
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
