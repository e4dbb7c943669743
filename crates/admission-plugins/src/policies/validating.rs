//! Evaluates ValidatingAdmissionPolicies and enforces their bindings' `validationActions`.

use std::collections::BTreeMap;
use std::time::Instant;

use rhumb_admission::{
    PolicyAuditAnnotation, PolicyBinding, PolicyDecision, PolicyValidationResult, ResourceAndKind,
    ValidatingPolicy,
};
use rhumb_api::JsonObject;
use rhumb_expressions::{JsonInput, RequestInputs};
use rhumb_meta::status::StatusCause;
use rhumb_meta::{Status, StatusReason};
use serde_json::json;

use super::invocation::{FailClosedPolicy, PolicyInvocation};
use super::params::PolicyParam;
use super::policy_source::ParsedPolicyObject;
use super::{EVALUATION_TIMEOUT, ValidatingAdmissionPolicyPlugin};
use crate::cel_inputs::{CelInputs, namespace_object};
use crate::metrics::{EnforcementAction, MetricSubject};
use rhumb_registry::admission::AdmissionAttributes;

/// Maximum length of an audit annotation value; longer ones are truncated.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

const VALIDATION_FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The evaluation of a policy with one parameter object.
struct ValidatingPolicyCall<'a> {
    invocation: &'a PolicyInvocation<ValidatingPolicy>,
    param: &'a PolicyParam,
    deadline: Instant,
}

/// Why a policy denies the request.
struct PolicyDenial {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: String,
}

/// Audit annotation values by key; several bindings may add several values.
type AuditAnnotationValues = BTreeMap<String, Vec<String>>;

impl ValidatingAdmissionPolicyPlugin {
    pub(super) async fn run_policies(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let metrics = &self.dependencies.metrics;
        let invocations = self.source.invocations(attributes, object, metrics).await?;
        let mut denials: Vec<PolicyDenial> = invocations
            .failures
            .into_iter()
            .map(PolicyDenial::from)
            .collect();
        if !invocations.all.is_empty() {
            let namespace = namespace_object(attributes).await?;
            let deadline = Instant::now() + EVALUATION_TIMEOUT;
            let mut cel_inputs_by_kind: Vec<(ResourceAndKind, CelInputs<'_>)> = Vec::new();
            let mut annotations: Vec<(String, AuditAnnotationValues)> = Vec::new();
            for invocation in &invocations.all {
                let position = cel_inputs_by_kind
                    .iter()
                    .position(|(names, _)| *names == invocation.names);
                let index = match position {
                    Some(index) => index,
                    None => {
                        let names = &invocation.names;
                        let cel_inputs =
                            CelInputs::new(attributes, names, object, namespace.clone())?;
                        cel_inputs_by_kind.push((names.clone(), cel_inputs));
                        cel_inputs_by_kind.len() - 1
                    }
                };
                let policy = &*invocation.policy.value.spec.name;
                if annotations
                    .last()
                    .is_none_or(|(last_policy, _)| last_policy != policy)
                {
                    annotations.push((policy.to_owned(), AuditAnnotationValues::new()));
                }
                if let (Some((_, cel_inputs)), Some((_, annotations))) =
                    (cel_inputs_by_kind.get(index), annotations.last_mut())
                {
                    let inputs = cel_inputs.inputs();
                    for param in &invocation.params {
                        let policy_call = ValidatingPolicyCall {
                            invocation,
                            param,
                            deadline,
                        };
                        let run = || {
                            self.run_policy(
                                attributes,
                                &policy_call,
                                &inputs,
                                annotations,
                                &mut denials,
                            );
                        };
                        invocation.policy.pacer.run(run).await;
                    }
                }
            }
            publish_annotations(attributes, &annotations);
        }
        match denials.into_iter().next() {
            None => Ok(()),
            Some(denial) => Err(denial.status(attributes, object)),
        }
    }

    fn run_policy(
        &self,
        attributes: &AdmissionAttributes<'_>,
        policy_call: &ValidatingPolicyCall<'_>,
        inputs: &RequestInputs<'_>,
        annotations: &mut AuditAnnotationValues,
        denials: &mut Vec<PolicyDenial>,
    ) {
        let invocation = policy_call.invocation;
        let policy = &invocation.policy.value;
        let binding = &invocation.binding;
        let started = Instant::now();
        let params = JsonInput::from(policy_call.param.value.as_ref());
        let has_params = policy.spec.param_kind.is_some();
        let verdict = policy.validate(inputs, has_params.then_some(&params), policy_call.deadline);
        self.count_conditions(attributes, policy, &verdict, started);
        for (index, decision) in verdict.decisions.into_iter().enumerate() {
            let denied = match decision {
                PolicyDecision::Admitted => continue,
                PolicyDecision::Ignored => {
                    self.record_check(
                        policy,
                        binding,
                        EnforcementAction::Allowed,
                        Some(""),
                        started,
                    );
                    continue;
                }
                PolicyDecision::Denied { message, reason } => (message, reason),
                PolicyDecision::Failed { message } => (message, String::new()),
            };
            self.enforce(attributes, invocation, index, denied, started, denials);
        }
        for annotation in verdict.audit_annotations {
            match annotation {
                PolicyAuditAnnotation::Publish { key, value } => {
                    add_annotation(annotations, key, value);
                }
                PolicyAuditAnnotation::Failed { message } => {
                    self.record_check(
                        policy,
                        binding,
                        EnforcementAction::Denied,
                        Some(&message),
                        started,
                    );
                    denials.push(PolicyDenial::new(invocation, message, String::new()));
                }
            }
        }
    }

    /// Performs the binding's `validationActions` for a failed validation.
    fn enforce(
        &self,
        attributes: &AdmissionAttributes<'_>,
        invocation: &PolicyInvocation<ValidatingPolicy>,
        number: usize,
        (message, reason): (String, String),
        started: Instant,
        denials: &mut Vec<PolicyDenial>,
    ) {
        let (policy, binding) = (&invocation.policy.value, &invocation.binding);
        for action in &binding.value.validation_actions {
            match action.as_str() {
                "Deny" => {
                    let denial = PolicyDenial::new(invocation, message.clone(), reason.clone());
                    denials.push(denial);
                    self.record_check(
                        policy,
                        binding,
                        EnforcementAction::Denied,
                        Some(&message),
                        started,
                    );
                }
                "Audit" => {
                    annotate_failure(attributes, &binding.value, number, &message);
                    self.record_check(
                        policy,
                        binding,
                        EnforcementAction::Audited,
                        Some(&message),
                        started,
                    );
                }
                "Warn" => {
                    attributes.context.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.spec.name, binding.value.name
                    ));
                    self.record_check(
                        policy,
                        binding,
                        EnforcementAction::Warned,
                        Some(&message),
                        started,
                    );
                }
                _ => {}
            }
        }
    }

    fn record_check(
        &self,
        policy: &ValidatingPolicy,
        binding: &ParsedPolicyObject<PolicyBinding>,
        action: EnforcementAction,
        message: Option<&str>,
        started: Instant,
    ) {
        let names = (&*policy.spec.name, &*binding.value.name);
        let metrics = &self.dependencies.metrics;
        metrics.record_policy_validation(names, action, message, started.elapsed());
    }

    fn count_conditions(
        &self,
        attributes: &AdmissionAttributes<'_>,
        policy: &ValidatingPolicy,
        verdict: &PolicyValidationResult,
        started: Instant,
    ) {
        if policy.spec.match_conditions.is_empty() {
            return;
        }
        let subject = MetricSubject {
            name: &policy.spec.name,
            kind: "policy",
            step: self.source.policy_type.metric_label(),
            operation: attributes.operation,
        };
        let (errors, excluded) = (verdict.condition_errors, verdict.conditions_excluded);
        let metrics = &self.dependencies.metrics;
        metrics.record_match_conditions(subject, started.elapsed(), errors, excluded);
    }
}

