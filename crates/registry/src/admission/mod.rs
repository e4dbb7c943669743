//! Admission control: plugins that may change or reject a write between decoding and commit.
//!
//! [`AdmissionChain`] runs the plugins ([`AdmissionPlugin`]) in the order of registration (upstream's order): all may mutate the
//! object, then it is prepared and validated by its strategy, then all may reject it. [`AdmissionAttributes`] describes
//! the request. The plugins are in the crate `admission-plugins`. What must still hold at the commit is a
//! [`CommitGuard`]. Upstream counterpart: `k8s.io/apiserver/pkg/admission`.

mod conversion;
mod reinvocation;
mod request_attributes;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
pub use rhumb_admission::Operation;
use rhumb_api::JsonObject;
use rhumb_meta::Status;

use crate::DeleteOptions;
use crate::RequestContext;
use crate::objects::ObjectMetadata;
use crate::write::CommitGuard;
pub use reinvocation::{MutatingPluginKind, ReinvocationState};

pub use conversion::{AddedUnknownFields, parse_json_patch};

/// The request that is being admitted (upstream: `admission.Attributes`).
#[derive(Debug)]
pub struct AdmissionAttributes<'a> {
    pub context: &'a RequestContext<'a>,
    pub operation: Operation,
    /// The stored object; `None` for a creation.
    pub old_object: Option<&'a JsonObject>,
    pub dry_run: bool,
    /// The `DeleteOptions` of a deletion.
    pub delete_options: Option<&'a DeleteOptions>,
    pub reinvocation: ReinvocationState,
}

impl<'a> AdmissionAttributes<'a> {
    pub fn with_delete_options(mut self, options: &'a DeleteOptions) -> AdmissionAttributes<'a> {
        self.delete_options = Some(options);
        self
    }
}

impl AdmissionAttributes<'_> {
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
            .map_or("", |subresource| &*subresource.name)
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

    /// A condition that must still hold when the final object is committed; `None` for deletions.
    fn guard(
        &self,
        _attributes: &AdmissionAttributes<'_>,
        _object: &JsonObject,
    ) -> Option<Box<dyn CommitGuard>> {
        None
    }
}

/// The enabled plugins, in order.
#[derive(Debug, Clone, Default)]
pub struct AdmissionChain {
    plugins: Vec<Arc<dyn AdmissionPlugin>>,
}

impl AdmissionChain {
    pub fn new(plugins: Vec<Arc<dyn AdmissionPlugin>>) -> AdmissionChain {
        AdmissionChain { plugins }
    }

    /// Appends a plugin.
    #[must_use]
    pub fn with_plugin(mut self, plugin: impl AdmissionPlugin + 'static) -> AdmissionChain {
        self.plugins.push(Arc::new(plugin));
        self
    }

    pub fn plugins(&self) -> &[Arc<dyn AdmissionPlugin>] {
        &self.plugins
    }

    /// Adds the counts that plugins buffer to the metrics.
    pub fn flush_metrics(&self) {
        self.plugins
            .iter()
            .for_each(|plugin| plugin.flush_metrics());
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

    /// The guards of all plugins for a write of this object.
    pub fn guards(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &JsonObject,
    ) -> Vec<Box<dyn CommitGuard>> {
        let plugins = self.plugins.iter();
        plugins
            .filter_map(|plugin| plugin.guard(attributes, object))
            .collect()
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
        }
    }
}
