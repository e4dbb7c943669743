//! Applies MutatingAdmissionPolicies to an object, one after the other.

use std::sync::Arc;
use std::time::Instant;

use rhumb_admission::{EvaluatedMutation, FailurePolicy, MatchConditionsResult, MutatingPolicy};
use rhumb_api::JsonObject;
use rhumb_expressions::JsonInput;
use rhumb_meta::status::StatusCause;
use rhumb_meta::{Status, StatusReason};
use serde_json::Value;

use super::invocation::{FailClosedPolicy, PolicyInvocation};
use super::params::PolicyParam;
use super::{EVALUATION_TIMEOUT, MutatingAdmissionPolicyPlugin};
use crate::cel_inputs::{CelInputs, namespace_object};
use crate::metrics::MetricSubject;
use rhumb_registry::admission::{
    AddedUnknownFields, AdmissionAttributes, MutatingPluginKind, parse_json_patch,
};

impl MutatingAdmissionPolicyPlugin {
    pub(super) async fn run_policies(
        &self,
        attributes: &AdmissionAttributes<'_>,
        mut object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let metrics = &self.dependencies.metrics;
        let invocations = self
            .source
            .invocations(attributes, object.as_deref(), metrics)
            .await?;
        let mut errors = invocations.failures;
        if !invocations.all.is_empty() {
            let reinvocation = &attributes.reinvocation;
            reinvocation.plugin_started(MutatingPluginKind::Policies, object.as_deref());
            let namespace = namespace_object(attributes).await?;
            let deadline = Instant::now() + EVALUATION_TIMEOUT;
            for invocation in &invocations.all {
                for param in &invocation.params {
                    let policy_call = MutatingPolicyEvaluation {
                        invocation,
                        param,
                        namespace: namespace.as_ref(),
                        deadline,
                    };
                    let object = object.as_deref_mut();
                    let take = || self.run_policy(attributes, &policy_call, object, &mut errors);
                    invocation.policy.pacer.run(take).await?;
                }
            }
            reinvocation.plugin_finished(MutatingPluginKind::Policies, object.as_deref());
        }
        match errors.as_slice() {
            [] => Ok(()),
            errors => Err(denial_status(attributes, object.as_deref(), errors)),
        }
    }

    fn run_policy(
        &self,
        attributes: &AdmissionAttributes<'_>,
        policy_call: &MutatingPolicyEvaluation<'_>,
        object: Option<&mut JsonObject>,
        errors: &mut Vec<FailClosedPolicy>,
    ) -> Result<(), Status> {
        let invocation = policy_call.invocation;
        let policy = &invocation.policy.value;
        let namespace = policy_call.namespace.cloned();
        let names = &invocation.names;
        let mut cel_inputs = CelInputs::new(attributes, names, object.as_deref(), namespace)?;
        if !self.conditions_match(attributes, policy_call, &cel_inputs, errors) {
            return Ok(());
        }
        let id = policy_call.id();
        let reinvocation = &attributes.reinvocation;
        if !reinvocation.may_invoke(MutatingPluginKind::Policies, &id) {
            return Ok(());
        }
        let mut changed = false;
        if let Some(object) = object {
            for number in 0..policy.len() {
                let started = Instant::now();
                let outcome = apply_mutation(attributes, policy_call, &cel_inputs, number);
                let binding = &invocation.binding.value.name;
                let metrics = &self.dependencies.metrics;
                metrics.record_policy_mutation(
                    (&policy.spec.name, binding),
                    outcome.as_ref().err().map(MutationFailure::message),
                    started.elapsed(),
                );
                match outcome {
                    Ok(None) => {}
                    Ok(Some(new)) => {
                        changed |= *object != new;
                        let converted = attributes.converted(names, &new)?.into_owned();
                        cel_inputs.set_object(Value::Object(converted));
                        *object = new;
                    }
                    Err(MutationFailure::Policy(message)) => {
                        policy_call.record_failure(message, errors);
                    }
                    Err(MutationFailure::Internal(status)) => return Err(status),
                }
            }
        }
        reinvocation.record_invocation(
            MutatingPluginKind::Policies,
            &id,
            changed,
            policy.reinvoke_if_needed,
        );
        Ok(())
    }

    /// Whether the match conditions of the policy are true.
    fn conditions_match(
        &self,
        attributes: &AdmissionAttributes<'_>,
        policy_call: &MutatingPolicyEvaluation<'_>,
        cel_inputs: &CelInputs<'_>,
        errors: &mut Vec<FailClosedPolicy>,
    ) -> bool {
        let policy = &policy_call.invocation.policy.value;
        if policy.spec.match_conditions.is_empty() {
            return true;
        }
        let started = Instant::now();
        let params = JsonInput::from(policy_call.param.value.as_ref());
        let params = policy.spec.param_kind.is_some().then_some(&params);
        let condition_result =
            policy.evaluate_match_conditions(&cel_inputs.inputs(), params, policy_call.deadline);
        let subject = MetricSubject {
            name: &policy.spec.name,
            kind: "policy",
            step: self.source.policy_type.metric_label(),
            operation: attributes.operation,
        };
        let excluded = matches!(
            condition_result.result,
            MatchConditionsResult::NotMatched { .. } | MatchConditionsResult::ErrorIgnored
        );
        let metrics = &self.dependencies.metrics;
        metrics.record_match_conditions(
            subject,
            started.elapsed(),
            condition_result.error_count,
            excluded,
        );
        match condition_result.result {
            MatchConditionsResult::Matched => true,
            MatchConditionsResult::NotMatched { .. } | MatchConditionsResult::ErrorIgnored => false,
            MatchConditionsResult::Error(message) => {
                policy_call.record_failure(message, errors);
                false
            }
        }
    }
}

