//! `matchConditions`: CEL expressions that must all be true for a webhook or policy to match (upstream package
//! `webhook/matchconditions`).

use rhumb_expressions::{
    Activation, CompileError, Environment, EvaluationBudget, EvaluationError, Program, ReturnTypes,
    Value,
};
use serde_json::Value as Json;

use crate::webhook::FailurePolicy;

/// The compiled `matchConditions` of a webhook or policy.
#[derive(Debug, Clone, Default)]
pub struct MatchConditions(Vec<CompiledMatchCondition>);

#[derive(Debug, Clone)]
struct CompiledMatchCondition {
    name: String,
    program: Result<Program, CompileError>,
}

/// The result of evaluating match conditions for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchConditionsResult {
    /// All are true.
    Matched,
    /// This condition is false.
    NotMatched { condition: String },
    /// Evaluation failed, and the failure policy is `Ignore`: the webhook or policy is skipped.
    ErrorIgnored,
    /// Evaluation failed, and the failure policy is `Fail`.
    Error(String),
}

/// The result, and how many conditions failed to evaluate.
#[derive(Debug)]
pub struct MatchConditionsEvaluation {
    pub result: MatchConditionsResult,
    pub error_count: u64,
}

impl MatchConditions {
    /// Compiles `matchConditions`. A condition that does not compile fails whenever it is evaluated.
    pub(crate) fn compile(list: &Json, environment: &Environment) -> MatchConditions {
        let compile = |condition: &Json| CompiledMatchCondition {
            name: condition["name"].as_str().unwrap_or_default().to_owned(),
            program: Program::compile(
                environment,
                str_or_empty(&condition["expression"]),
                ReturnTypes::Bool,
            ),
        };
        MatchConditions(list.as_array().into_iter().flatten().map(compile).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conditions that mention neither the objects nor the user, and so can be evaluated without a request.
    pub(crate) fn without_user_and_object(&self) -> MatchConditions {
        const UNKNOWN: [&str; 4] = ["object", "Object", "userInfo", "authorizer"];
        let is_known = |condition: &&CompiledMatchCondition| match &condition.program {
            Ok(program) => !UNKNOWN.iter().any(|word| program.text().contains(word)),
            Err(_) => false,
        };
        MatchConditions(self.0.iter().filter(is_known).cloned().collect())
    }

    /// Evaluates all conditions. A false one decides, even if others failed to evaluate.
    pub fn evaluate(
        &self,
        activation: &mut Activation<'_>,
        budget: &mut EvaluationBudget,
        failure: FailurePolicy,
    ) -> MatchConditionsEvaluation {
        let mut errors = Vec::new();
        for condition in &self.0 {
            match evaluate_expression(&condition.program, activation, budget) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => {
                    return MatchConditionsEvaluation {
                        result: MatchConditionsResult::NotMatched {
                            condition: condition.name.clone(),
                        },
                        error_count: error_count(&errors),
                    };
                }
                Ok(_) => errors.push("the condition is not a bool".to_owned()),
                Err(ExpressionFailure::Expression(text)) => errors.push(text),
                Err(ExpressionFailure::BudgetExhausted(text)) => {
                    errors = vec![text];
                    break;
                }
            }
        }
        let met = match (errors.is_empty(), failure) {
            (true, _) => MatchConditionsResult::Matched,
            (false, FailurePolicy::Ignore) => MatchConditionsResult::ErrorIgnored,
            (false, FailurePolicy::Fail) => MatchConditionsResult::Error(aggregate_errors(&errors)),
        };
        MatchConditionsEvaluation {
            result: met,
            error_count: error_count(&errors),
        }
    }
}

/// Why an expression could not be evaluated, in upstream's words.
#[derive(Debug)]
pub(crate) enum ExpressionFailure {
    Expression(String),
    /// The cost budget is used up: no further expression is evaluated.
    BudgetExhausted(String),
}

pub(crate) fn evaluate_expression(
    program: &Result<Program, CompileError>,
    activation: &mut Activation<'_>,
    budget: &mut EvaluationBudget,
) -> Result<Value, ExpressionFailure> {
    let program = match program {
        Ok(program) => program,
        Err(error) => {
            return Err(ExpressionFailure::Expression(format!(
                "compilation error: {error}"
            )));
        }
    };
    program
        .evaluate(activation, budget)
        .map_err(|error| match error {
            EvaluationError::OutOfBudget => ExpressionFailure::BudgetExhausted(error.to_string()),
            _ => ExpressionFailure::Expression(format!(
                "expression '{}' resulted in error: {error}",
                program.text()
            )),
        })
}

/// Formats errors like Go's `utilerrors.NewAggregate`.
fn aggregate_errors(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn error_count(errors: &[String]) -> u64 {
    errors.len().try_into().unwrap_or(u64::MAX)
}

pub(crate) fn str_or_empty(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}
