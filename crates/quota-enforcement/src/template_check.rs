//! Whether quotas can ever admit the pods of a template. Used for warnings: nothing is reserved.

use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_meta::Status;
use rhumb_quota::{
    Evaluator, LimitedResource, NamespaceUsage, QuotaDenial, QuotaScope, QuotaVerdict,
    ScopeAttributes, UsageRequest,
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
        let usage = evaluator.usage(pod);
        if !has_cross_namespace_affinity(&usage.scope_attributes) {
            return Ok(None);
        }
        let request = UsageRequest {
            group,
            resource,
            evaluator: &evaluator,
            new_usage: &usage,
            old_usage: None,
            object: pod,
        };
        let verdict = match namespace_quota {
            Some(namespace_quota) => {
                let tracker = namespace_quota.lock_tracker(registry).await?;
                tracker.usage.check(&request, limited)
            }
            None => NamespaceUsage::default().check(&request, limited),
        };
        Ok(match verdict {
            QuotaVerdict::Denied(denial) if is_permanent(&denial) => Some(denial),
            _ => None,
        })
    }
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

/// Whether quotas with the scope deny the pod without regard to other pods.
fn is_permanent(denial: &QuotaDenial) -> bool {
    let has_scope = denial.scopes().iter().any(|it| it.scope == SCOPE);
    let is_fixed = match denial {
        QuotaDenial::NoQuotaForScopes(_) => true,
        QuotaDenial::Exceeded {
            requested, limited, ..
        } => requested
            .iter()
            .any(|(name, amount)| limited.get(name).is_some_and(|limit| amount > limit)),
        _ => false,
    };
    has_scope && is_fixed
}
