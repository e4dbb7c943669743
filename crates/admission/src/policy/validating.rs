//! Evaluates the validations and audit annotations of a ValidatingAdmissionPolicy.

use rhumb_expressions::{
    Activation, CompileError, Environment, EvaluationBudget, JsonInput, MESSAGE_BYTES_MAX, Program,
    RequestInputs, ReturnTypes, Value as Cel,
};
use serde_json::Value;
use std::time::Instant;

use super::{CommonPolicySpec, array_items, compile};
use crate::Object;
use crate::match_conditions::{
    ExpressionFailure, MatchConditionsResult, evaluate_expression, str_or_empty,
};
use crate::match_criteria::CriteriaFeatures;
use crate::webhook::FailurePolicy;

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct ValidatingPolicy {
    pub spec: CommonPolicySpec,
    validations: Vec<CompiledValidation>,
    audit_annotations: Vec<CompiledAuditAnnotation>,
}

/// A compiled entry of `spec.validations`.
#[derive(Debug)]
struct CompiledValidation {
    text: String,
    program: Result<Program, CompileError>,
    message: String,
    message_program: Option<Result<Program, CompileError>>,
    reason: String,
}

/// A compiled entry of `spec.auditAnnotations`.
#[derive(Debug)]
struct CompiledAuditAnnotation {
    key: String,
    text: String,
    program: Result<Program, CompileError>,
}

/// The outcome of one validation (upstream: `PolicyDecision`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyDecision {
    Admitted,
    Denied {
        message: String,
        reason: String,
    },
    /// Evaluation failed, and the failure policy is `Fail`: counts as a denial.
    Failed {
        message: String,
    },
    /// Evaluation failed, and the failure policy is `Ignore`.
    Ignored,
}

/// The outcome of one audit annotation (upstream: `PolicyAuditAnnotation`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyAuditAnnotation {
    Publish {
        key: String,
        value: String,
    },
    /// Evaluation failed, and the failure policy is `Fail`: counts as a denial.
    Failed {
        message: String,
    },
}

/// The outcome of a policy for one request and one set of parameters (upstream: `ValidateResult`).
#[derive(Debug, Default)]
pub struct PolicyValidationResult {
    /// One per validation; empty if match conditions exclude the request.
    pub decisions: Vec<PolicyDecision>,
    pub audit_annotations: Vec<PolicyAuditAnnotation>,
    /// Whether match conditions exclude the request.
    pub conditions_excluded: bool,
    pub condition_errors: u64,
}

impl ValidatingPolicy {
    pub fn parse(policy: &Object, reading: CriteriaFeatures) -> ValidatingPolicy {
        let nothing = Value::Null;
        let spec = policy.get("spec").unwrap_or(&nothing);
        let environment = Environment::policy(spec["paramKind"].is_object());
        let (common, environment) = CommonPolicySpec::parse(policy, environment, reading);
        let validation = |validation: &Value| {
            let text = str_or_empty(&validation["expression"]);
            let message_text = str_or_empty(&validation["messageExpression"]);
            CompiledValidation {
                program: compile(&environment, text, ReturnTypes::Bool),
                text: text.trim().to_owned(),
                message: str_or_empty(&validation["message"]).trim().to_owned(),
                message_program: (!message_text.is_empty())
                    .then(|| compile(&environment, message_text, ReturnTypes::String)),
                reason: match str_or_empty(&validation["reason"]) {
                    "" => "Invalid".to_owned(),
                    reason => reason.to_owned(),
                },
            }
        };
        let annotation = |annotation: &Value| {
            let text = str_or_empty(&annotation["valueExpression"]);
            CompiledAuditAnnotation {
                key: str_or_empty(&annotation["key"]).to_owned(),
                program: compile(&environment, text, ReturnTypes::StringOrNull),
                text: text.to_owned(),
            }
        };
        ValidatingPolicy {
            validations: array_items(&spec["validations"])
                .iter()
                .map(validation)
                .collect(),
            audit_annotations: array_items(&spec["auditAnnotations"])
                .iter()
                .map(annotation)
                .collect(),
            spec: common,
        }
    }

