//! Policies in expressions.
//!
//! `hooks.rs` has all policies with their bindings, `invocation.rs` says which of them are about a write and with which
//! parameters (`params.rs`); `validating.rs` and `mutating.rs` are what follows.

mod hooks;
mod invocation;
mod mutating;
mod pace;
mod params;
mod validating;

use std::time::Duration;

use async_trait::async_trait;
use rhumb_admission::{MutatingPolicy, PolicyFlavor, ValidatingPolicy};
use rhumb_api::Object;
use rhumb_meta::Status;

use super::webhooks::Outside;
use super::{Attributes, Plugin, Step};
use hooks::Hooks;

/// How long the expressions of all policies of a kind may take for one write.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The plugin that asks validating policies.
#[derive(Debug)]
pub(super) struct ValidatingPolicies {
    hooks: Hooks<ValidatingPolicy>,
    outside: Outside,
}

impl ValidatingPolicies {
    pub(super) fn new(outside: &Outside) -> ValidatingPolicies {
        ValidatingPolicies {
            hooks: Hooks::new(PolicyFlavor::Validating, ValidatingPolicy::read),
            outside: outside.clone(),
        }
    }
}

#[async_trait]
impl Plugin for ValidatingPolicies {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Validation && self.hooks.in_force(attributes).is_some()
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        self.judge(attributes, object).await
    }
}

/// The plugin that asks mutating policies.
#[derive(Debug)]
pub(super) struct MutatingPolicies {
    hooks: Hooks<MutatingPolicy>,
    outside: Outside,
}

impl MutatingPolicies {
    pub(super) fn new(outside: &Outside) -> MutatingPolicies {
        MutatingPolicies {
            hooks: Hooks::new(PolicyFlavor::Mutating, MutatingPolicy::read),
            outside: outside.clone(),
        }
    }
}

#[async_trait]
impl Plugin for MutatingPolicies {
    fn takes_part(&self, step: Step, attributes: &Attributes<'_>) -> bool {
        step == Step::Mutation && self.hooks.in_force(attributes).is_some()
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        self.change(attributes, object).await
    }
}
