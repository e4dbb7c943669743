//! The plugins MutatingAdmissionPolicy and ValidatingAdmissionPolicy.
//!
//! `policy_source.rs` holds all policies with their bindings, `invocation.rs` finds those that match a request and
//! their parameters (`params.rs`), `validating.rs` and `mutating.rs` evaluate them. Upstream counterpart:
//! `k8s.io/apiserver/pkg/admission/plugin/policy`.

mod evaluation_pacer;
mod invocation;
mod mutating;
mod params;
mod policy_source;
mod validating;

use std::time::Duration;

use async_trait::async_trait;
use rhumb_admission::{MutatingPolicy, PolicyType, ValidatingPolicy};
use rhumb_api::JsonObject;
use rhumb_meta::Status;

use super::webhooks::PluginDependencies;
use policy_source::PolicySource;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin};

/// Time limit for evaluating all policies of a type for one request.
const EVALUATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Evaluates ValidatingAdmissionPolicies.
#[derive(Debug)]
pub(super) struct ValidatingAdmissionPolicyPlugin {
    source: PolicySource<ValidatingPolicy>,
    dependencies: PluginDependencies,
}

impl ValidatingAdmissionPolicyPlugin {
    pub(super) fn new(dependencies: &PluginDependencies) -> ValidatingAdmissionPolicyPlugin {
        ValidatingAdmissionPolicyPlugin {
            source: PolicySource::new(PolicyType::Validating, ValidatingPolicy::parse),
            dependencies: dependencies.clone(),
        }
    }
}

#[async_trait]
impl AdmissionPlugin for ValidatingAdmissionPolicyPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation && self.source.hooks(attributes).is_some()
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        self.run_policies(attributes, object).await
    }
}

/// Evaluates MutatingAdmissionPolicies.
#[derive(Debug)]
pub(super) struct MutatingAdmissionPolicyPlugin {
    source: PolicySource<MutatingPolicy>,
    dependencies: PluginDependencies,
}

impl MutatingAdmissionPolicyPlugin {
    pub(super) fn new(dependencies: &PluginDependencies) -> MutatingAdmissionPolicyPlugin {
        MutatingAdmissionPolicyPlugin {
            source: PolicySource::new(PolicyType::Mutating, MutatingPolicy::parse),
            dependencies: dependencies.clone(),
        }
    }
}

#[async_trait]
impl AdmissionPlugin for MutatingAdmissionPolicyPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation && self.source.hooks(attributes).is_some()
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        self.run_policies(attributes, object).await
    }
}
