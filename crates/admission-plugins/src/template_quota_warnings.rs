//! Warns clients that create or change a workload whose pods no quota admits because their affinity crosses namespaces.
//! Otherwise only events of the workload's controller say so. Never changes or rejects a request, also if the check fails.
//! Disabled together with ResourceQuota, which rejects the pods. No upstream counterpart.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_api::JsonObject;
use rhumb_api::pods::pod_template_path;
use rhumb_meta::Status;
use rhumb_quota::{LimitedResource, QuotaDenial};
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::{RequestContext, RequestOrigin};
use serde_json::Value;

use super::server_services::AttachedServices;
use super::webhooks::PluginDependencies;

/// A write does not wait longer for the check, as while the usage of the namespace is counted for the first time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct CrossNamespaceAffinityWarningPlugin {
    limited: Arc<[LimitedResource]>,
    services: AttachedServices,
}

impl CrossNamespaceAffinityWarningPlugin {
    pub(super) fn new(dependencies: &PluginDependencies) -> CrossNamespaceAffinityWarningPlugin {
        CrossNamespaceAffinityWarningPlugin {
            limited: Arc::clone(&dependencies.limited_resources),
            services: dependencies.services.clone(),
        }
    }

    /// Why quotas reject every pod of a template.
    async fn find_denial(
        &self,
        context: &RequestContext<'_>,
        namespace: &str,
        pod: &JsonObject,
    ) -> Result<Option<QuotaDenial>, Status> {
        let enforcer = &self.services.get()?.quota_enforcer;
        let denial = enforcer.find_affinity_denial(context.registry, namespace, pod, &self.limited);
        tokio::time::timeout(CHECK_TIMEOUT, denial)
            .await
            .map_err(|_| Status::internal_error("timed out while counting the usage"))?
    }
}

/// Where objects of the request's kind have their pod template.
fn template_path(attributes: &AdmissionAttributes<'_>) -> Option<&'static [&'static str]> {
    let kind = &attributes.context.resource.kind;
    pod_template_path(&kind.group, &kind.plural)
}

fn template_at<'a>(object: &'a JsonObject, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter()
        .try_fold(object.get(*first)?, |value, field| value.get(field))
}

#[async_trait]
impl AdmissionPlugin for CrossNamespaceAffinityWarningPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && attributes.subresource().is_empty()
            && attributes.context.origin != RequestOrigin::Server
            && template_path(attributes).is_some()
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let context = attributes.context;
        let (Some(object), Some(path), Some(namespace)) =
            (object, template_path(attributes), context.namespace())
        else {
            return Ok(());
        };
        let template = template_at(object, path);
        let old_template = attributes.old_object.and_then(|old| template_at(old, path));
        if template == old_template {
            return Ok(());
        }
        // A template has the fields of a pod that quotas count.
        let Some(pod) = template.and_then(Value::as_object) else {
            return Ok(());
        };
        match self.find_denial(context, namespace, pod).await {
            Ok(None) => {}
            Ok(Some(denial)) => {
                let path = path.join(".");
                context.warn(format!(
                    "{path}.spec.affinity: its pods will be rejected, because their affinity crosses namespaces: {denial}"
                ));
            }
            Err(error) => tracing::debug!(
                namespace,
                resource = %context.resource.kind.plural,
                name = context.name,
                error = error.message,
                "check of a pod template against quotas failed; the client gets no warning"
            ),
        }
        Ok(())
    }
}
