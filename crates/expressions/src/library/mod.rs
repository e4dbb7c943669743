//! The functions that expressions may call.
//!
//! What they take is checked here and not where they are declared: a value whose type is only known at run time may
//! be anything.

mod authorization;
mod convert;
pub(crate) mod format;
mod formats;
mod lists;
mod net;
pub(crate) mod opaque;
mod operators;
mod optionals;
mod pattern;
mod quantities;
pub(crate) mod regexes;
mod semver;
pub(crate) mod text;
pub(crate) mod time;
mod url;

use crate::error::{Evaluated, EvaluationError};
use crate::run::Machine;
use crate::value::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A function, which is given its target as the first argument.
pub(crate) type Function =
    for<'a, 'm, 's> fn(&'a mut Machine<'m, 's>, &'a [Value]) -> Evaluated<Value>;

type Table = &'static [(&'static str, Function)];

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let tables: [Table; 13] = [
        authorization::TABLE,
        convert::TABLE,
        format::TABLE,
        formats::TABLE,
        lists::TABLE,
        net::TABLE,
        operators::TABLE,
        optionals::TABLE,
        quantities::TABLE,
        regexes::TABLE,
        text::TABLE,
        time::TABLE,
        url::TABLE,
    ];
    tables.into_iter().flatten().copied().collect()
});

pub(crate) fn find(name: &str) -> Option<Function> {
    FUNCTIONS.get(name).copied()
}

/// Whether a call with a constant is computed when an expression is compiled.
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

fn no_overload<T>() -> Evaluated<T> {
    Err(EvaluationError::no_overload())
}

fn fail<T>(message: impl Into<std::sync::Arc<str>>) -> Evaluated<T> {
    Err(EvaluationError::new(message))
}

/// Says which function has no overload for which types, as far as upstream says it.
pub(crate) fn named_overload(
    name: &str,
    args: &[Value],
    error: EvaluationError,
) -> EvaluationError {
    if !error.is_no_overload() {
        return error;
    }
    let first = args.first().unwrap_or(&Value::Null);
    let only_name = EvaluationError::new(format!("no such overload: {name}"));
    match name {
        "contains" | "startsWith" | "endsWith" | "!_" | "-_" | "@in" | "_==_" | "_!=_" => error,
        "containsIP" if matches!(args.get(1), Some(Value::String(_))) => error,
        "max" | "min" | "sum" | "isSorted" if matches!(first, Value::List(_)) => error,
        "flatten" if args.len() == 1 => {
            let of = first.type_name();
            EvaluationError::new(format!("no such overload: {of}.flatten()"))
        }
        "size" | "sort" | "matches" | "@sortByAssociatedKeys" => only_name,
        _ if operators::is_operator(name) => match operators::takes(name, first) {
            true => error,
            false => only_name,
        },
        _ => {
            let types: Vec<&str> = args.iter().map(Value::type_name).collect();
            EvaluationError::new(format!("no such overload: {name}({})", types.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    /// Operators that the planner turns into something else.
    const NOT_CALLED: [&str; 11] = [
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
    fn every_declared_function_is_there() {
        let table = include_str!("../declarations.table");
        for line in table.lines() {
            let name = line.split(' ').next().expect("a name");
            let known = super::find(name).is_some()
                || NOT_CALLED.contains(&name)
                || ["in", "_in_"].contains(&name);
            assert!(known, "{name} is declared and not there");
        }
    }
}
