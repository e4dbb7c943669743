//! Plans and evaluates a checked expression. [`plan`] creates a [`ProgramPlan`], which [`Interpreter::run`] evaluates.
//! Upstream counterpart: cel-go's `interpreter` package.

mod call_cost;
pub(crate) mod compare;
mod comprehensions;
mod interpretable;
mod planner;

pub(crate) use interpretable::ProgramPlan;
pub(crate) use planner::plan;

use crate::activation::Activation;
use crate::ast::LogicalOperator;
use crate::environment::BuiltinVariable;
use crate::error::{EvaluationError, EvaluationResult};
use crate::library::{self, opaque_value::OpaqueValue};
use crate::limits::{self, EvaluationBudget};
use crate::value::{ITEM_BYTES, JsonPatchValue, ListValue, MapKey, MapValue, ObjectValue, Value};
use interpretable::{
    EvalCall, EvalIndex, EvalOptionalOr, EvalSelect, EvalStruct, Interpretable, SelectKind,
};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::Arc;

const LIST_CREATE_BASE_COST: u64 = 10;
const MAP_CREATE_BASE_COST: u64 = 30;
const STRUCT_CREATE_BASE_COST: u64 = 40;

/// The state of one evaluation of one expression.
#[derive(Debug)]
pub(crate) struct Interpreter<'m, 's> {
    plan: &'m ProgramPlan,
    pub(crate) activation: &'m mut Activation<'s>,
    pub(crate) budget: &'m mut EvaluationBudget,
    locals: Vec<Value>,
    /// The precompiled regex of the current call, if its pattern is constant. Shared, because a clone would start with
    /// an empty match cache.
    pub(crate) regex: Option<Arc<Regex>>,
}

impl<'m, 's> Interpreter<'m, 's> {
    pub(crate) fn new(
        plan: &'m ProgramPlan,
        activation: &'m mut Activation<'s>,
        budget: &'m mut EvaluationBudget,
    ) -> Interpreter<'m, 's> {
        Interpreter {
            plan,
            activation,
            budget,
            locals: vec![Value::Null; plan.local_count],
            regex: None,
        }
    }

    pub(crate) fn run(mut self) -> EvaluationResult<Value> {
        self.budget.check_deadline()?;
        let plan = self.plan;
        self.evaluate(&plan.root)
    }

    fn evaluate(&mut self, interpretable: &Interpretable) -> EvaluationResult<Value> {
        self.budget.count_step()?;
        if self.budget.depth >= limits::EVALUATION_DEPTH_MAX {
            return Err(EvaluationError::TooDeep);
        }
        self.budget.depth += 1;
        let value = self.dispatch(interpretable);
        self.budget.depth -= 1;
        value
    }

    fn dispatch(&mut self, interpretable: &Interpretable) -> EvaluationResult<Value> {
        match interpretable {
            Interpretable::Constant(value) => Ok(value.clone()),
            Interpretable::Local(slot) => {
                self.budget.charge(1)?;
                Ok(self.locals[*slot].clone())
            }
            Interpretable::Builtin(variable) => self.resolve_builtin(*variable),
            Interpretable::CompositedVariable(name) => {
                self.budget.charge(2)?;
                self.activation.variable(name, self.budget)
            }
            Interpretable::Select(select) => self.eval_select(select),
            Interpretable::Index(index) => self.eval_index(index),
            Interpretable::Logical(operator, terms) => self.eval_logical(*operator, terms),
            Interpretable::Conditional(branches) => self.eval_conditional(branches),
            Interpretable::OptionalOr(optional_or) => self.eval_optional_or(optional_or),
            Interpretable::Call(call) => self.eval_call(call),
            Interpretable::CreateList(elements) => self.eval_create_list(elements),
            Interpretable::CreateMap(entries) => self.eval_create_map(entries),
            Interpretable::CreateStruct(message) => self.eval_create_struct(message),
            Interpretable::Fold(fold) => self.eval_fold(fold),
            Interpretable::SetMembership(item, list) => {
                let item = self.evaluate(item)?;
                self.set_membership(&item, list)
            }
        }
    }

