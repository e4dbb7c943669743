//! Regular expressions, of limited size. They take time linear in the text.

use super::{Table, no_overload, pattern};
use crate::error::{Evaluated, EvaluationError};
use crate::limits;
use crate::run::Machine;
use crate::value::{ITEM_BYTES, Value};
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

pub(super) const TABLE: Table = &[("matches", matches), ("find", find), ("findAll", find_all)];

pub(crate) fn compile(pattern: &str) -> Evaluated<Regex> {
    let translated = pattern::translate(pattern)
        .map_err(|problem| EvaluationError::new(format!("error parsing regexp: {problem}")))?;
    RegexBuilder::new(&translated)
        .size_limit(limits::REGEX_BYTES_MAX)
        .dfa_size_limit(limits::REGEX_BYTES_MAX)
        .build()
        .map_err(|error| EvaluationError::new(problem(pattern, &error)))
}

/// In the words that Go begins such errors with.
fn problem(pattern: &str, error: &regex::Error) -> String {
    let detail = match error {
        regex::Error::CompiledTooBig(_) => "expression too large".to_owned(),
        error => error
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
    };
    format!("error parsing regexp: {detail}: `{pattern}`")
}

/// The pattern of this call, which may have been compiled when the expression was.
fn compiled(machine: &mut Machine<'_, '_>, text: &str) -> Evaluated<Arc<Regex>> {
    match machine.regex.take() {
        Some(regex) => Ok(regex),
        None => {
            machine.budget.look_at_clock()?;
            compile(text).map(Arc::new)
        }
    }
}

fn matches(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::String(text), Value::String(wanted)] => {
            let regex = compiled(machine, wanted)?;
            Ok(Value::Bool(regex.is_match(text)))
        }
        _ => no_overload(),
    }
}

fn illegal(error: EvaluationError) -> EvaluationError {
    match error {
        EvaluationError::Failed(problem) => {
            EvaluationError::new(format!("Illegal regex: {problem}"))
        }
        other => other,
    }
}

fn find(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::String(text), Value::String(wanted)] => {
            let regex = compiled(machine, wanted).map_err(illegal)?;
            let found = regex.find(text).map_or("", |found| found.as_str());
            machine.budget.allocate(found.len())?;
            Ok(Value::from(found))
        }
        _ => no_overload(),
    }
}

fn find_all(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (text, wanted, limit) = match args {
        [Value::String(text), Value::String(wanted)] => (text, wanted, -1),
        [
            Value::String(text),
            Value::String(wanted),
            Value::Int(limit),
        ] => (text, wanted, *limit),
        _ => return no_overload(),
    };
    let regex = compiled(machine, wanted).map_err(illegal)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(limit) {
        machine.budget.step()?;
        machine.budget.allocate(part.len() + ITEM_BYTES)?;
        found.push(Value::from(part.as_str()));
    }
    Ok(Value::list(found))
}
