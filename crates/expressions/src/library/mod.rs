//! Implementations of the CEL functions, by name: the standard library, cel-go's extensions, and the libraries of
//! upstream's `apiserver/pkg/cel/library`.
//!
//! Functions check the types of their arguments: the type checker does not know those of dyn expressions.

mod authorization;
mod conversions;
mod lists;
mod named_formats;
mod net;
pub(crate) mod opaque_value;
mod operators;
mod optionals;
mod quantities_and_versions;
mod regex_translation;
pub(crate) mod regexes;
mod semver;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod time;
mod time_zones;
mod url;

use crate::error::{EvaluationError, EvaluationResult};
use crate::interpreter::Interpreter;
use crate::value::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Implementation of a CEL function (cel-go: `functions.FunctionOp`); the receiver is the first argument.
pub(crate) type FunctionOp =
    for<'a, 'm, 's> fn(&'a mut Interpreter<'m, 's>, &'a [Value]) -> EvaluationResult<Value>;

type FunctionTable = &'static [(&'static str, FunctionOp)];

static FUNCTION_OPS: LazyLock<HashMap<&'static str, FunctionOp>> = LazyLock::new(|| {
    let tables: [FunctionTable; 13] = [
        authorization::FUNCTIONS,
        conversions::FUNCTIONS,
        string_format::FUNCTIONS,
        named_formats::FUNCTIONS,
        lists::FUNCTIONS,
        net::FUNCTIONS,
        operators::FUNCTIONS,
        optionals::FUNCTIONS,
        quantities_and_versions::FUNCTIONS,
        regexes::FUNCTIONS,
        strings::FUNCTIONS,
        time::FUNCTIONS,
        url::FUNCTIONS,
    ];
    tables.into_iter().flatten().copied().collect()
});

pub(crate) fn find_function(name: &str) -> Option<FunctionOp> {
    FUNCTION_OPS.get(name).copied()
}

/// Whether the planner evaluates a call with a constant argument.
pub(crate) fn is_conversion(name: &str) -> bool {
    matches!(
        name,
        "bool"
            | "bytes"
            | "double"
            | "duration"
            | "dyn"
            | "int"
            | "string"
            | "timestamp"
            | "type"
            | "uint"
    )
}

fn no_overload<T>() -> EvaluationResult<T> {
    Err(EvaluationError::no_overload())
}

fn fail<T>(message: impl Into<std::sync::Arc<str>>) -> EvaluationResult<T> {
    Err(EvaluationError::new(message))
}

/// Adds the function name and argument types to a "no such overload" error where upstream does.
pub(crate) fn describe_missing_overload(
    name: &str,
    args: &[Value],
    error: EvaluationError,
) -> EvaluationError {
    if !error.is_no_overload() {
        return error;
    }
    let first = args.first().unwrap_or(&Value::Null);
    let with_name_only = EvaluationError::new(format!("no such overload: {name}"));
    match name {
        "contains" | "startsWith" | "endsWith" | "!_" | "-_" | "@in" | "_==_" | "_!=_" => error,
        "containsIP" if matches!(args.get(1), Some(Value::String(_))) => error,
        "max" | "min" | "sum" | "isSorted" if matches!(first, Value::List(_)) => error,
        "flatten" if args.len() == 1 => {
            let type_name = first.type_name();
            EvaluationError::new(format!("no such overload: {type_name}.flatten()"))
        }
        "size" | "sort" | "matches" | "@sortByAssociatedKeys" => with_name_only,
        _ if operators::is_operator(name) => match operators::supports_left_operand(name, first) {
            true => error,
            false => with_name_only,
        },
        _ => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            EvaluationError::new(format!("no such overload: {name}({})", types.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    /// Functions that the planner replaces by other nodes.
    const PLANNED_OPERATORS: [&str; 11] = [
        "or",
        "orValue",
        "_&&_",
        "_||_",
        "_?_:_",
        "_[_]",
        "_[?_]",
        "_?._",
        "__not_strictly_false__",
        "@not_strictly_false",
        "cel.@mapInsert",
    ];

    #[test]
    fn every_declared_function_is_implemented() {
        let table = include_str!("../declarations.table");
        for line in table.lines() {
            let name = line.split(' ').next().expect("a name");
            let implemented = super::find_function(name).is_some()
                || PLANNED_OPERATORS.contains(&name)
                || ["in", "_in_"].contains(&name);
            assert!(implemented, "{name} is declared but not implemented");
        }
    }
}
