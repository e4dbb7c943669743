//! Evaluation of comprehensions (cel-go: `evalFold`).

use super::interpretable::{EvalFold, FoldBody, FoldStep, Interpretable};
use super::{Interpreter, LIST_CREATE_BASE_COST};
use crate::ast::LogicalOperator;
use crate::error::{EvaluationError, EvaluationResult};
use crate::value::{ITEM_BYTES, ListValue, MapKey, MapValue, Value};
use std::sync::Arc;

/// The list or map that a comprehension iterates over.
enum IterRange {
    List(Arc<ListValue>),
    Map(Arc<MapValue>),
}

impl IterRange {
    fn len(&self) -> usize {
        match self {
            IterRange::List(list) => list.items().len(),
            IterRange::Map(map) => map.entries().len(),
        }
    }

    /// The values of the iteration variables.
    fn at(&self, index: usize, two_variables: bool) -> (Value, Value) {
        match self {
            IterRange::List(list) if two_variables => {
                let position = i64::try_from(index).unwrap_or(i64::MAX);
                (Value::Int(position), list.items()[index].clone())
            }
            IterRange::List(list) => (list.items()[index].clone(), Value::Null),
            IterRange::Map(map) => {
                let (key, value) = &map.entries()[index];
                (key.to_value(), value.clone())
            }
        }
    }
}

impl Interpreter<'_, '_> {
    pub(super) fn eval_fold(&mut self, fold: &EvalFold) -> EvaluationResult<Value> {
        let range = match self.evaluate(&fold.iter_range)? {
            Value::List(list) => IterRange::List(list),
            Value::Map(map) => IterRange::Map(map),
            other => {
                let name = go_type(&other);
                return Err(EvaluationError::new(format!(
                    "got '{name}', expected iterable type"
                )));
            }
        };
        if !matches!(fold.body, FoldBody::UnusedBind) {
            self.locals[fold.accu_slot] = self.evaluate(&fold.accu_init)?;
        }
        match &fold.body {
            FoldBody::Bind | FoldBody::UnusedBind => {}
            FoldBody::Quantifier(operator, predicate) => {
                return self.eval_quantifier(fold, &range, *operator, predicate);
            }
            FoldBody::ForEach(step) => {
                let mut last_error = None;
                for index in 0..range.len() {
                    self.set_iter_vars(fold, &range, index);
                    let result = match &last_error {
                        None => self.eval_fold_step(step, fold.accu_slot),
                        Some(_) => self.eval_fold_step_after_error(step),
                    };
                    match result {
                        Ok(()) => {}
                        Err(error) if error.can_be_absorbed() => last_error = Some(error),
                        Err(error) => return Err(error),
                    }
                }
                if let Some(error) = last_error {
                    return Err(error);
                }
            }
        }
        let result = self.evaluate(&fold.result);
        self.locals[fold.accu_slot] = Value::Null;
        result
    }

    fn set_iter_vars(&mut self, fold: &EvalFold, range: &IterRange, index: usize) {
        let (first, second) = range.at(index, fold.two_variables);
        self.locals[fold.accu_slot + 1] = first;
        if fold.two_variables {
            self.locals[fold.accu_slot + 2] = second;
        }
    }

