//! Whether quotas can ever admit the pods of a template. Used for warnings: nothing is reserved.

use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_quota::{
    Evaluator, LimitedResource, NamespaceUsage, QuotaDenial, QuotaScope, QuotaVerdict,
    ResourceQuota, ScopeAttributes, UsageRequest,
};
use rhumb_registry::Registry;

use crate::quota_enforcer::QuotaEnforcer;

const SCOPE: QuotaScope = QuotaScope::CrossNamespacePodAffinity;

impl QuotaEnforcer {
    /// Why a pod with cross-namespace affinity is rejected by quotas with that scope, however few such pods exist. `None`
    /// if the pod has no such affinity, or may be admitted.
    pub async fn find_affinity_denial(
        &self,
        registry: &Arc<Registry>,
        namespace: &str,
        pod: &JsonObject,
        limited: &[LimitedResource],
    ) -> Result<Option<QuotaDenial>, Status> {
        let (group, resource) = ("", "pods");
        let namespace_quota = self.for_namespace(namespace);
        let is_limited = limited.iter().any(|it| it.applies_to(group, resource));
        if namespace_quota.is_none() && !is_limited {
            return Ok(None);
        }
        let Some(evaluator) = Evaluator::for_resource(group, resource) else {
            return Ok(None);
        };
        let mut usage = evaluator.usage(pod);
        if !has_cross_namespace_affinity(&usage.scope_attributes) {
            return Ok(None);
        }
        // Defaults of a LimitRange may add what the template does not specify.
        usage.unspecified.clear();
        let quotas = match namespace_quota {
            Some(namespace_quota) => {
                let tracker = namespace_quota.lock_tracker(registry).await?;
                quotas_with_scope(tracker.usage.quotas())
            }
            None => Vec::new(),
        };
        let request = UsageRequest {
            group,
            resource,
            evaluator: &evaluator,
            new_usage: &usage,
            old_usage: None,
            object: pod,
        };
        // Without the usage of other pods and without other quotas, which could deny the pod for a reason that passes.
        let evaluators = Evaluator::for_resource(group, resource);
        let scope_usage = NamespaceUsage::new(quotas, evaluators.into_iter().collect());
        Ok(
            match scope_usage.check(&request, &limits_of_scope(limited)) {
                QuotaVerdict::Denied(denial) => Some(denial),
                _ => None,
            },
        )
    }
}

fn quotas_with_scope(quotas: &[ResourceQuota]) -> Vec<ResourceQuota> {
    let has_scope =
        |quota: &&ResourceQuota| quota.scopes.iter().any(|required| required.scope == SCOPE);
    quotas.iter().filter(has_scope).cloned().collect()
}

/// The limited resources, reduced to the scope.
fn limits_of_scope(limited: &[LimitedResource]) -> Vec<LimitedResource> {
    let reduced = limited.iter().map(|limit| {
        let scopes = limit.match_scopes.iter();
        LimitedResource {
            group: limit.group.clone(),
            resource: limit.resource.clone(),
            match_contains: Vec::new(),
            match_scopes: scopes.filter(|it| it.scope == SCOPE).cloned().collect(),
        }
    });
    reduced.collect()
}

fn has_cross_namespace_affinity(attributes: &ScopeAttributes) -> bool {
    matches!(
        attributes,
        ScopeAttributes::Pod {
            has_cross_namespace_affinity: true,
            ..
        }
    )
}
