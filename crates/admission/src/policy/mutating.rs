//! Evaluates the mutations of a MutatingAdmissionPolicy.

use std::time::Instant;

use rhumb_expressions::{
    Activation, CompileError, Environment, EvaluationBudget, JsonInput, Program, RequestInputs,
    ReturnTypes, Value as Cel,
};
use serde_json::{Map, Value, json};

use super::{CommonPolicySpec, array_items, compile};
use crate::Object;
use crate::match_conditions::{
    ExpressionFailure, MatchConditionsEvaluation, evaluate_expression, str_or_empty,
};
use crate::match_criteria::CriteriaFeatures;

/// A compiled MutatingAdmissionPolicy.
#[derive(Debug)]
pub struct MutatingPolicy {
    pub spec: CommonPolicySpec,
    /// Whether `reinvocationPolicy` is `IfNeeded`: call again if later plugins changed the object.
    pub reinvoke_if_needed: bool,
    mutations: Vec<CompiledMutation>,
}

/// A compiled entry of `spec.mutations`.
#[derive(Debug)]
enum CompiledMutation {
    Apply(Result<Program, CompileError>),
    Patch(Result<Program, CompileError>),
}

/// The result of evaluating a mutation: a change to apply to the object.
#[derive(Debug, Clone, PartialEq)]
pub enum EvaluatedMutation {
    /// An apply configuration, without apiVersion and kind.
    ApplyConfiguration(Object),
    /// The operations of a JSON patch.
    JsonPatch(Value),
}

impl MutatingPolicy {
    pub fn parse(policy: &Object, reading: CriteriaFeatures) -> MutatingPolicy {
        let nothing = Value::Null;
        let spec = policy.get("spec").unwrap_or(&nothing);
        let environment = Environment::mutation(spec["paramKind"].is_object());
        let (common, environment) = CommonPolicySpec::parse(policy, environment, reading);
        let mutation = |mutation: &Value| {
            let text = |field: &str| str_or_empty(&mutation[field]["expression"]).to_owned();
            if mutation["patchType"] == "JSONPatch" {
                let text = text("jsonPatch");
                CompiledMutation::Patch(compile(&environment, &text, ReturnTypes::JsonPatchList))
            } else {
                let text = text("applyConfiguration");
                CompiledMutation::Apply(compile(&environment, &text, ReturnTypes::Object))
            }
        };
        MutatingPolicy {
            mutations: array_items(&spec["mutations"])
                .iter()
                .map(mutation)
                .collect(),
            reinvoke_if_needed: spec["reinvocationPolicy"] == "IfNeeded",
            spec: common,
        }
    }

    /// The number of mutations. Each sees the result of the previous ones.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Evaluates its match conditions.
    pub fn evaluate_match_conditions<'a>(
        &'a self,
        inputs: &'a RequestInputs<'a>,
        params: Option<&'a JsonInput<'a>>,
        deadline: Instant,
    ) -> MatchConditionsEvaluation {
        let mut budget = EvaluationBudget::for_match_conditions(Some(deadline));
        let mut activation = self.activation(inputs, params);
        let head = &self.spec;
        head.match_conditions
            .evaluate(&mut activation, &mut budget, head.failure_policy)
    }

    /// Evaluates the mutation with this index.
    pub fn evaluate_mutation<'a>(
        &'a self,
        number: usize,
        inputs: &'a RequestInputs<'a>,
        params: Option<&'a JsonInput<'a>>,
        deadline: Instant,
    ) -> Result<EvaluatedMutation, String> {
        let mut activation = self.activation(inputs, params);
        let mut budget = EvaluationBudget::for_policy(Some(deadline));
        let mut run = |program: &Result<Program, CompileError>| {
            evaluate_expression(program, &mut activation, &mut budget).map_err(
                |error| match error {
                    ExpressionFailure::Expression(text)
                    | ExpressionFailure::BudgetExhausted(text) => text,
                },
            )
        };
        match self.mutations.get(number) {
            None => Err(format!("the policy has no mutation {number}")),
            Some(CompiledMutation::Apply(program)) => {
                apply_configuration_from(&run(program)?).map(EvaluatedMutation::ApplyConfiguration)
            }
            Some(CompiledMutation::Patch(program)) => {
                json_patch_from(&run(program)?).map(EvaluatedMutation::JsonPatch)
            }
        }
    }

    fn activation<'a>(
        &'a self,
        inputs: &'a RequestInputs<'a>,
        params: Option<&'a JsonInput<'a>>,
    ) -> Activation<'a> {
        let activation = self.spec.activation(inputs);
        match params {
            Some(params) => activation.with_params(params),
            None => activation,
        }
    }
}

fn apply_configuration_from(value: &Cel) -> Result<Object, String> {
    match value.to_json().map_err(|error| error.to_string())? {
        Value::Object(object) => Ok(object),
        _ => Err(format!(
            "unsupported return type from ApplyConfiguration expression: {}",
            value.type_name()
        )),
    }
}

/// Writes whole numbers as integers, even if the expression yielded a double.
fn normalize_integers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = number.to_string();
            let whole = text
                .strip_suffix(".0")
                .and_then(|text| text.parse::<i64>().ok());
            whole.map_or(Value::Number(number), Value::from)
        }
        Value::Array(items) => items.into_iter().map(normalize_integers).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(
                fields
                    .map(|(name, it)| (name, normalize_integers(it)))
                    .collect(),
            )
        }
        other => other,
    }
}

fn json_patch_from(value: &Cel) -> Result<Value, String> {
    let Cel::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let operation = |item: &Cel| {
        let Cel::JsonPatch(patch) = item else {
            return Err(format!(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {}",
                item.type_name()
            ));
        };
        let mut operation: Map<String, Value> = Map::new();
        operation.insert("op".into(), json!(&*patch.op));
        operation.insert("path".into(), json!(&*patch.path));
        if !patch.from.is_empty() {
            operation.insert("from".into(), json!(&*patch.from));
        }
        if let Some(value) = &patch.value {
            let value = value.to_json().map_err(|error| {
                format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
            })?;
            operation.insert("value".into(), normalize_integers(value));
        }
        Ok(Value::Object(operation))
    };
    let operations: Result<Vec<Value>, String> = list.items().iter().map(operation).collect();
    operations.map(Value::Array)
}
