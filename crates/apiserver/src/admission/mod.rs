//! What may stop or change a write between its decoding and its commit.
//!
//! A chain of small plugins with one trait, in a fixed order. Each says which requests concern it.

mod escalation;
mod namespace_lifecycle;

use std::fmt::Debug;

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::Status;

use crate::resources::Call;
use escalation::Escalation;
use namespace_lifecycle::NamespaceLifecycle;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// A write that asks for admission.
#[derive(Debug)]
pub struct Attributes<'a> {
    pub call: &'a Call<'a>,
    pub operation: Operation,
    /// The state before; absent for a creation.
    pub old: Option<&'a Object>,
    pub dry_run: bool,
}

/// One rule about writes. Every method lets everything pass unless it says otherwise.
#[async_trait]
pub trait Plugin: Debug + Send + Sync {
    /// May change the object, or refuse it.
    async fn mutate(
        &self,
        _attributes: &Attributes<'_>,
        _object: &mut Object,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Sees the final object (none in a deletion), and may refuse it.
    async fn validate(
        &self,
        _attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        Ok(())
    }
}

/// The plugins in their order.
#[derive(Debug)]
pub struct Chain(Vec<Box<dyn Plugin>>);

impl Default for Chain {
    fn default() -> Self {
        Chain(vec![Box::new(NamespaceLifecycle), Box::new(Escalation)])
    }
}

impl Chain {
    pub async fn mutate(
        &self,
        call: &Call<'_>,
        operation: Operation,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let attributes = Attributes {
            call,
            operation,
            old,
            dry_run,
        };
        for plugin in &self.0 {
            plugin.mutate(&attributes, object).await?;
        }
        Ok(())
    }

    pub async fn validate(
        &self,
        call: &Call<'_>,
        operation: Operation,
        object: Option<&Object>,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let attributes = Attributes {
            call,
            operation,
            old,
            dry_run,
        };
        for plugin in &self.0 {
            plugin.validate(&attributes, object).await?;
        }
        Ok(())
    }
}
