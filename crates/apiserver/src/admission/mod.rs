//! Admission control: plugins that may change or reject a write between decoding and commit.
//!
//! [`AdmissionChain`] runs the plugins ([`AdmissionPlugin`]) in upstream's order (`plugin_list.rs`): all may mutate the
//! object, then it is prepared and validated by its strategy, then all may reject it. [`AdmissionAttributes`] describes
//! the request. Plugins look up other objects with `object_lookup.rs`. Right before the commit the chain acquires
//! [`CommitGuards`]: preconditions of the transaction and quota reservations. Upstream counterpart:
//! `k8s.io/apiserver/pkg/admission`.

mod cache_derived_value;
mod cel_inputs;
mod certificates;
mod configuration;
mod conversion;
mod critical_webhooks;
mod default_classes;
mod default_tolerations;
mod escalation;
mod exclusion_counters;
mod guards;
mod limit_ranger;
mod metrics;
mod namespace_labels;
mod namespace_lifecycle;
mod node_taint;
mod object_lookup;
mod plugin_list;
mod policies;
mod priority;
mod quota;
mod reinvocation;
mod request_attributes;
mod runtime_class;
mod service_account;
mod storage_protection;
#[cfg(test)]
mod tests;
mod volume_resize;
mod webhooks;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_admission::critical_resources::CriticalResources;
pub use rhumb_admission::{Operation, PluginConfigSource};
use rhumb_api::JsonObject;
use rhumb_meta::Status;
pub use rhumb_quota::LimitedResource;
use rhumb_store::ExpectedRevision;
use tokio::time::Instant;

use crate::objects::ObjectMetadata;
use crate::quota::QuotaGrant;
use crate::request::DeleteOptions;
use crate::resources::{RequestContext, ResourceRegistry};
use reinvocation::ReinvocationState;
use webhooks::ClusterServiceResolver;

pub use configuration::{read_admission_configuration, read_limited_resources};
pub use critical_webhooks::read_critical_resources;
pub use guards::CommitGuards;
pub use metrics::AdmissionMetrics;
pub use plugin_list::{EnabledPlugins, PluginFlagError};

/// How long the commit of a write is retried while concurrent writes conflict with it.
pub(crate) const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The request that is being admitted (upstream: `admission.Attributes`).
#[derive(Debug)]
pub struct AdmissionAttributes<'a> {
    pub context: &'a RequestContext<'a>,
    pub operation: Operation,
    /// The stored object; `None` for a creation.
    pub old_object: Option<&'a JsonObject>,
    pub dry_run: bool,
    /// The `DeleteOptions` of a deletion.
    delete_options: Option<&'a DeleteOptions>,
    reinvocation: ReinvocationState,
    /// When this attempt started: a retry that builds new attributes resets it.
    started_at: Instant,
}

impl<'a> AdmissionAttributes<'a> {
    pub fn with_delete_options(mut self, options: &'a DeleteOptions) -> AdmissionAttributes<'a> {
        self.delete_options = Some(options);
        self
    }
}

impl AdmissionAttributes<'_> {
    /// Whether it was retried for so long that the client should retry later.
    pub fn deadline_exceeded(&self) -> bool {
        self.started_at.elapsed() > COMMIT_TIMEOUT
    }

    /// Whether the request is for this resource itself, not for a subresource.
    // Inlined because most callers pass constants.
    #[inline]
    pub fn is_resource(&self, group: &str, plural: &str) -> bool {
        self.subresource().is_empty() && self.is_resource_or_subresource(group, plural)
    }

    /// Whether the request is for this resource or any of its subresources.
    #[inline]
    pub fn is_resource_or_subresource(&self, group: &str, plural: &str) -> bool {
        let kind = &self.context.resource.kind;
        kind.group == group && kind.plural == plural
    }

    /// Empty for the resource itself.
    #[inline]
    pub fn subresource(&self) -> &str {
        self.context
            .subresource
            .map_or("", |subresource| subresource.name)
    }

    /// The name in the path, else the object's name, else its `generateName`.
    pub fn name<'a>(&'a self, object: Option<&'a JsonObject>) -> &'a str {
        let named_object = object.or(self.old_object);
        let candidates = [
            self.context.name(),
            named_object.map_or("", ObjectMetadata::name),
            named_object.map_or("", |object| object.meta_str("generateName")),
        ];
        candidates
            .into_iter()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown")
    }

    /// A `Forbidden` error worded like those of upstream's plugins.
    pub fn forbidden(&self, object: Option<&JsonObject>, reason: impl std::fmt::Display) -> Status {
        let resource = &self.context.resource.group_resource;
        Status::forbidden(resource, self.name(object), reason)
    }
}

/// The two passes over the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmissionPass {
    Mutation,
    Validation,
}

/// An admission plugin. The default implementations admit everything (upstream: `MutationInterface`,
/// `ValidationInterface`).
#[async_trait]
pub trait AdmissionPlugin: Debug + Send + Sync {
    /// Whether the plugin handles such a request in this step. Cheap pre-check: calling `mutate` or `validate`
    /// allocates a boxed future.
    fn handles(&self, _step: AdmissionPass, _attributes: &AdmissionAttributes<'_>) -> bool {
        true
    }

