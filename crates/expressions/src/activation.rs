//! Values of the variables that expressions use (cel-go: `Activation`).

use crate::authorizer::{PermissionChecker, ResourceCheck};
use crate::error::{EvaluationError, EvaluationResult};
use crate::json;
use crate::limits::EvaluationBudget;
use crate::program::CompositedVariables;
use crate::value::Value;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A JSON document that is converted to a CEL value once, on first use.
#[derive(Debug, Default)]
pub struct JsonInput<'a> {
    json: Option<&'a Json>,
    value: OnceLock<Value>,
}

impl<'a> JsonInput<'a> {
    pub fn new(json: &'a Json) -> JsonInput<'a> {
        JsonInput {
            json: Some(json),
            value: OnceLock::new(),
        }
    }

    /// An absent document, which is null in expressions.
    pub fn null() -> JsonInput<'a> {
        JsonInput::default()
    }

    pub(crate) fn value(&self) -> &Value {
        self.value
            .get_or_init(|| self.json.map_or(Value::Null, json::from_json))
    }
}

impl<'a> From<Option<&'a Json>> for JsonInput<'a> {
    fn from(json: Option<&'a Json>) -> JsonInput<'a> {
        json.map_or_else(JsonInput::null, JsonInput::new)
    }
}

/// The variables shared by all expressions evaluated for one request.
#[derive(Debug, Default)]
pub struct RequestInputs<'a> {
    pub object: JsonInput<'a>,
    pub old_object: JsonInput<'a>,
    /// An AdmissionRequest as JSON, without the objects.
    pub request: JsonInput<'a>,
    pub namespace_object: JsonInput<'a>,
    /// Answers `authorizer...check(...)` for the user of the request.
    pub authorizer: Option<&'a dyn PermissionChecker>,
    /// The value of `authorizer.requestResource`.
    pub request_resource: ResourceCheck,
}

/// The variables of one policy and one binding: the request inputs, the params, and lazily evaluated composited
/// variables. Upstream counterpart: `evaluationActivation`.
#[derive(Debug)]
pub struct Activation<'a> {
    pub(crate) inputs: &'a RequestInputs<'a>,
    pub(crate) params: Option<&'a JsonInput<'a>>,
    variables: Option<&'a CompositedVariables>,
    /// Results of the variables evaluated so far.
    evaluated: HashMap<Arc<str>, EvaluationResult<Value>>,
}

impl<'a> Activation<'a> {
    pub fn new(inputs: &'a RequestInputs<'a>) -> Activation<'a> {
        Activation {
            inputs,
            params: None,
            variables: None,
            evaluated: HashMap::new(),
        }
    }

    #[must_use]
    pub fn with_params(self, params: &'a JsonInput<'a>) -> Activation<'a> {
        Activation {
            params: Some(params),
            ..self
        }
    }

    #[must_use]
    pub fn with_variables(self, variables: &'a CompositedVariables) -> Activation<'a> {
        Activation {
            variables: Some(variables),
            ..self
        }
    }

    /// The value of a composited variable, evaluated on first use.
    pub(crate) fn variable(
        &mut self,
        name: &Arc<str>,
        budget: &mut EvaluationBudget,
    ) -> EvaluationResult<Value> {
        if let Some(evaluated) = self.evaluated.get(name) {
            return evaluated.clone();
        }
        let evaluated = self.evaluate_variable(name, budget);
        // Errors of the budget are not cached: another evaluation may have a larger budget.
        if evaluated
            .as_ref()
            .err()
            .is_none_or(EvaluationError::can_be_absorbed)
        {
            self.evaluated.insert(name.clone(), evaluated.clone());
        }
        evaluated
    }

    fn evaluate_variable(
        &mut self,
        name: &Arc<str>,
        budget: &mut EvaluationBudget,
    ) -> EvaluationResult<Value> {
        let quoted = rhumb_meta::gotext::quote(name).to_string();
        match self.variables.and_then(|variables| variables.get(name)) {
            None => Err(EvaluationError::new(format!("no such key: {name}"))),
            Some(Err(error)) => Err(EvaluationError::new(format!(
                "composited variable {quoted} fails to compile: {error}"
            ))),
            Some(Ok(program)) => {
                let program = program.clone();
                program.evaluate(self, budget).map_err(|error| match error {
                    EvaluationError::Failed(_) | EvaluationError::CostExceeded => {
                        EvaluationError::new(format!(
                            "composited variable {quoted} fails to evaluate: {error}"
                        ))
                    }
                    _ => error,
                })
            }
        }
    }
}
