//! What a validating policy says of a write.

use rhumb_expressions::{
    Budget, CompileError, Environment, Input, Inputs, MESSAGE_BYTES_MAX, Program, Scope,
    Value as Cel, Want,
};
use serde_json::Value;
use std::time::Instant;

use super::{Head, compile, items};
use crate::Object;
use crate::conditions::{Met, Unevaluated, evaluate, text_of};
use crate::criteria::Reading;
use crate::webhook::FailurePolicy;

#[derive(Debug)]
pub struct ValidatingPolicy {
    pub head: Head,
    validations: Vec<Validation>,
    annotations: Vec<ValueExpression>,
}

#[derive(Debug)]
struct Validation {
    text: String,
    program: Result<Program, CompileError>,
    message: String,
    message_program: Option<Result<Program, CompileError>>,
    reason: String,
}

#[derive(Debug)]
struct ValueExpression {
    key: String,
    text: String,
    program: Result<Program, CompileError>,
}

/// What follows from one validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Admitted,
    Denied {
        message: String,
        reason: String,
    },
    /// It could not be evaluated, and that counts as a denial.
    Failed {
        message: String,
    },
    /// It could not be evaluated, and that does not matter.
    Ignored,
}

/// What the audit log is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Annotation {
    Publish {
        key: String,
        value: String,
    },
    /// It could not be evaluated, and that counts as a denial.
    Failed {
        message: String,
    },
}

/// All that a policy says of a write, for one set of parameters.
#[derive(Debug, Default)]
pub struct Verdict {
    /// One for each validation; none if conditions keep the write away.
    pub decisions: Vec<Decision>,
    pub annotations: Vec<Annotation>,
    /// Whether conditions kept it away.
    pub excluded: bool,
    pub condition_errors: u64,
}

impl ValidatingPolicy {
    pub fn read(policy: &Object, reading: Reading) -> ValidatingPolicy {
        let nothing = Value::Null;
        let spec = policy.get("spec").unwrap_or(&nothing);
        let environment = Environment::policy(spec["paramKind"].is_object());
        let (head, environment) = Head::read(policy, environment, reading);
        let validation = |validation: &Value| {
            let text = text_of(&validation["expression"]);
            let message_text = text_of(&validation["messageExpression"]);
            Validation {
                program: compile(&environment, text, Want::Bool),
                text: text.trim().to_owned(),
                message: text_of(&validation["message"]).trim().to_owned(),
                message_program: (!message_text.is_empty())
                    .then(|| compile(&environment, message_text, Want::String)),
                reason: match text_of(&validation["reason"]) {
                    "" => "Invalid".to_owned(),
                    reason => reason.to_owned(),
                },
            }
        };
        let annotation = |annotation: &Value| {
            let text = text_of(&annotation["valueExpression"]);
            ValueExpression {
                key: text_of(&annotation["key"]).to_owned(),
                program: compile(&environment, text, Want::StringOrNull),
                text: text.to_owned(),
            }
        };
        ValidatingPolicy {
            validations: items(&spec["validations"]).iter().map(validation).collect(),
            annotations: items(&spec["auditAnnotations"])
                .iter()
                .map(annotation)
                .collect(),
            head,
        }
    }

    /// Asks about a write. All must be over at the deadline.
    pub fn validate<'a>(
        &'a self,
        inputs: &'a Inputs<'a>,
        params: Option<&'a Input<'a>>,
        deadline: Instant,
    ) -> Verdict {
        let mut scope = self.head.scope(inputs);
        if let Some(params) = params {
            scope = scope.with_params(params);
        }
        let mut budget = Budget::for_match_conditions(Some(deadline));
        let judged = self
            .head
            .conditions
            .judge(&mut scope, &mut budget, self.head.failure);
        let mut verdict = Verdict {
            condition_errors: judged.errors,
            ..Verdict::default()
        };
        match judged.met {
            Met::Yes => {}
            Met::No { .. } | Met::Ignored => {
                verdict.excluded = true;
                return verdict;
            }
            Met::Failed(message) => {
                verdict.decisions = vec![self.failed(message)];
                return verdict;
            }
        }
        let mut budget = Budget::for_policy(Some(deadline));
        for validation in &self.validations {
            match self.decide(validation, &mut scope, &mut budget) {
                Ok(decision) => verdict.decisions.push(decision),
                Err(message) => {
                    verdict.decisions = vec![self.failed(message)];
                    return verdict;
                }
            }
        }
        let mut budget = Budget::for_policy(Some(deadline));
        for annotation in &self.annotations {
            match self.annotate(annotation, &mut scope, &mut budget) {
                Ok(annotation) => verdict.annotations.extend(annotation),
                Err(message) => {
                    verdict.decisions = vec![self.failed(message)];
                    verdict.annotations.clear();
                    return verdict;
                }
            }
        }
        verdict
    }

    /// What an expression that failed means.
    fn failed(&self, message: String) -> Decision {
        match self.head.failure {
            FailurePolicy::Fail => Decision::Failed { message },
            FailurePolicy::Ignore => Decision::Ignored,
        }
    }

    /// An error ends the whole policy.
    fn decide(
        &self,
        validation: &Validation,
        scope: &mut Scope<'_>,
        budget: &mut Budget,
    ) -> Result<Decision, String> {
        match evaluate(&validation.program, scope, budget) {
            Ok(Cel::Bool(true)) => Ok(Decision::Admitted),
            Ok(_) => {
                let message = match validation.stated(scope, budget) {
                    Ok(message) => message,
                    Err(error) => {
                        return Ok(self.failed(format!("failed messageExpression: {error}")));
                    }
                };
                Ok(Decision::Denied {
                    message,
                    reason: validation.reason.clone(),
                })
            }
            Err(Unevaluated::Here(message)) => Ok(self.failed(message)),
            Err(Unevaluated::Everywhere(message)) => Err(message),
        }
    }

    /// An error ends the whole policy.
    fn annotate(
        &self,
        annotation: &ValueExpression,
        scope: &mut Scope<'_>,
        budget: &mut Budget,
    ) -> Result<Option<Annotation>, String> {
        let failed = |message: String| match self.head.failure {
            FailurePolicy::Fail => Some(Annotation::Failed { message }),
            FailurePolicy::Ignore => None,
        };
        match evaluate(&annotation.program, scope, budget) {
            Ok(Cel::Null) => Ok(None),
            Ok(Cel::String(value)) => {
                let value = value.trim();
                Ok((!value.is_empty()).then(|| Annotation::Publish {
                    key: annotation.key.clone(),
                    value: value.to_owned(),
                }))
            }
            Ok(other) => Ok(Some(Annotation::Failed {
                message: format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    annotation.text,
                    other.type_name()
                ),
            })),
            Err(Unevaluated::Here(message)) => Ok(failed(message)),
            Err(Unevaluated::Everywhere(message)) => Err(message),
        }
    }
}

impl Validation {
    /// Why the write is denied: what the message expression says, else the message, else the expression.
    fn stated(&self, scope: &mut Scope<'_>, budget: &mut Budget) -> Result<String, String> {
        let evaluated = match &self.message_program {
            Some(program) => evaluate(program, scope, budget),
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
            Err(Unevaluated::Everywhere(error)) => return Err(error),
            Ok(_) | Err(Unevaluated::Here(_)) => {}
        }
        Ok(if self.message.is_empty() {
            format!("failed expression: {}", self.text)
        } else {
            self.message.clone()
        })
    }
}
