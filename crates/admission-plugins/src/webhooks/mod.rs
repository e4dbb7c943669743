//! The plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook.
//!
//! `webhook_set.rs` holds the webhooks of all configurations, `invocation.rs` finds those that match a request,
//! `call.rs` calls one of them. Mutating webhooks are called one after the other (`mutating.rs`), validating ones in
//! parallel (`validating.rs`). Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/webhook`.

mod call;
mod invocation;
mod match_plans;
mod mutating;
mod service_resolver;
mod validating;
mod webhook_set;

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use rhumb_admission::WebhookType;
use rhumb_api::JsonObject;
use rhumb_cache::ResourceCache;
use rhumb_meta::Status;
use rhumb_quota::LimitedResource;
use rhumb_webhooks::WebhookClient;

use super::cache_derived_value::CacheDerivedValue;
use super::metrics::{AdmissionMetrics, MetricSubject};
use super::server_services::AttachedServices;
use rhumb_registry::RequestOrigin;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin};
pub(crate) use service_resolver::ClusterServiceResolver;
use webhook_set::{PreparedWebhook, WebhookSet};

/// What webhook, policy and quota plugins share: metrics, Service resolution, the webhook client and configuration.
#[derive(Debug, Clone)]
pub(super) struct PluginDependencies {
    pub(super) metrics: Arc<AdmissionMetrics>,
    pub(super) service_resolver: Arc<ClusterServiceResolver>,
    /// Resources that may be consumed only where a quota covers them.
    pub(super) limited_resources: Arc<[LimitedResource]>,
    pub(super) services: AttachedServices,
    client: WebhookClient,
}

impl Default for PluginDependencies {
    fn default() -> Self {
        let services = Arc::new(ClusterServiceResolver::default());
        PluginDependencies {
            metrics: Arc::default(),
            client: WebhookClient::new(services.clone()),
            service_resolver: services,
            limited_resources: Arc::default(),
            services: AttachedServices::default(),
        }
    }
}

impl PluginDependencies {
    pub(super) fn with_limited_resources(
        mut self,
        limited: Arc<[LimitedResource]>,
    ) -> PluginDependencies {
        self.limited_resources = limited;
        self
    }
}

/// The mutating or validating webhook plugin.
#[derive(Debug)]
pub(super) struct WebhookPlugin {
    webhook_type: WebhookType,
    /// The cache of configurations; `None` if they are not served.
    cache: OnceLock<Option<ResourceCache>>,
    webhooks: CacheDerivedValue<WebhookSet>,
    dependencies: PluginDependencies,
}

impl WebhookPlugin {
    pub(super) fn new(
        webhook_type: WebhookType,
        dependencies: &PluginDependencies,
    ) -> WebhookPlugin {
        WebhookPlugin {
            webhook_type,
            cache: OnceLock::new(),
            webhooks: CacheDerivedValue::default(),
            dependencies: dependencies.clone(),
        }
    }

    fn metric_subject<'a>(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &'a PreparedWebhook,
    ) -> MetricSubject<'a> {
        MetricSubject {
            name: &webhook.spec.name,
            kind: "webhook",
            step: self.webhook_type.metric_label(),
            operation: attributes.operation,
        }
    }

    /// The current webhooks; `None` if there are none or the request is exempt.
    fn applicable_webhooks(
        &self,
        attributes: &AdmissionAttributes<'_>,
    ) -> Result<Option<Arc<WebhookSet>>, Status> {
        if attributes.context.origin == RequestOrigin::Server
            || attributes
                .request_attributes(None)?
                .is_exempt_from_webhooks()
        {
            return Ok(None);
        }
        Ok(self.current_webhooks(attributes))
    }
}

#[async_trait]
impl AdmissionPlugin for WebhookPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        let is_its_step = match self.webhook_type {
            WebhookType::Mutating => step == AdmissionPass::Mutation,
            WebhookType::Validating => step == AdmissionPass::Validation,
        };
        is_its_step && self.current_webhooks(attributes).is_some()
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        match self.webhook_type {
            WebhookType::Mutating => self.call_sequentially(attributes, object).await,
            WebhookType::Validating => Ok(()),
        }
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        match self.webhook_type {
            WebhookType::Mutating => Ok(()),
            WebhookType::Validating => self.call_in_parallel(attributes, object).await,
        }
    }

    fn flush_metrics(&self) {
        if let Some(webhooks) = self.webhooks.latest() {
            webhooks.flush_exclusion_counts(&webhooks.plans.all());
        }
    }
}