/// Adds a value unless it is already there.
fn add_annotation(annotations: &mut AuditAnnotationValues, key: String, mut value: String) {
    value.truncate(value.floor_char_boundary(MAX_ANNOTATION_BYTES));
    let values = annotations.entry(key).or_default();
    if !values.contains(&value) {
        values.push(value);
    }
}

fn publish_annotations(
    attributes: &AdmissionAttributes<'_>,
    annotations: &[(String, AuditAnnotationValues)],
) {
    for (policy, annotations) in annotations {
        for (key, values) in annotations {
            let key = format!("{policy}/{key}");
            attributes.context.annotate(key, values.join(", "));
        }
    }
}

fn annotate_failure(
    attributes: &AdmissionAttributes<'_>,
    binding: &PolicyBinding,
    number: usize,
    message: &str,
) {
    let value = json!([{
        "message": message,
        "policy": binding.policy_name,
        "binding": &*binding.name,
        "expressionIndex": number,
        "validationActions": binding.validation_actions,
    }]);
    attributes
        .context
        .annotate(VALIDATION_FAILURE_ANNOTATION, value.to_string());
}

impl PolicyDenial {
    fn new(
        invocation: &PolicyInvocation<ValidatingPolicy>,
        message: String,
        reason: String,
    ) -> PolicyDenial {
        PolicyDenial {
            policy: invocation.policy.value.spec.name.to_string(),
            binding: Some(invocation.binding.value.name.to_string()),
            message,
            reason,
        }
    }

    fn status(self, attributes: &AdmissionAttributes<'_>, object: Option<&JsonObject>) -> Status {
        let policy = self.policy;
        let message = match self.binding {
            Some(binding) => format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
                self.message
            ),
            None => format!(
                "ValidatingAdmissionPolicy '{policy}' denied request: {}",
                self.message
            ),
        };
        let mut status = attributes.forbidden(object, &message);
        let (code, reason) = match &*self.reason {
            "Forbidden" => (403, StatusReason::FORBIDDEN),
            "Unauthorized" => (401, StatusReason::UNAUTHORIZED),
            "RequestEntityTooLarge" => (413, StatusReason::REQUEST_ENTITY_TOO_LARGE),
            _ => (422, StatusReason::INVALID),
        };
        status.code = code;
        status.reason = reason;
        if let Some(details) = &mut status.details {
            details.causes.push(StatusCause {
                message,
                ..StatusCause::default()
            });
        }
        status
    }
}

impl From<FailClosedPolicy> for PolicyDenial {
    fn from(misconfigured: FailClosedPolicy) -> PolicyDenial {
        PolicyDenial {
            policy: misconfigured.policy.to_string(),
            binding: misconfigured.binding.map(|binding| binding.to_string()),
            message: misconfigured.message,
            reason: String::new(),
        }
    }
}
