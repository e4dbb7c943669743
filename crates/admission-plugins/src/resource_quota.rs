//! The ResourceQuota plugin: reserves quota for a write, or rejects it. Enforcement is in [`rhumb_quota_enforcement`].

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_quota::{Evaluator, LimitedResource, ObjectUsage};
use tokio::time::Instant;

use super::server_services::AttachedServices;
use super::webhooks::PluginDependencies;
use rhumb_quota_enforcement::{CountedObject, QuotaEnforcer, QuotaRequest, ReservationError};
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::write::{AcquiredGuard, CommitGuard, EncodedObject, Reservation};
use rhumb_registry::{RequestContext, RequestOrigin, ResourceTable};

/// Runs last, so that only otherwise admitted requests reserve quota.
#[derive(Debug)]
pub(super) struct ResourceQuotaPlugin {
    limited: Arc<[LimitedResource]>,
    services: AttachedServices,
}

impl ResourceQuotaPlugin {
    pub(super) fn new(dependencies: &PluginDependencies) -> ResourceQuotaPlugin {
        ResourceQuotaPlugin {
            limited: Arc::clone(&dependencies.limited_resources),
            services: dependencies.services.clone(),
        }
    }
}

/// Warns about limited resources that no quota can count: likely a typo, but possibly a resource that is added later.
pub(super) fn warn_uncounted_limits(limited: &[LimitedResource], registry: &ResourceTable) {
    for LimitedResource {
        group, resource, ..
    } in limited
    {
        let served = registry.find(group, resource);
        if served.is_none_or(|served| served.quota_evaluator.is_none()) {
            tracing::warn!(
                group,
                resource,
                "limited resource is not countable by quotas (not served, or not namespaced); it has no effect"
            );
        }
    }
}

/// The quota evaluator for the request's resource. Status updates are not counted: they report what was already
/// granted.
fn evaluator<'a>(attributes: &AdmissionAttributes<'a>) -> Option<&'a Evaluator> {
    let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
    let quota_evaluator = attributes.context.resource.quota_evaluator.as_ref();
    quota_evaluator.filter(|_| writes && attributes.subresource() != "status")
}

#[async_trait]
impl AdmissionPlugin for ResourceQuotaPlugin {
    fn handles(&self, _step: AdmissionPass, _attributes: &AdmissionAttributes<'_>) -> bool {
        false
    }

    fn guard(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &JsonObject,
    ) -> Option<Box<dyn CommitGuard>> {
        let evaluator = evaluator(attributes)?;
        let context = attributes.context;
        // What the server needs to start and to work is not limited.
        if context.origin == RequestOrigin::Server {
            return None;
        }
        let namespace = context.namespace()?;
        let subresource = attributes.subresource();
        let old_usage = match attributes.old_object {
            Some(old) if evaluator.handles_update(subresource, old, object) => {
                Some(evaluator.usage(old))
            }
            None if subresource.is_empty() => None,
            _ => return None,
        };
        // Most namespaces have no quotas, so the usage of a new object is computed only where one may count it.
        let enforcer = Arc::clone(&self.services.get().ok()?.quota_enforcer);
        let is_counted =
            old_usage.is_some() || enforcer.may_limit(context, namespace, &self.limited);
        Some(Box::new(QuotaGuard {
            enforcer,
            limited: Arc::clone(&self.limited),
            counted: is_counted.then(|| CountedObject::new(evaluator, object)),
            old_usage,
        }))
    }
}

/// The write fits into the quotas of its namespace.
#[derive(Debug)]
struct QuotaGuard {
    enforcer: Arc<QuotaEnforcer>,
    limited: Arc<[LimitedResource]>,
    /// What quotas count of the object; absent if there was no quota when it was encoded.
    counted: Option<CountedObject>,
    /// Usage of the object before an update.
    old_usage: Option<ObjectUsage>,
}

impl QuotaGuard {
    fn request<'a>(
        &'a self,
        context: &'a RequestContext<'a>,
        object: &'a EncodedObject<'a>,
    ) -> Option<QuotaRequest<'a>> {
        Some(QuotaRequest {
            context,
            namespace: context.namespace()?,
            evaluator: context.resource.quota_evaluator.as_ref()?,
            object,
            counted: self.counted.as_ref(),
            old_usage: self.old_usage.as_ref(),
            limited_resources: &self.limited,
        })
    }
}

#[async_trait]
impl CommitGuard for QuotaGuard {
    async fn acquire(
        &self,
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
        deadline: Instant,
    ) -> Result<AcquiredGuard, Status> {
        let Some(request) = self.request(context, object) else {
            return Ok(AcquiredGuard::default());
        };
        let grant = self.enforcer.reserve(&request, deadline).await;
        let grant = grant.map_err(|error| denial_status(&request, error))?;
        let reservation = grant
            .reservation
            .map(|reservation| Box::new(reservation) as Box<dyn Reservation>);
        Ok(AcquiredGuard {
            precondition: grant.precondition,
            reservation,
        })
    }

    async fn check(
        &self,
        context: &RequestContext<'_>,
        object: &EncodedObject<'_>,
    ) -> Result<(), Status> {
        let Some(request) = self.request(context, object) else {
            return Ok(());
        };
        let checked = self.enforcer.check_dry_run(&request).await;
        checked.map_err(|error| denial_status(&request, error))
    }
}

fn denial_status(request: &QuotaRequest<'_>, error: ReservationError) -> Status {
    let resource = &request.context.resource.group_resource;
    match error {
        ReservationError::Denied(denial) => {
            Status::forbidden(resource, request.object.key.name(), denial)
        }
        ReservationError::Failed(status) => status,
    }
}