    fn resolve_builtin(&mut self, variable: BuiltinVariable) -> EvaluationResult<Value> {
        self.budget.charge(1)?;
        let inputs = self.activation.inputs;
        let missing = |name: &str| EvaluationError::new(format!("no such attribute(s): {name}"));
        Ok(match variable {
            BuiltinVariable::Object => inputs.object.value().clone(),
            BuiltinVariable::OldObject => inputs.old_object.value().clone(),
            BuiltinVariable::Request => inputs.request.value().clone(),
            BuiltinVariable::NamespaceObject => inputs.namespace_object.value().clone(),
            BuiltinVariable::Params => match self.activation.params {
                Some(params) => params.value().clone(),
                None => Value::Null,
            },
            BuiltinVariable::Authorizer => match inputs.authorizer {
                Some(_) => Value::Opaque(OpaqueValue::Authorizer(Arc::default())),
                None => return Err(missing("authorizer")),
            },
            BuiltinVariable::RequestResource => match inputs.authorizer {
                Some(_) => Value::Opaque(OpaqueValue::ResourceCheck(Arc::new((
                    Arc::default(),
                    inputs.request_resource.clone(),
                )))),
                None => return Err(missing("authorizer.requestResource")),
            },
            // The planner resolves `variables.<name>`; the bare name evaluates to an empty map.
            BuiltinVariable::Variables => Value::Map(Arc::default()),
        })
    }

    fn eval_select(&mut self, select: &EvalSelect) -> EvaluationResult<Value> {
        if let (Interpretable::Builtin(BuiltinVariable::Variables), false) =
            (&select.operand, select.kind == SelectKind::Field)
        {
            self.budget.charge(1)?;
            let value = self.activation.variable(&select.field, self.budget)?;
            return Ok(match select.kind {
                SelectKind::TestOnly => Value::Bool(true),
                _ => Value::some(value),
            });
        }
        let operand = self.evaluate(&select.operand)?;
        self.budget.charge(select.extra_cost)?;
        if let Value::Optional(inner) = &operand {
            return self.eval_optional_select(select, inner.as_deref());
        }
        let selected = select_field(&operand, &select.field)?;
        match select.kind {
            SelectKind::TestOnly => Ok(Value::Bool(is_set(
                &operand,
                &select.field,
                selected.as_ref(),
            ))),
            SelectKind::Field => {
                self.budget.charge(1)?;
                selected.ok_or_else(|| no_such_key(&Value::String(select.field.clone())))
            }
            SelectKind::Optional => self.optional_of(selected),
        }
    }

    fn optional_of(&mut self, selected: Option<Value>) -> EvaluationResult<Value> {
        Ok(match selected {
            Some(value) => {
                self.budget.charge(1)?;
                Value::some(value)
            }
            None => Value::NONE,
        })
    }

    /// Selection from an optional yields an optional; from none it yields none.
    fn eval_optional_select(
        &mut self,
        select: &EvalSelect,
        inner: Option<&Value>,
    ) -> EvaluationResult<Value> {
        let selected = match inner {
            Some(inner) => select_field(inner, &select.field)?,
            None => None,
        };
        match select.kind {
            SelectKind::TestOnly => {
                if inner.is_none() {
                    self.budget.refund(1);
                }
                Ok(Value::Bool(selected.is_some()))
            }
            _ => self.optional_of(selected),
        }
    }

    fn eval_index(&mut self, index: &EvalIndex) -> EvaluationResult<Value> {
        let operand = self.evaluate(&index.operand)?;
        self.budget.charge(index.extra_cost)?;
        let (operand, optional) = match operand {
            Value::Optional(None) => return Ok(Value::NONE),
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            other => (other, index.optional),
        };
        let index_operand = self.evaluate_operand(&index.index)?;
        if optional {
            let selected = index_value(&operand, &index_operand).ok();
            return self.optional_of(selected);
        }
        self.budget.charge(1)?;
        index_value(&operand, &index_operand)
    }