    /// `all` and `exists`: an item that decides the result absorbs the errors of others.
    fn eval_quantifier(
        &mut self,
        fold: &EvalFold,
        range: &IterRange,
        operator: LogicalOperator,
        predicate: &Interpretable,
    ) -> EvaluationResult<Value> {
        let deciding_value = operator == LogicalOperator::Or;
        // Upstream's cost of the loop condition.
        let condition_cost = if deciding_value { 3 } else { 2 };
        let mut first_error = None;
        let mut is_decided = false;
        for index in 0..range.len() {
            self.budget.charge(condition_cost)?;
            if is_decided {
                break;
            }
            self.set_iter_vars(fold, range, index);
            self.budget.charge(1)?;
            match self.evaluate(predicate) {
                Ok(Value::Bool(value)) if value == deciding_value => is_decided = true,
                Ok(Value::Bool(_)) => {}
                Ok(_) => first_error = first_error.or(Some(EvaluationError::no_overload())),
                Err(error) if error.can_be_absorbed() => first_error = first_error.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        self.budget.charge(1)?;
        match first_error {
            Some(error) if !is_decided => Err(error),
            _ => Ok(Value::Bool(is_decided == deciding_value)),
        }
    }

    /// After an error the accumulator stays an error, but conditions are still evaluated: the last error is reported.
    fn eval_fold_step_after_error(&mut self, step: &FoldStep) -> EvaluationResult<()> {
        let FoldStep::Conditional(condition, _) = step else {
            return Ok(());
        };
        match self.evaluate(condition)? {
            Value::Bool(_) => Ok(()),
            _ => Err(EvaluationError::no_overload()),
        }
    }

    fn eval_fold_step(&mut self, step: &FoldStep, accu_slot: usize) -> EvaluationResult<()> {
        match step {
            FoldStep::Keep => self.budget.charge(1),
            FoldStep::Set(value) => {
                self.locals[accu_slot] = self.evaluate(value)?;
                Ok(())
            }
            FoldStep::Conditional(condition, step) => match self.evaluate(condition)? {
                Value::Bool(true) => self.eval_fold_step(step, accu_slot),
                Value::Bool(false) => Ok(()),
                _ => Err(EvaluationError::no_overload()),
            },
            FoldStep::Append(element) => {
                let value = self.evaluate(element)?;
                // The cost of the accumulator, of a list with one element, and of their concatenation.
                self.budget.charge(1 + LIST_CREATE_BASE_COST + 1)?;
                self.budget.allocate(ITEM_BYTES)?;
                let Value::List(list) = &mut self.locals[accu_slot] else {
                    return Err(EvaluationError::no_overload());
                };
                Arc::make_mut(list).push(value);
                self.locals[accu_slot].size().check_limits()
            }
            FoldStep::Insert(key, value) => {
                self.budget.charge(1)?;
                let key = self.evaluate(key)?;
                let value = self.evaluate(value)?;
                self.budget.charge(1)?;
                self.insert_into_accumulator(accu_slot, &key, value)
            }
            FoldStep::Merge(map) => {
                self.budget.charge(1)?;
                let Value::Map(map) = self.evaluate(map)? else {
                    return Err(EvaluationError::no_overload());
                };
                self.budget.charge(1)?;
                for (key, value) in map.entries() {
                    self.insert_into_accumulator(accu_slot, &key.to_value(), value.clone())?;
                }
                Ok(())
            }
        }
    }

    fn insert_into_accumulator(
        &mut self,
        accu_slot: usize,
        key: &Value,
        value: Value,
    ) -> EvaluationResult<()> {
        self.budget.allocate(2 * ITEM_BYTES)?;
        let Some(inserted) = MapKey::from_value(key) else {
            return Err(EvaluationError::no_overload());
        };
        let Value::Map(map) = &mut self.locals[accu_slot] else {
            return Err(EvaluationError::no_overload());
        };
        // The insertion moves the later entries.
        for _ in 0..map.entries().len() / 256 {
            self.budget.count_step()?;
        }
        if Arc::make_mut(map).insert(inserted, value).is_some() {
            let key = crate::library::strings::display_value(key);
            return Err(EvaluationError::new(format!(
                "insert failed: key {key} already exists"
            )));
        }
        self.locals[accu_slot].size().check_limits()
    }
}

/// The Go type of the native value inside a CEL value, for error messages.
pub(super) fn go_native_type(value: &Value) -> &str {
    match value {
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Bytes(_) => "[]uint8",
        Value::Null => "structpb.NullValue",
        Value::Timestamp(..) => "time.Time",
        Value::Duration(_) => "time.Duration",
        Value::Map(_) => "map[string]interface {}",
        Value::List(_) => "[]interface {}",
        other => other.type_name(),
    }
}

/// The Go type of a CEL value, for error messages.
fn go_type(value: &Value) -> String {
    let name = match value {
        Value::Null => "Null",
        Value::Bool(_) => "Bool",
        Value::Int(_) => "Int",
        Value::Uint(_) => "Uint",
        Value::Double(_) => "Double",
        Value::String(_) => "String",
        Value::Bytes(_) => "Bytes",
        Value::Timestamp(..) => "Timestamp",
        Value::Duration(_) => "Duration",
        Value::Optional(_) => return "*types.Optional".to_owned(),
        Value::Type(_) => return "*types.Type".to_owned(),
        other => return other.type_name().to_owned(),
    };
    format!("types.{name}")
}
