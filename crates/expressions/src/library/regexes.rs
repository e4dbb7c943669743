//! Regular expressions, with limited compiled size and matching in linear time.

use super::{FunctionTable, no_overload, regex_translation};
use crate::error::{EvaluationError, EvaluationResult};
use crate::interpreter::Interpreter;
use crate::limits;
use crate::value::{ITEM_BYTES, Value};
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable =
    &[("matches", matches), ("find", find), ("findAll", find_all)];

pub(crate) fn compile(pattern: &str) -> EvaluationResult<Regex> {
    let translated = regex_translation::translate(pattern)
        .map_err(|message| EvaluationError::new(format!("error parsing regexp: {message}")))?;
    RegexBuilder::new(&translated)
        .size_limit(limits::REGEX_BYTES_MAX)
        .dfa_size_limit(limits::REGEX_BYTES_MAX)
        .build()
        .map_err(|error| EvaluationError::new(go_error_text(pattern, &error)))
}

/// The error with the prefix that Go uses.
fn go_error_text(pattern: &str, error: &regex::Error) -> String {
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

/// The regex of this call: precompiled by the planner, or compiled now.
fn call_regex(interpreter: &mut Interpreter<'_, '_>, text: &str) -> EvaluationResult<Arc<Regex>> {
    match interpreter.regex.take() {
        Some(regex) => Ok(regex),
        None => {
            interpreter.budget.check_deadline()?;
            compile(text).map(Arc::new)
        }
    }
}

fn matches(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let regex = call_regex(interpreter, pattern)?;
            Ok(Value::Bool(regex.is_match(text)))
        }
        _ => no_overload(),
    }
}

fn illegal_regex_error(error: EvaluationError) -> EvaluationError {
    match error {
        EvaluationError::Failed(message) => {
            EvaluationError::new(format!("Illegal regex: {message}"))
        }
        other => other,
    }
}

fn find(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let regex = call_regex(interpreter, pattern).map_err(illegal_regex_error)?;
            let found = regex.find(text).map_or("", |found| found.as_str());
            interpreter.budget.allocate(found.len())?;
            Ok(Value::from(found))
        }
        _ => no_overload(),
    }
}

fn find_all(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let (text, pattern, limit) = match args {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [
            Value::String(text),
            Value::String(pattern),
            Value::Int(limit),
        ] => (text, pattern, *limit),
        _ => return no_overload(),
    };
    let regex = call_regex(interpreter, pattern).map_err(illegal_regex_error)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for occurrence in regex.find_iter(text).take(limit) {
        interpreter.budget.count_step()?;
        interpreter.budget.allocate(occurrence.len() + ITEM_BYTES)?;
        found.push(Value::from(occurrence.as_str()));
    }
    Ok(Value::list(found))
}
