//! What expressions are evaluated on.

use crate::authorizer::{Authorizer, ResourceCheck};
use crate::error::{Evaluated, EvaluationError};
use crate::json;
use crate::limits::Budget;
use crate::program::Variables;
use crate::value::Value;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A document that is converted when the first expression looks at it, and only once.
#[derive(Debug, Default)]
pub struct Input<'a> {
    json: Option<&'a Json>,
    value: OnceLock<Value>,
}

impl<'a> Input<'a> {
    pub fn new(json: &'a Json) -> Input<'a> {
        Input {
            json: Some(json),
            value: OnceLock::new(),
        }
    }

    /// A document that is not there, which expressions see as null.
    pub fn null() -> Input<'a> {
        Input::default()
    }

    pub(crate) fn value(&self) -> &Value {
        self.value
            .get_or_init(|| self.json.map_or(Value::Null, json::from_json))
    }
}

impl<'a> From<Option<&'a Json>> for Input<'a> {
    fn from(json: Option<&'a Json>) -> Input<'a> {
        json.map_or_else(Input::null, Input::new)
    }
}

/// What all expressions see that are evaluated for one request.
#[derive(Debug, Default)]
pub struct Inputs<'a> {
    pub object: Input<'a>,
    pub old_object: Input<'a>,
    /// An AdmissionRequest as JSON, without the objects.
    pub request: Input<'a>,
    pub namespace_object: Input<'a>,
    /// Who answers `authorizer...check(...)`, for the user of the request.
    pub authorizer: Option<&'a dyn Authorizer>,
    /// What the request is about: `authorizer.requestResource`.
    pub request_resource: ResourceCheck,
}

/// What the expressions of one policy see, for one binding: the inputs of the request, parameters, variables, and
/// what variables have turned out to be.
#[derive(Debug)]
pub struct Scope<'a> {
    pub(crate) inputs: &'a Inputs<'a>,
    pub(crate) params: Option<&'a Input<'a>>,
    variables: Option<&'a Variables>,
    found: HashMap<Arc<str>, Evaluated<Value>>,
}

impl<'a> Scope<'a> {
    pub fn new(inputs: &'a Inputs<'a>) -> Scope<'a> {
        Scope {
            inputs,
            params: None,
            variables: None,
            found: HashMap::new(),
        }
    }

    #[must_use]
    pub fn with_params(self, params: &'a Input<'a>) -> Scope<'a> {
        Scope {
            params: Some(params),
            ..self
        }
    }

    #[must_use]
    pub fn with_variables(self, variables: &'a Variables) -> Scope<'a> {
        Scope {
            variables: Some(variables),
            ..self
        }
    }

    /// The value of a variable, which is evaluated when it is first asked for.
    pub(crate) fn variable(&mut self, name: &Arc<str>, budget: &mut Budget) -> Evaluated<Value> {
        if let Some(found) = self.found.get(name) {
            return found.clone();
        }
        let found = self.evaluate_variable(name, budget);
        // What has run out of time or cost may have more of it another time.
        if found
            .as_ref()
            .err()
            .is_none_or(EvaluationError::can_be_absorbed)
        {
            self.found.insert(name.clone(), found.clone());
        }
        found
    }

    fn evaluate_variable(&mut self, name: &Arc<str>, budget: &mut Budget) -> Evaluated<Value> {
        let quoted = rhumb_meta::gotext::quote(name).to_string();
        match self.variables.and_then(|variables| variables.get(name)) {
            None => Err(EvaluationError::new(format!("no such key: {name}"))),
            Some(Err(problem)) => Err(EvaluationError::new(format!(
                "composited variable {quoted} fails to compile: {problem}"
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
