//! `AdmissionPlugins`: the chain of enabled plugins, and what they share.

use std::sync::Arc;

use rhumb_admission::critical_resources::CriticalResources;
use rhumb_quota::LimitedResource;

use crate::metrics::AdmissionMetrics;
use crate::resource_quota;
use crate::server_services::{AttachedServices, ServerServices};
use crate::webhooks::ClusterServiceResolver;
use crate::{AdmissionOptions, critical_webhooks};
use rhumb_registry::ResourceTable;
use rhumb_registry::admission::{AdmissionChain, AdmissionPlugin};

/// The enabled plugins. They are built from flags, before the server, which is attached when it starts.
#[derive(Debug)]
pub struct AdmissionPlugins {
    pub(crate) chain: AdmissionChain,
    pub(crate) metrics: Arc<AdmissionMetrics>,
    pub(crate) service_resolver: Arc<ClusterServiceResolver>,
    pub(crate) critical: Arc<CriticalResources>,
    pub(crate) limited_resources: Arc<[LimitedResource]>,
    pub(crate) services: AttachedServices,
}

impl Default for AdmissionPlugins {
    /// The plugins that are enabled by default.
    fn default() -> Self {
        AdmissionOptions::default().build()
    }
}

impl AdmissionPlugins {
    /// Appends a plugin.
    #[must_use]
    pub fn with_plugin(mut self, plugin: impl AdmissionPlugin + 'static) -> AdmissionPlugins {
        self.chain = self.chain.with_plugin(plugin);
        self
    }

    pub fn chain(&self) -> &AdmissionChain {
        &self.chain
    }

    /// Gives the plugins access to the server. Logs configured rules that match no served resource.
    pub fn attach(&self, resources: &ResourceTable, services: ServerServices) {
        self.services.attach(services);
        self.service_resolver.attach_caches(resources);
        critical_webhooks::warn_unserved_rules(&self.critical, resources);
        resource_quota::warn_uncounted_limits(&self.limited_resources, resources);
    }

    /// The admission metrics, up to date.
    pub fn metrics(&self) -> &AdmissionMetrics {
        self.chain.flush_metrics();
        &self.metrics
    }
}