/// The evaluation of a policy with one parameter object.
struct MutatingPolicyEvaluation<'a> {
    invocation: &'a PolicyInvocation<MutatingPolicy>,
    param: &'a PolicyParam,
    namespace: Option<&'a Value>,
    deadline: Instant,
}

impl MutatingPolicyEvaluation<'_> {
    fn id(&self) -> Arc<str> {
        let PolicyInvocation {
            policy, binding, ..
        } = self.invocation;
        format!(
            "{}/{}/{}",
            policy.value.spec.name, binding.value.name, self.param.key
        )
        .into()
    }

    fn record_failure(&self, message: String, errors: &mut Vec<FailClosedPolicy>) {
        let spec = &self.invocation.policy.value.spec;
        if spec.failure_policy == FailurePolicy::Fail {
            errors.push(FailClosedPolicy {
                policy: spec.name.clone(),
                binding: Some(self.invocation.binding.value.name.clone()),
                message,
                is_expression: true,
            });
        }
    }
}

/// Why a mutation failed.
#[derive(Debug)]
enum MutationFailure {
    /// An error of the policy, to which its failure policy applies.
    Policy(String),
    /// The request fails, whatever the failure policy. As upstream, so does a JSON patch after which the object cannot be
    /// decoded, because it has unknown fields or values of the wrong type.
    Internal(Status),
}

impl MutationFailure {
    fn message(&self) -> &str {
        match self {
            MutationFailure::Policy(message) => message,
            MutationFailure::Internal(status) => &status.message,
        }
    }
}

impl From<String> for MutationFailure {
    fn from(message: String) -> Self {
        MutationFailure::Policy(message)
    }
}

/// The object after one mutation; `None` if it changes nothing.
fn apply_mutation(
    attributes: &AdmissionAttributes<'_>,
    policy_call: &MutatingPolicyEvaluation<'_>,
    cel_inputs: &CelInputs<'_>,
    number: usize,
) -> Result<Option<JsonObject>, MutationFailure> {
    let PolicyInvocation { policy, names, .. } = policy_call.invocation;
    let policy = &policy.value;
    let Some(Value::Object(original)) = cel_inputs.object() else {
        return Ok(None);
    };
    let params = JsonInput::from(policy_call.param.value.as_ref());
    let params = policy.spec.param_kind.is_some().then_some(&params);
    let change =
        policy.evaluate_mutation(number, &cel_inputs.inputs(), params, policy_call.deadline)?;
    match change {
        EvaluatedMutation::ApplyConfiguration(configuration) => {
            let patched = attributes
                .apply(names, original, configuration)
                .map_err(|error| format!("error applying patch: {error}"))?;
            attributes
                .decode_mutated(names, &patched, original, AddedUnknownFields::Dropped)
                .map(Some)
                .map_err(|status| MutationFailure::Policy(status.message))
        }
        EvaluatedMutation::JsonPatch(operations) => {
            let patch = parse_json_patch(operations.to_string().as_bytes())?;
            let patched = attributes.patch(names, &patch, original.clone());
            let patched = match patched.map_err(MutationFailure::Internal)? {
                Ok(patched) => patched,
                // A failed `test` operation means that the patch is not meant for this object.
                Err(failure) if failure.is_test => return Ok(None),
                Err(failure) => return Err(format!("JSON Patch: {failure}").into()),
            };
            attributes
                .decode_mutated(names, &patched, original, AddedUnknownFields::InternalError)
                .map(Some)
                .map_err(MutationFailure::Internal)
        }
    }
}

/// The denial: the first error is the message, all errors are causes.
fn denial_status(
    attributes: &AdmissionAttributes<'_>,
    object: Option<&JsonObject>,
    errors: &[FailClosedPolicy],
) -> Status {
    let mut status = attributes.forbidden(object, "admission request denied by policy");
    let text = |error: &FailClosedPolicy| match &error.binding {
        Some(binding) => format!(
            "policy '{}' with binding '{binding}' denied request: {}",
            error.policy, error.message
        ),
        None => format!(
            "policy {:?} denied request: {}",
            error.policy, error.message
        ),
    };
    let texts: Vec<String> = errors.iter().map(text).collect();
    status.message = texts.first().cloned().unwrap_or_default();
    if errors.first().is_some_and(|error| error.is_expression) {
        status.reason = StatusReason::INVALID;
    }
    if let Some(details) = &mut status.details {
        details
            .causes
            .extend(texts.into_iter().map(|message| StatusCause {
                message,
                ..StatusCause::default()
            }));
    }
    status
}
