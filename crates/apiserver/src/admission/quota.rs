//! The ResourceQuota plugin: reserves quota for a write, or rejects it. Enforcement is in [`crate::quota`].

use std::sync::Arc;

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_quota::{Evaluator, LimitedResource};

use super::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use crate::quota::{QuotaGrant, QuotaRequest, ReservationError};
use crate::resources::ResourceRegistry;

/// Runs last, so that only otherwise admitted requests reserve quota.
#[derive(Debug)]
pub(super) struct ResourceQuotaPlugin {
    limited: Arc<[LimitedResource]>,
}

impl ResourceQuotaPlugin {
    pub(super) fn new(limited: Arc<[LimitedResource]>) -> ResourceQuotaPlugin {
        ResourceQuotaPlugin { limited }
    }

    fn quota_request<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'_>,
        object: &'a JsonObject,
    ) -> Option<QuotaRequest<'a>> {
        let evaluator = evaluator(attributes)?;
        let old = attributes.old_object;
        let subresource = attributes.subresource();
        let is_counted = match old {
            Some(old) => evaluator.handles_update(subresource, old, object),
            None => subresource.is_empty(),
        };
        is_counted.then_some(QuotaRequest {
            context: attributes.context,
            namespace: attributes.context.namespace()?,
            evaluator,
            object,
            old,
            limited_resources: &self.limited,
            started: attributes.started_at,
        })
    }
}

/// Warns about limited resources that no quota can count: likely a typo, but possibly a resource that is added later.
pub(super) fn warn_uncounted_limits(limited: &[LimitedResource], registry: &ResourceRegistry) {
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

fn denial_status(
    attributes: &AdmissionAttributes<'_>,
    object: &JsonObject,
    error: ReservationError,
) -> Status {
    match error {
        ReservationError::Denied(denial) => attributes.forbidden(Some(object), denial),
        ReservationError::Failed(status) => status,
    }
}

#[async_trait]
impl AdmissionPlugin for ResourceQuotaPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && attributes.dry_run
    }

    /// A dry run reserves nothing; it only checks whether the quota suffices.
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let (true, Some(object)) = (attributes.dry_run, object) else {
            return Ok(());
        };
        let Some(request) = self.quota_request(attributes, object) else {
            return Ok(());
        };
        let checked = attributes
            .context
            .state
            .quota_enforcer
            .check_dry_run(&request)
            .await;
        checked.map_err(|error| denial_status(attributes, object, error))
    }

    fn needs_reservation(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        evaluator(attributes).is_some() && attributes.context.namespace().is_some()
    }

    async fn reserve(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &JsonObject,
    ) -> Result<QuotaGrant, Status> {
        let Some(request) = self.quota_request(attributes, object) else {
            return Ok(QuotaGrant::default());
        };
        let grant = attributes
            .context
            .state
            .quota_enforcer
            .reserve(&request)
            .await;
        grant.map_err(|error| denial_status(attributes, object, error))
    }
}