    /// May change the object (`None` for a deletion), or reject the request. Called once per write, twice on
    /// reinvocation (a webhook or policy changed the object after others had seen it), and again when an update is
    /// retried after a conflict.
    async fn mutate(
        &self,
        _attributes: &AdmissionAttributes<'_>,
        _object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// May reject the final object (`None` for a deletion).
    async fn validate(
        &self,
        _attributes: &AdmissionAttributes<'_>,
        _object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Adds buffered counts to the metrics, before they are read.
    fn flush_metrics(&self) {}

    /// The cluster-scoped object that admitting a creation depends on. It is read again right before the commit, which
    /// fails if it has changed by then; so the result of `check_guarded_object` is valid at the moment of the commit.
    fn guarded_object(&self, _attributes: &AdmissionAttributes<'_>) -> Option<GuardedObject> {
        None
    }

    /// Whether the plugin reserves something until the write is committed.
    fn needs_reservation(&self, _attributes: &AdmissionAttributes<'_>) -> bool {
        false
    }

    /// Makes the reservation. Called right before each attempt to commit.
    async fn reserve(
        &self,
        _attributes: &AdmissionAttributes<'_>,
        _object: &JsonObject,
    ) -> Result<QuotaGrant, Status> {
        Ok(QuotaGrant::default())
    }

    /// Checks the final object against the current state of the guarded object.
    fn check_guarded_object(
        &self,
        _attributes: &AdmissionAttributes<'_>,
        _object: &JsonObject,
        _now: Option<&JsonObject>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// A cluster-scoped object that an admission decision depends on.
#[derive(Debug)]
pub struct GuardedObject {
    pub group: &'static str,
    pub plural: &'static str,
    pub name: String,
}

/// A key and its expected state, checked in the transaction that commits the write.
#[derive(Debug)]
pub struct Precondition {
    pub key: String,
    pub expect: ExpectedRevision,
}

/// The enabled plugins, in order.
#[derive(Debug)]
pub struct AdmissionChain {
    plugins: Vec<Box<dyn AdmissionPlugin>>,
    metrics: Arc<AdmissionMetrics>,
    service_resolver: Arc<ClusterServiceResolver>,
    critical: Arc<CriticalResources>,
    limited_resources: Arc<[LimitedResource]>,
}

impl Default for AdmissionChain {
    /// The plugins that are enabled by default.
    fn default() -> Self {
        EnabledPlugins::default().chain()
    }
}

impl AdmissionChain {
    /// Appends a plugin.
    #[must_use]
    pub fn with_plugin(mut self, plugin: impl AdmissionPlugin + 'static) -> AdmissionChain {
        self.plugins.push(Box::new(plugin));
        self
    }

    /// Gives the chain access to the resource registry: webhook Services can be resolved from now on. Logs configured
    /// rules that match no served resource.
    pub(crate) fn attach_registry(&self, registry: &ResourceRegistry) {
        self.service_resolver.attach_registry(registry);
        critical_webhooks::warn_unserved_rules(&self.critical, registry);
        quota::warn_uncounted_limits(&self.limited_resources, registry);
    }

    /// The admission metrics, up to date.
    pub fn metrics(&self) -> &AdmissionMetrics {
        self.plugins
            .iter()
            .for_each(|plugin| plugin.flush_metrics());
        &self.metrics
    }

    /// Runs the mutating pass, and a second time for reinvocation if a webhook or policy changed the object after
    /// others had seen it.
    pub async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        self.mutation_round(attributes, object.as_deref_mut())
            .await?;
        if attributes.reinvocation.begin_reinvocation() {
            self.mutation_round(attributes, object).await?;
        }
        Ok(())
    }

    async fn mutation_round(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(AdmissionPass::Mutation, attributes) {
                plugin.mutate(attributes, object.as_deref_mut()).await?;
            }
        }
        Ok(())
    }

    pub async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(AdmissionPass::Validation, attributes) {
                plugin.validate(attributes, object).await?;
            }
        }
        Ok(())
    }

    /// Acquires the preconditions and reservations for committing the object.
    pub async fn acquire_guards(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &JsonObject,
    ) -> Result<CommitGuards, Status> {
        let mut guards = CommitGuards::default();
        for plugin in &self.plugins {
            if let Some(guarded_object) = plugin.guarded_object(attributes) {
                let current =
                    object_lookup::with_precondition(attributes.context, &guarded_object).await?;
                let (now, precondition) = current.unzip();
                plugin.check_guarded_object(attributes, object, now.as_deref())?;
                guards.preconditions.extend(precondition);
            }
            if plugin.needs_reservation(attributes) {
                let QuotaGrant {
                    precondition,
                    reservation,
                } = plugin.reserve(attributes, object).await?;
                guards.preconditions.extend(precondition);
                guards.reservations.extend(reservation);
            }
        }
        Ok(guards)
    }

    /// Runs both passes, for requests that are not stored (reviews, subresource requests).
    pub async fn admit(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        self.mutate(attributes, object.as_deref_mut()).await?;
        self.validate(attributes, object.as_deref()).await
    }
}

impl RequestContext<'_> {
    /// The admission attributes of this request.
    pub fn admission_attributes<'a>(
        &'a self,
        operation: Operation,
        old: Option<&'a JsonObject>,
        dry_run: bool,
    ) -> AdmissionAttributes<'a> {
        AdmissionAttributes {
            context: self,
            operation,
            old_object: old,
            dry_run,
            delete_options: None,
            reinvocation: ReinvocationState::default(),
            started_at: Instant::now(),
        }
    }
}
