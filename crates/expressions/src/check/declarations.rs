//! The functions that an expression may call: their overloads, in the order in which they are tried.
//!
//! `declarations.table` is what upstream's environment declares; `interop/expressions` writes it.

use super::structs::Struct;
use super::types::Type;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

const TABLE: &str = include_str!("../declarations.table");
/// Only where patches are made.
const PATCHES: &str =
    "jsonpatch.escapeKey string_jsonpatch_escapeKey_string global (string) string";

#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// How many types are to be found out: they are numbered from zero.
    pub(crate) params: usize,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) only_patches: bool,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    for line in TABLE.lines().chain([PATCHES]) {
        let Some((name, overload)) = read(line) else {
            continue;
        };
        functions
            .entry(name)
            .or_insert_with(|| Function {
                name,
                overloads: Vec::new(),
                only_patches: line == PATCHES,
            })
            .overloads
            .push(overload);
    }
    functions
});

pub(crate) fn function(name: &str, patches: bool) -> Option<&'static Function> {
    FUNCTIONS
        .get(name)
        .filter(|function| patches || !function.only_patches)
}

/// `name id style (argument, argument) result`.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let (head, rest) = line.split_once(" (")?;
    let (args, result) = split_arguments(rest)?;
    let mut words = head.split(' ');
    let name = words.next()?;
    let id = words.next()?;
    let member = words.next()? == "member";
    let mut params = Vec::new();
    let args: Option<Vec<Type>> = args.iter().map(|arg| read_type(arg, &mut params)).collect();
    let result = read_type(result, &mut params)?;
    Some((
        name,
        Overload {
            id,
            member,
            args: args?,
            result,
            params: params.len(),
        },
    ))
}

/// Cuts `a, b(c, d)) result` at the commas that are outside of brackets.
fn split_arguments(text: &'static str) -> Option<(Vec<&'static str>, &'static str)> {
    let mut args = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => {
                let last = text[start..at].trim();
                if !last.is_empty() {
                    args.push(last);
                }
                return Some((args, text[at + 1..].trim()));
            }
            ')' => depth -= 1,
            ',' if depth == 0 => {
                args.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

fn read_type(text: &'static str, params: &mut Vec<&'static str>) -> Option<Type> {
    if let Some((name, rest)) = text.split_once('(') {
        let (parts, _) = split_arguments(rest)?;
        let parts: Option<Vec<Type>> = parts.iter().map(|part| read_type(part, params)).collect();
        let mut parts = parts?.into_iter();
        let first = parts.next()?;
        return Some(match name {
            "list" => Type::list(first),
            "map" => Type::map(first, parts.next()?),
            "optional_type" => Type::optional(first),
            "type" => Type::type_of(first),
            _ => return None,
        });
    }
    if text.len() == 1 {
        let index = params.iter().position(|param| *param == text);
        return Some(Type::Param(index.unwrap_or_else(|| {
            params.push(text);
            params.len() - 1
        })));
    }
    Some(simple(text))
}

fn simple(name: &'static str) -> Type {
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
        _ => Type::Struct(Arc::new(Struct::without_fields(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in TABLE.lines() {
            assert!(read(line).is_some(), "{line}");
        }
        let split = function("findAll", false).expect("declared");
        assert_eq!(split.overloads.len(), 2);
        assert_eq!(split.overloads[1].args.len(), 3);
        assert!(function("jsonpatch.escapeKey", false).is_none());
        assert!(function("jsonpatch.escapeKey", true).is_some());
    }
}