    fn eval_logical(
        &mut self,
        operator: LogicalOperator,
        terms: &[Interpretable],
    ) -> EvaluationResult<Value> {
        let deciding_value = operator == LogicalOperator::Or;
        let mut first_error = None;
        for term in terms {
            match self.evaluate(term) {
                Ok(Value::Bool(value)) if value == deciding_value => {
                    return Ok(Value::Bool(deciding_value));
                }
                Ok(Value::Bool(_)) => {}
                Ok(_) => first_error = first_error.or(Some(EvaluationError::no_overload())),
                Err(error) if error.can_be_absorbed() => first_error = first_error.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!deciding_value)),
        }
    }

    fn eval_conditional(
        &mut self,
        [condition, then_branch, else_branch]: &[Interpretable; 3],
    ) -> EvaluationResult<Value> {
        match self.evaluate(condition)? {
            Value::Bool(true) => self.evaluate_operand(then_branch),
            Value::Bool(false) => self.evaluate_operand(else_branch),
            _ => Err(EvaluationError::no_overload()),
        }
    }

    /// Evaluates an operand in a position where upstream does not charge for an identifier.
    fn evaluate_operand(&mut self, interpretable: &Interpretable) -> EvaluationResult<Value> {
        let value = self.evaluate(interpretable)?;
        if interpretable.is_attribute() {
            self.budget.refund(1);
        }
        Ok(value)
    }

    fn eval_optional_or(&mut self, optional_or: &EvalOptionalOr) -> EvaluationResult<Value> {
        match self.evaluate(&optional_or.optional)? {
            Value::Optional(None) => self.evaluate(&optional_or.alternative),
            Value::Optional(Some(value)) if optional_or.unwrap => Ok(Value::clone(&value)),
            other => Ok(other),
        }
    }

    fn eval_call(&mut self, call: &EvalCall) -> EvaluationResult<Value> {
        let mut args = Vec::with_capacity(call.args.len());
        for arg in &call.args {
            args.push(self.evaluate(arg)?);
        }
        let cost = call.cost.before_call(self.budget, &args)?;
        self.budget.charge(cost)?;
        self.regex.clone_from(&call.regex);
        let result = (call.function)(self, &args)
            .map_err(|error| library::describe_missing_overload(call.name, &args, error))?;
        self.budget.charge(call.cost.after_call(&result))?;
        Ok(result)
    }

    fn eval_create_list(&mut self, elements: &[(bool, Interpretable)]) -> EvaluationResult<Value> {
        self.budget.allocate(elements.len() * ITEM_BYTES)?;
        let mut list = ListValue::default();
        for (optional, element) in elements {
            let value = self.evaluate(element)?;
            match (optional, value) {
                (false, value) => list.push(value),
                (true, Value::Optional(Some(value))) => list.push(Value::clone(&value)),
                (true, Value::Optional(None)) => {}
                (true, value) => {
                    let displayed = library::strings::display_value(&value);
                    return Err(EvaluationError::new(format!(
                        "cannot initialize optional list element from non-optional value {displayed}"
                    )));
                }
            }
        }
        self.budget.charge(LIST_CREATE_BASE_COST)?;
        self.check_size(Value::List(Arc::new(list)))
    }

    /// Returns the value, or an error if it exceeds the size limit.
    pub(crate) fn check_size(&self, value: Value) -> EvaluationResult<Value> {
        value.size().check_limits()?;
        Ok(value)
    }

    fn eval_create_map(
        &mut self,
        entries: &[(bool, Interpretable, Interpretable)],
    ) -> EvaluationResult<Value> {
        self.budget.allocate(entries.len() * ITEM_BYTES * 2)?;
        let mut map = MapValue::default();
        for (optional, key, value) in entries {
            let key = self.evaluate(key)?;
            let value = self.evaluate(value)?;
            let Some(key) = MapKey::from_value(&key) else {
                let name = key.type_name();
                return Err(EvaluationError::new(format!(
                    "unsupported key type: {name}"
                )));
            };
            if let Some(value) = self.entry_value(*optional, &key.to_value(), value)? {
                map.insert(key, value);
            }
        }
        self.budget.charge(MAP_CREATE_BASE_COST)?;
        self.check_size(Value::Map(Arc::new(map)))
    }

    /// The value of a map entry or field; `None` for an optional entry without a value.
    fn entry_value(
        &self,
        optional: bool,
        name: &Value,
        value: Value,
    ) -> EvaluationResult<Option<Value>> {
        match (optional, value) {
            (false, value) => Ok(Some(value)),
            (true, Value::Optional(value)) => Ok(value.map(|value| Value::clone(&value))),
            (true, value) => {
                let (name, displayed) = (
                    library::strings::display_value(name),
                    library::strings::display_value(&value),
                );
                Err(EvaluationError::new(format!(
                    "cannot initialize optional entry '{name}' from non-optional value {displayed}"
                )))
            }
        }
    }

    fn eval_create_struct(&mut self, message: &EvalStruct) -> EvaluationResult<Value> {
        self.budget
            .allocate(message.fields.len() * ITEM_BYTES * 2)?;
        let mut fields = BTreeMap::new();
        for (optional, name, value) in &message.fields {
            let value = self.evaluate(value)?;
            if let Some(value) = self.entry_value(*optional, &Value::String(name.clone()), value)? {
                fields.insert(name.clone(), value);
            }
        }
        self.budget.charge(STRUCT_CREATE_BASE_COST)?;
        let value = match &*message.type_name {
            "JSONPatch" => Value::JsonPatch(Arc::new(json_patch_from_fields(fields)?)),
            _ => Value::Object(Arc::new(ObjectValue {
                type_name: message.type_name.clone(),
                fields,
            })),
        };
        self.check_size(value)
    }
}

