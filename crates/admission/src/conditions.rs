//! Match conditions: expressions that all must hold.

use rhumb_expressions::{
    Budget, CompileError, Environment, EvaluationError, Program, Scope, Value, Want,
};
use serde_json::Value as Json;

use crate::webhook::FailurePolicy;

/// The conditions of a webhook or a policy, compiled.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Vec<Condition>);

#[derive(Debug, Clone)]
struct Condition {
    name: String,
    program: Result<Program, CompileError>,
}

/// What conditions say of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// All hold.
    Yes,
    /// This one does not.
    No { condition: String },
    /// One could not be evaluated, and that does not matter: the write is not seen.
    Ignored,
    /// One could not be evaluated.
    Failed(String),
}

/// The outcome, and how many conditions could not be evaluated.
#[derive(Debug)]
pub struct Judged {
    pub met: Met,
    pub errors: u64,
}

impl Conditions {
    /// Compiles `matchConditions`. One that does not compile fails whenever it is evaluated.
    pub(crate) fn compile(list: &Json, environment: &Environment) -> Conditions {
        let compile = |condition: &Json| Condition {
            name: condition["name"].as_str().unwrap_or_default().to_owned(),
            program: Program::compile(environment, text_of(&condition["expression"]), Want::Bool),
        };
        Conditions(list.as_array().into_iter().flatten().map(compile).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that can be judged without knowing who writes and what: they mention neither.
    pub(crate) fn of_place(&self) -> Conditions {
        const UNKNOWN: [&str; 4] = ["object", "Object", "userInfo", "authorizer"];
        let is_known = |condition: &&Condition| match &condition.program {
            Ok(program) => !UNKNOWN.iter().any(|word| program.text().contains(word)),
            Err(_) => false,
        };
        Conditions(self.0.iter().filter(is_known).cloned().collect())
    }

    /// One that does not hold decides, whatever the others say.
    pub fn judge(
        &self,
        scope: &mut Scope<'_>,
        budget: &mut Budget,
        failure: FailurePolicy,
    ) -> Judged {
        let mut errors = Vec::new();
        for condition in &self.0 {
            match evaluate(&condition.program, scope, budget) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => {
                    return Judged {
                        met: Met::No {
                            condition: condition.name.clone(),
                        },
                        errors: count(&errors),
                    };
                }
                Ok(_) => errors.push("the condition is no bool".to_owned()),
                Err(Unevaluated::Here(text)) => errors.push(text),
                Err(Unevaluated::Everywhere(text)) => {
                    errors = vec![text];
                    break;
                }
            }
        }
        let met = match (errors.is_empty(), failure) {
            (true, _) => Met::Yes,
            (false, FailurePolicy::Ignore) => Met::Ignored,
            (false, FailurePolicy::Fail) => Met::Failed(aggregate(&errors)),
        };
        Judged {
            met,
            errors: count(&errors),
        }
    }
}

/// Why an expression has no value, in upstream's words.
#[derive(Debug)]
pub(crate) enum Unevaluated {
    Here(String),
    /// No other expression is to be evaluated either.
    Everywhere(String),
}

pub(crate) fn evaluate(
    program: &Result<Program, CompileError>,
    scope: &mut Scope<'_>,
    budget: &mut Budget,
) -> Result<Value, Unevaluated> {
    let program = match program {
        Ok(program) => program,
        Err(error) => return Err(Unevaluated::Here(format!("compilation error: {error}"))),
    };
    program
        .evaluate(scope, budget)
        .map_err(|error| match error {
            EvaluationError::OutOfBudget => Unevaluated::Everywhere(error.to_string()),
            _ => Unevaluated::Here(format!(
                "expression '{}' resulted in error: {error}",
                program.text()
            )),
        })
}

/// Several errors as Go shows them.
fn aggregate(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn count(errors: &[String]) -> u64 {
    errors.len().try_into().unwrap_or(u64::MAX)
}

pub(crate) fn text_of(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}
