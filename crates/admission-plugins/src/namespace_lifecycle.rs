//! The NamespaceLifecycle plugin: rejects creations in missing or terminating namespaces, and the deletion of built-in
//! namespaces.

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{GroupResource, Status};

use super::object_lookup;
use rhumb_registry::RequestContext;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::write::{AcquiredGuard, CommitGuard, EncodedObject};
use tokio::time::Instant;

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
            return Err(terminating_error(
                attributes.context,
                attributes.name(object),
                name,
            ));
        }
        Ok(())
    }

    fn guard(
        &self,
        attributes: &AdmissionAttributes<'_>,
        _object: &JsonObject,
    ) -> Option<Box<dyn CommitGuard>> {
        let is_guarded =
            attributes.operation == Operation::Create && attributes.context.namespace().is_some();
        is_guarded.then(|| Box::new(ActiveNamespaceCommitGuard) as Box<dyn CommitGuard>)
    }
}

/// The namespace of a creation is active. If it starts terminating before the commit, its content is deleted once, and an
/// object created later would stay forever.
#[derive(Debug)]
struct ActiveNamespaceCommitGuard;

#[async_trait]
impl CommitGuard for ActiveNamespaceCommitGuard {
    async fn acquire(
        &self,
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
        _deadline: Instant,
    ) -> Result<AcquiredGuard, Status> {
        let name = context.namespace().unwrap_or_default();
        let current = object_lookup::with_precondition(context, "", "namespaces", name).await?;
        let (namespace, precondition) = current.ok_or_else(|| not_found(name))?;
        if is_terminating(&namespace) {
            return Err(terminating_error(context, object.key.name(), name));
        }
        Ok(AcquiredGuard {
            precondition: Some(precondition),
            reservation: None,
        })
    }

    async fn check(
        &self,
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
    ) -> Result<(), Status> {
        let now = Instant::now();
        self.acquire(context, object, now).await.map(|_| ())
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

fn terminating_error(context: &RequestContext<'_>, object: &str, namespace: &str) -> Status {
    let reason = format_args!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let mut status = Status::forbidden(&context.resource.group_resource, object, reason);
    if let Some(details) = &mut status.details {
        details.causes.push(StatusCause {
            reason: CauseType::NAMESPACE_TERMINATING,
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