fn json_patch_from_fields(fields: BTreeMap<Arc<str>, Value>) -> EvaluationResult<JsonPatchValue> {
    let mut patch = JsonPatchValue::default();
    for (name, value) in fields {
        let text = match (&*name, &value) {
            ("op", Value::String(_)) => &mut patch.op,
            ("from", Value::String(_)) => &mut patch.from,
            ("path", Value::String(_)) => &mut patch.path,
            ("value", _) => {
                patch.value = Some(value);
                continue;
            }
            ("op" | "from" | "path", _) => {
                let go_type = comprehensions::go_native_type(&value);
                return Err(EvaluationError::new(format!(
                    "unexpected type {go_type} for JSONPatchType '{name}' field"
                )));
            }
            _ => {
                return Err(EvaluationError::new(format!(
                    "unexpected JSONPatchType field: {name}"
                )));
            }
        };
        if let Value::String(value) = value {
            *text = value;
        }
    }
    Ok(patch)
}

fn no_such_key(key: &Value) -> EvaluationError {
    let key = library::strings::display_value(key);
    EvaluationError::new(format!("no such key: {key}"))
}

/// The value of a field, if the operand has it.
fn select_field(operand: &Value, name: &Arc<str>) -> EvaluationResult<Option<Value>> {
    Ok(match operand {
        Value::Map(map) => map.get_str(name).cloned(),
        Value::Object(object) => Some(object.fields.get(name).cloned().unwrap_or(Value::Null)),
        Value::JsonPatch(patch) => match &**name {
            "op" => Some(Value::String(patch.op.clone())),
            "from" => Some(Value::String(patch.from.clone())),
            "path" => Some(Value::String(patch.path.clone())),
            _ => Some(patch.value.clone().unwrap_or(Value::Null)),
        },
        Value::List(_) => {
            return Err(EvaluationError::new(
                "unsupported index type 'string' in list",
            ));
        }
        _ => None,
    })
}

/// The result of `has()`: an empty string field of JSONPatch counts as not set.
fn is_set(operand: &Value, name: &str, selected: Option<&Value>) -> bool {
    match (operand, selected) {
        (Value::Object(object), _) => object.fields.contains_key(name),
        (Value::JsonPatch(patch), _) if name == "value" => patch.value.is_some(),
        (Value::JsonPatch(_), Some(Value::String(text))) => !text.is_empty(),
        (_, selected) => selected.is_some(),
    }
}

/// The element at an index of a list, map or message.
fn index_value(operand: &Value, index: &Value) -> EvaluationResult<Value> {
    match operand {
        Value::List(list) => {
            let position = list_index(index)?;
            usize::try_from(position)
                .ok()
                .and_then(|position| list.items().get(position))
                .cloned()
                .ok_or_else(|| EvaluationError::new(format!("index out of bounds: {position}")))
        }
        Value::Map(map) => MapKey::for_lookup(index)
            .and_then(|key| map.get(&key).cloned())
            .ok_or_else(|| no_such_key(index)),
        Value::Object(_) | Value::JsonPatch(_) => match index {
            Value::String(name) => select_field(operand, name)?.ok_or_else(|| no_such_key(index)),
            _ => Err(no_such_key(index)),
        },
        _ => Err(no_such_key(index)),
    }
}

fn list_index(index: &Value) -> EvaluationResult<i64> {
    let displayed = || library::strings::display_value(index);
    let position = match index {
        Value::Int(int) => Some(*int),
        Value::Uint(uint) => i64::try_from(*uint).ok(),
        Value::Double(double) => compare::double_to_int(*double),
        _ => {
            let name = index.type_name();
            return Err(EvaluationError::new(format!(
                "unsupported index type '{name}' in list"
            )));
        }
    };
    position.ok_or_else(|| {
        EvaluationError::new(format!("unsupported index value {} in list", displayed()))
    })
}
