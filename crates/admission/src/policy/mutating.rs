//! What a mutating policy wants to be changed.

use std::time::Instant;

use rhumb_expressions::{
    Budget, CompileError, Environment, Input, Inputs, Program, Scope, Value as Cel, Want,
};
use serde_json::{Map, Value, json};

use super::{Head, compile, items};
use crate::Object;
use crate::conditions::{Judged, Unevaluated, evaluate, text_of};
use crate::criteria::Reading;

#[derive(Debug)]
pub struct MutatingPolicy {
    pub head: Head,
    /// Whether it wants to be asked again when others have changed the object after it.
    pub reinvoked: bool,
    mutations: Vec<Mutation>,
}

#[derive(Debug)]
enum Mutation {
    Apply(Result<Program, CompileError>),
    Patch(Result<Program, CompileError>),
}

/// One change to an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An apply configuration, without apiVersion and kind.
    Apply(Object),
    /// The operations of a JSON patch.
    Patch(Value),
}

impl MutatingPolicy {
    pub fn read(policy: &Object, reading: Reading) -> MutatingPolicy {
        let nothing = Value::Null;
        let spec = policy.get("spec").unwrap_or(&nothing);
        let environment = Environment::mutation(spec["paramKind"].is_object());
        let (head, environment) = Head::read(policy, environment, reading);
        let mutation = |mutation: &Value| {
            let text = |field: &str| text_of(&mutation[field]["expression"]).to_owned();
            if mutation["patchType"] == "JSONPatch" {
                let text = text("jsonPatch");
                Mutation::Patch(compile(&environment, &text, Want::Patches))
            } else {
                let text = text("applyConfiguration");
                Mutation::Apply(compile(&environment, &text, Want::Object))
            }
        };
        MutatingPolicy {
            mutations: items(&spec["mutations"]).iter().map(mutation).collect(),
            reinvoked: spec["reinvocationPolicy"] == "IfNeeded",
            head,
        }
    }

    /// How many changes it makes. Each sees what the ones before it made.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Whether its conditions hold.
    pub fn judge<'a>(
        &'a self,
        inputs: &'a Inputs<'a>,
        params: Option<&'a Input<'a>>,
        deadline: Instant,
    ) -> Judged {
        let mut budget = Budget::for_match_conditions(Some(deadline));
        let mut scope = self.scope(inputs, params);
        let head = &self.head;
        head.conditions.judge(&mut scope, &mut budget, head.failure)
    }

    /// The change with this number, or why there is none.
    pub fn change<'a>(
        &'a self,
        number: usize,
        inputs: &'a Inputs<'a>,
        params: Option<&'a Input<'a>>,
        deadline: Instant,
    ) -> Result<Change, String> {
        let mut scope = self.scope(inputs, params);
        let mut budget = Budget::for_policy(Some(deadline));
        let mut run = |program: &Result<Program, CompileError>| {
            evaluate(program, &mut scope, &mut budget).map_err(|error| match error {
                Unevaluated::Here(text) | Unevaluated::Everywhere(text) => text,
            })
        };
        match self.mutations.get(number) {
            None => Err("there is no such mutation".to_owned()),
            Some(Mutation::Apply(program)) => configuration(&run(program)?).map(Change::Apply),
            Some(Mutation::Patch(program)) => operations(&run(program)?).map(Change::Patch),
        }
    }

    fn scope<'a>(&'a self, inputs: &'a Inputs<'a>, params: Option<&'a Input<'a>>) -> Scope<'a> {
        let scope = self.head.scope(inputs);
        match params {
            Some(params) => scope.with_params(params),
            None => scope,
        }
    }
}

fn configuration(value: &Cel) -> Result<Object, String> {
    match value.to_json().map_err(|error| error.to_string())? {
        Value::Object(object) => Ok(object),
        _ => Err(format!(
            "unsupported return type from ApplyConfiguration expression: {}",
            value.type_name()
        )),
    }
}

/// Whole numbers are written without a point, whatever their type was.
fn plain_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = number.to_string();
            let whole = text
                .strip_suffix(".0")
                .and_then(|text| text.parse::<i64>().ok());
            whole.map_or(Value::Number(number), Value::from)
        }
        Value::Array(items) => items.into_iter().map(plain_numbers).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(fields.map(|(name, it)| (name, plain_numbers(it))).collect())
        }
        other => other,
    }
}

fn operations(value: &Cel) -> Result<Value, String> {
    let Cel::List(list) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    let operation = |item: &Cel| {
        let Cel::Patch(patch) = item else {
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
            operation.insert("value".into(), plain_numbers(value));
        }
        Ok(Value::Object(operation))
    };
    let operations: Result<Vec<Value>, String> = list.items().iter().map(operation).collect();
    operations.map(Value::Array)
}
