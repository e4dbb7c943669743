//! Loops over lists and maps.

use super::plan::{Body, FoldPlan, Node, Step};
use super::{LIST_COST, Machine};
use crate::error::{Evaluated, EvaluationError};
use crate::syntax::ast::Logic;
use crate::value::{ITEM_BYTES, Key, List, Map, Value};
use std::sync::Arc;

/// What a loop runs over: the values of the first and, if there are two, of the second variable.
enum Range {
    List(Arc<List>),
    Map(Arc<Map>),
}

impl Range {
    fn len(&self) -> usize {
        match self {
            Range::List(list) => list.items().len(),
            Range::Map(map) => map.entries().len(),
        }
    }

    fn at(&self, index: usize, two: bool) -> (Value, Value) {
        match self {
            Range::List(list) if two => {
                let position = i64::try_from(index).unwrap_or(i64::MAX);
                (Value::Int(position), list.items()[index].clone())
            }
            Range::List(list) => (list.items()[index].clone(), Value::Null),
            Range::Map(map) => {
                let (key, value) = &map.entries()[index];
                (key.to_value(), value.clone())
            }
        }
    }
}

impl Machine<'_, '_> {
    pub(super) fn fold(&mut self, fold: &FoldPlan) -> Evaluated<Value> {
        let range = match self.evaluate(&fold.range)? {
            Value::List(list) => Range::List(list),
            Value::Map(map) => Range::Map(map),
            other => {
                let name = go_type(&other);
                return Err(EvaluationError::new(format!(
                    "got '{name}', expected iterable type"
                )));
            }
        };
        if !matches!(fold.body, Body::Unused) {
            self.locals[fold.slot] = self.evaluate(&fold.init)?;
        }
        match &fold.body {
            Body::Bind | Body::Unused => {}
            Body::Quantifier(operator, predicate) => {
                return self.quantifier(fold, &range, *operator, predicate);
            }
            Body::Every(step) => {
                let mut failed = None;
                for index in 0..range.len() {
                    self.set_variables(fold, &range, index);
                    let done = match &failed {
                        None => self.step(step, fold.slot),
                        Some(_) => self.step_after_failure(step),
                    };
                    match done {
                        Ok(()) => {}
                        Err(error) if error.can_be_absorbed() => failed = Some(error),
                        Err(error) => return Err(error),
                    }
                }
                if let Some(error) = failed {
                    return Err(error);
                }
            }
        }
        let result = self.evaluate(&fold.result);
        self.locals[fold.slot] = Value::Null;
        result
    }

    fn set_variables(&mut self, fold: &FoldPlan, range: &Range, index: usize) {
        let (first, second) = range.at(index, fold.two);
        self.locals[fold.slot + 1] = first;
        if fold.two {
            self.locals[fold.slot + 2] = second;
        }
    }

    /// `all` and `exists`. An item that decides makes up for errors of others.
    fn quantifier(
        &mut self,
        fold: &FoldPlan,
        range: &Range,
        operator: Logic,
        predicate: &Node,
    ) -> Evaluated<Value> {
        let decides = operator == Logic::Or;
        // What upstream takes for asking whether to go on.
        let condition_cost = if decides { 3 } else { 2 };
        let mut failed = None;
        let mut decided = false;
        for index in 0..range.len() {
            self.budget.charge(condition_cost)?;
            if decided {
                break;
            }
            self.set_variables(fold, range, index);
            self.budget.charge(1)?;
            match self.evaluate(predicate) {
                Ok(Value::Bool(value)) if value == decides => decided = true,
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvaluationError::no_overload())),
                Err(error) if error.can_be_absorbed() => failed = failed.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        self.budget.charge(1)?;
        match failed {
            Some(error) if !decided => Err(error),
            _ => Ok(Value::Bool(decided == decides)),
        }
    }

    /// Once the accumulator is an error it stays one; which one, the last condition decides that fails.
    fn step_after_failure(&mut self, step: &Step) -> Evaluated<()> {
        let Step::When(condition, _) = step else {
            return Ok(());
        };
        match self.evaluate(condition)? {
            Value::Bool(_) => Ok(()),
            _ => Err(EvaluationError::no_overload()),
        }
    }

    fn step(&mut self, step: &Step, slot: usize) -> Evaluated<()> {
        match step {
            Step::Keep => self.budget.charge(1),
            Step::Set(node) => {
                self.locals[slot] = self.evaluate(node)?;
                Ok(())
            }
            Step::When(condition, then) => match self.evaluate(condition)? {
                Value::Bool(true) => self.step(then, slot),
                Value::Bool(false) => Ok(()),
                _ => Err(EvaluationError::no_overload()),
            },
            Step::Append(node) => {
                let value = self.evaluate(node)?;
                // The accumulator, a list of one, and their sum.
                self.budget.charge(1 + LIST_COST + 1)?;
                self.budget.allocate(ITEM_BYTES)?;
                let Value::List(list) = &mut self.locals[slot] else {
                    return Err(EvaluationError::no_overload());
                };
                Arc::make_mut(list).push(value);
                self.locals[slot].extent().check()
            }
            Step::Insert(key, value) => {
                self.budget.charge(1)?;
                let key = self.evaluate(key)?;
                let value = self.evaluate(value)?;
                self.budget.charge(1)?;
                self.insert(slot, &key, value)
            }
            Step::Merge(node) => {
                self.budget.charge(1)?;
                let Value::Map(map) = self.evaluate(node)? else {
                    return Err(EvaluationError::no_overload());
                };
                self.budget.charge(1)?;
                for (key, value) in map.entries() {
                    self.insert(slot, &key.to_value(), value.clone())?;
                }
                Ok(())
            }
        }
    }

    fn insert(&mut self, slot: usize, key: &Value, value: Value) -> Evaluated<()> {
        self.budget.allocate(2 * ITEM_BYTES)?;
        let Some(inserted) = Key::from_value(key) else {
            return Err(EvaluationError::no_overload());
        };
        let Value::Map(map) = &mut self.locals[slot] else {
            return Err(EvaluationError::no_overload());
        };
        // What comes later in the map is moved.
        for _ in 0..map.entries().len() / 256 {
            self.budget.step()?;
        }
        if Arc::make_mut(map).insert(inserted, value).is_some() {
            let key = crate::library::text::show(key);
            return Err(EvaluationError::new(format!(
                "insert failed: key {key} already exists"
            )));
        }
        self.locals[slot].extent().check()
    }
}

/// What upstream calls the type of what is inside of a value.
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

/// What upstream calls the type of a value that cannot be iterated over.
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