    /// Validates a request. Evaluation stops at the deadline.
    pub fn validate<'a>(
        &'a self,
        inputs: &'a RequestInputs<'a>,
        params: Option<&'a JsonInput<'a>>,
        deadline: Instant,
    ) -> PolicyValidationResult {
        let mut activation = self.spec.activation(inputs);
        if let Some(params) = params {
            activation = activation.with_params(params);
        }
        let mut budget = EvaluationBudget::for_match_conditions(Some(deadline));
        let judged = self.spec.match_conditions.evaluate(
            &mut activation,
            &mut budget,
            self.spec.failure_policy,
        );
        let mut verdict = PolicyValidationResult {
            condition_errors: judged.error_count,
            ..PolicyValidationResult::default()
        };
        match judged.result {
            MatchConditionsResult::Matched => {}
            MatchConditionsResult::NotMatched { .. } | MatchConditionsResult::ErrorIgnored => {
                verdict.conditions_excluded = true;
                return verdict;
            }
            MatchConditionsResult::Error(message) => {
                verdict.decisions = vec![self.failure_decision(message)];
                return verdict;
            }
        }
        let mut budget = EvaluationBudget::for_policy(Some(deadline));
        for validation in &self.validations {
            match self.evaluate_validation(validation, &mut activation, &mut budget) {
                Ok(decision) => verdict.decisions.push(decision),
                Err(message) => {
                    verdict.decisions = vec![self.failure_decision(message)];
                    return verdict;
                }
            }
        }
        let mut budget = EvaluationBudget::for_policy(Some(deadline));
        for annotation in &self.audit_annotations {
            match self.evaluate_audit_annotation(annotation, &mut activation, &mut budget) {
                Ok(annotation) => verdict.audit_annotations.extend(annotation),
                Err(message) => {
                    verdict.decisions = vec![self.failure_decision(message)];
                    verdict.audit_annotations.clear();
                    return verdict;
                }
            }
        }
        verdict
    }

    /// The decision that the failure policy prescribes for an evaluation error.
    fn failure_decision(&self, message: String) -> PolicyDecision {
        match self.spec.failure_policy {
            FailurePolicy::Fail => PolicyDecision::Failed { message },
            FailurePolicy::Ignore => PolicyDecision::Ignored,
        }
    }

    /// Evaluates one validation. An error ends the evaluation of the policy.
    fn evaluate_validation(
        &self,
        validation: &CompiledValidation,
        activation: &mut Activation<'_>,
        budget: &mut EvaluationBudget,
    ) -> Result<PolicyDecision, String> {
        match evaluate_expression(&validation.program, activation, budget) {
            Ok(Cel::Bool(true)) => Ok(PolicyDecision::Admitted),
            Ok(_) => {
                let message = match validation.denial_message(activation, budget) {
                    Ok(message) => message,
                    Err(error) => {
                        return Ok(
                            self.failure_decision(format!("failed messageExpression: {error}"))
                        );
                    }
                };
                Ok(PolicyDecision::Denied {
                    message,
                    reason: validation.reason.clone(),
                })
            }
            Err(ExpressionFailure::Expression(message)) => Ok(self.failure_decision(message)),
            Err(ExpressionFailure::BudgetExhausted(message)) => Err(message),
        }
    }

    /// Evaluates one audit annotation. An error ends the evaluation of the policy.
    fn evaluate_audit_annotation(
        &self,
        annotation: &CompiledAuditAnnotation,
        activation: &mut Activation<'_>,
        budget: &mut EvaluationBudget,
    ) -> Result<Option<PolicyAuditAnnotation>, String> {
        let failed = |message: String| match self.spec.failure_policy {
            FailurePolicy::Fail => Some(PolicyAuditAnnotation::Failed { message }),
            FailurePolicy::Ignore => None,
        };
        match evaluate_expression(&annotation.program, activation, budget) {
            Ok(Cel::Null) => Ok(None),
            Ok(Cel::String(value)) => {
                let value = value.trim();
                Ok((!value.is_empty()).then(|| PolicyAuditAnnotation::Publish {
                    key: annotation.key.clone(),
                    value: value.to_owned(),
                }))
            }
            Ok(other) => Ok(Some(PolicyAuditAnnotation::Failed {
                message: format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    annotation.text,
                    other.type_name()
                ),
            })),
            Err(ExpressionFailure::Expression(message)) => Ok(failed(message)),
            Err(ExpressionFailure::BudgetExhausted(message)) => Err(message),
        }
    }
}

impl CompiledValidation {
    /// The denial message: the value of `messageExpression`, else `message`, else the failed expression.
    fn denial_message(
        &self,
        activation: &mut Activation<'_>,
        budget: &mut EvaluationBudget,
    ) -> Result<String, String> {
        let evaluated = match &self.message_program {
            Some(program) => evaluate_expression(program, activation, budget),
            None => Ok(Cel::Null),
        };
        match evaluated {
            Ok(Cel::String(text)) => {
                let text = text.trim();
                let fits = text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                if fits && !text.is_empty() {
                    return Ok(text.to_owned());
                }
            }
            Err(ExpressionFailure::BudgetExhausted(error)) => return Err(error),
            Ok(_) | Err(ExpressionFailure::Expression(_)) => {}
        }
        Ok(if self.message.is_empty() {
            format!("failed expression: {}", self.text)
        } else {
            self.message.clone()
        })
    }
}
