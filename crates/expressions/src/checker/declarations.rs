//! Function declarations and their overloads, in upstream's order (cel-go: `decls.FunctionDecl`, `decls.OverloadDecl`).
//!
//! `declarations.table` lists what upstream's environment declares; `interop/expressions` generates it.

use super::struct_types::StructType;
use super::types::Type;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

const DECLARATIONS_TABLE: &str = include_str!("../declarations.table");
/// Declared for mutating policies only.
const MUTATION_DECLARATION: &str =
    "jsonpatch.escapeKey string_jsonpatch_escapeKey_string global (string) string";

#[derive(Debug)]
pub(crate) struct OverloadDecl {
    pub(crate) id: &'static str,
    pub(crate) is_member: bool,
    pub(crate) arg_types: Vec<Type>,
    pub(crate) result_type: Type,
    /// The number of type parameters; they are numbered from zero.
    pub(crate) type_param_count: usize,
}

#[derive(Debug)]
pub(crate) struct FunctionDecl {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<OverloadDecl>,
    pub(crate) mutation_only: bool,
}

static FUNCTION_DECLS: LazyLock<HashMap<&'static str, FunctionDecl>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    for line in DECLARATIONS_TABLE.lines().chain([MUTATION_DECLARATION]) {
        let Some((name, overload)) = parse_declaration(line) else {
            continue;
        };
        functions
            .entry(name)
            .or_insert_with(|| FunctionDecl {
                name,
                overloads: Vec::new(),
                mutation_only: line == MUTATION_DECLARATION,
            })
            .overloads
            .push(overload);
    }
    functions
});

pub(crate) fn find_function(name: &str, mutation: bool) -> Option<&'static FunctionDecl> {
    FUNCTION_DECLS
        .get(name)
        .filter(|function| mutation || !function.mutation_only)
}

/// Parses a line of the form `name id style (argument, argument) result`.
fn parse_declaration(line: &'static str) -> Option<(&'static str, OverloadDecl)> {
    let (head, rest) = line.split_once(" (")?;
    let (arg_types, result_type) = split_arguments(rest)?;
    let mut columns = head.split(' ');
    let name = columns.next()?;
    let id = columns.next()?;
    let is_member = columns.next()? == "member";
    let mut type_params = Vec::new();
    let arg_types: Option<Vec<Type>> = arg_types
        .iter()
        .map(|arg| parse_type(arg, &mut type_params))
        .collect();
    let result_type = parse_type(result_type, &mut type_params)?;
    Some((
        name,
        OverloadDecl {
            id,
            is_member,
            arg_types: arg_types?,
            result_type,
            type_param_count: type_params.len(),
        },
    ))
}

/// Splits `a, b(c, d)) result` at the commas outside of brackets.
fn split_arguments(text: &'static str) -> Option<(Vec<&'static str>, &'static str)> {
    let mut arg_types = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (offset, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => {
                let last = text[start..offset].trim();
                if !last.is_empty() {
                    arg_types.push(last);
                }
                return Some((arg_types, text[offset + 1..].trim()));
            }
            ')' => depth -= 1,
            ',' if depth == 0 => {
                arg_types.push(text[start..offset].trim());
                start = offset + 1;
            }
            _ => {}
        }
    }
    None
}

fn parse_type(text: &'static str, type_params: &mut Vec<&'static str>) -> Option<Type> {
    if let Some((name, rest)) = text.split_once('(') {
        let (params, _) = split_arguments(rest)?;
        let params: Option<Vec<Type>> = params
            .iter()
            .map(|param| parse_type(param, type_params))
            .collect();
        let mut params = params?.into_iter();
        let first = params.next()?;
        return Some(match name {
            "list" => Type::list(first),
            "map" => Type::map(first, params.next()?),
            "optional_type" => Type::optional(first),
            "type" => Type::type_of(first),
            _ => return None,
        });
    }
    if text.len() == 1 {
        let index = type_params.iter().position(|name| *name == text);
        return Some(Type::Param(index.unwrap_or_else(|| {
            type_params.push(text);
            type_params.len() - 1
        })));
    }
    Some(parse_simple_type(text))
}

fn parse_simple_type(name: &'static str) -> Type {
    match name {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "net.IP" | "net.CIDR" => Type::Opaque(name),
        _ => Type::Struct(Arc::new(StructType::without_fields(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_declarations_table_parses() {
        for line in DECLARATIONS_TABLE.lines() {
            assert!(parse_declaration(line).is_some(), "{line}");
        }
        let find_all = find_function("findAll", false).expect("declared");
        assert_eq!(find_all.overloads.len(), 2);
        assert_eq!(find_all.overloads[1].arg_types.len(), 3);
        assert!(find_function("jsonpatch.escapeKey", false).is_none());
        assert!(find_function("jsonpatch.escapeKey", true).is_some());
    }
}
