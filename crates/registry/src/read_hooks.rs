//! Work that precedes reads of a resource, such as bringing a derived status up to date.

use std::fmt::Debug;

use async_trait::async_trait;

use super::{RequestContext, Resource};

/// Runs before a get or list of a resource.
#[async_trait]
pub trait ReadHook: Debug + Send + Sync {
    async fn before_read(&self, context: &RequestContext<'_>);
}

/// The read hooks of all resources that have one.
#[derive(Debug, Default)]
pub struct ReadHooks(Vec<(&'static str, &'static str, Box<dyn ReadHook>)>);

impl ReadHooks {
    #[must_use]
    pub fn with_hook(
        mut self,
        group: &'static str,
        plural: &'static str,
        hook: impl ReadHook + 'static,
    ) -> ReadHooks {
        self.0.push((group, plural, Box::new(hook)));
        self
    }

    pub fn for_resource(&self, resource: &Resource) -> Option<&dyn ReadHook> {
        let kind = &resource.kind;
        self.0
            .iter()
            .find(|(group, plural, _)| *group == kind.group && *plural == kind.plural)
            .map(|(_, _, hook)| &**hook)
    }
}
