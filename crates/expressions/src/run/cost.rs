//! What a call costs: the same as upstream, so that an expression which is cheap enough there is cheap enough here.
//!
//! Costs that depend on the arguments are charged before the call is made.

use crate::error::Evaluated;
use crate::library::opaque::Opaque;
use crate::limits::Budget;
use crate::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Fixed(u64),
    /// The first argument is read through so many times.
    Read(u64),
    /// Everything in the first argument is looked at.
    Traversal,
    InList,
    Comparison,
    Sum,
    Regex,
    Search,
    Join,
    /// Every item with every other: of this argument, so many times.
    Pairs(usize),
    Sets(u64),
    /// A list comes out that is as long as the first argument says or is.
    NewList,
    Slice,
    Flatten,
    Selector,
    Validate,
    ContainsIp,
    ContainsCidr,
}

const AUTHORIZATION_CHECK: u64 = 350_000;

impl Cost {
    pub(crate) fn of(function: &str, overload: Option<&str>) -> Cost {
        match function {
            "check" => Cost::Fixed(AUTHORIZATION_CHECK),
            "fieldSelector" | "labelSelector" => Cost::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Cost::Traversal,
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver" => Cost::Read(1),
            "ip" if overload == Some("cidr_ip") => Cost::Fixed(1),
            "ip" => Cost::Read(1),
            "replace" | "split" | "ip.isCanonical" => Cost::Read(2),
            "join" => Cost::Join,
            "find" | "findAll" => Cost::Regex,
            "matches" if overload == Some("matches_string") => Cost::Regex,
            "containsIP" => Cost::ContainsIp,
            "containsCIDR" => Cost::ContainsCidr,
            "validate" => Cost::Validate,
            "_==_" | "_!=_" => Cost::Comparison,
            "startsWith" | "endsWith" | "strings.quote" | "format" => Cost::Read(1),
            "contains" => Cost::Search,
            "sets.contains" | "sets.intersects" => Cost::Sets(1),
            "sets.equivalent" => Cost::Sets(2),
            "lists.range" | "reverse" => Cost::NewList,
            "slice" => Cost::Slice,
            "flatten" => Cost::Flatten,
            "distinct" => Cost::Pairs(0),
            "sort" if overload.is_some() => Cost::Pairs(0),
            "@sortByAssociatedKeys" if overload.is_some() => Cost::Pairs(1),
            _ => Cost::of_overload(overload),
        }
    }

    fn of_overload(overload: Option<&str>) -> Cost {
        match overload {
            Some("in_list") => Cost::InList,
            Some("add_string" | "add_bytes") => Cost::Sum,
            Some("string_to_bytes" | "bytes_to_string") => Cost::Read(1),
            Some(
                "less_string"
                | "less_equals_string"
                | "greater_string"
                | "greater_equals_string"
                | "less_bytes"
                | "less_equals_bytes"
                | "greater_bytes"
                | "greater_equals_bytes",
            ) => Cost::Comparison,
            _ => Cost::Fixed(1),
        }
    }

    /// What is to be paid before the call.
    pub(crate) fn before(self, budget: &mut Budget, args: &[Value]) -> Evaluated<u64> {
        let size = |index: usize| args.get(index).map_or(1, size);
        Ok(match self {
            Cost::Fixed(cost) => cost,
            Cost::Read(times) => tenth(size(0).saturating_mul(times)),
            Cost::Traversal => match args.first() {
                Some(value) => traversal(budget, value)?,
                None => 1,
            },
            Cost::InList => size(1),
            Cost::Comparison if matches!(args.first(), Some(Value::Opaque(_))) => 1,
            Cost::Comparison => tenth(size(0).min(size(1))),
            Cost::Sum => tenth(size(0).saturating_add(size(1))),
            Cost::Regex => regex(size(0), size(1)),
            Cost::Search => tenth(size(0)).saturating_mul(tenth(size(1))),
            Cost::Join => 0,
            Cost::Pairs(index) => pairs(args.get(index)),
            Cost::Sets(factor) => 1 + size(0).saturating_mul(size(1)).saturating_mul(factor),
            Cost::NewList => match args.first() {
                Some(Value::Int(count)) => new_list(u64::try_from(*count).unwrap_or(0)),
                _ => new_list(size(0)),
            },
            Cost::Slice => match args {
                [_, Value::Int(start), Value::Int(end)] => {
                    new_list(u64::try_from(end.saturating_sub(*start)).unwrap_or(0))
                }
                _ => new_list(0),
            },
            Cost::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                    _ => 1,
                };
                new_list(size(0).saturating_mul(depth))
            }
            Cost::Selector => {
                // A list, a parse, and a requirement for every two characters.
                let length = size(1);
                10 + tenth(length) + 50_u64.saturating_mul(length.div_ceil(2))
            }
            Cost::Validate => match args.first() {
                Some(Value::Opaque(Opaque::Format(format))) => regex(size(1), format.regex_size),
                _ => 1,
            },
            Cost::ContainsIp => tenth(2 * size(0)) + parsed(args),
            Cost::ContainsCidr => tenth(2 * size(0)) + tenth(size(0)) + 1 + parsed(args),
        })
    }

    /// What is to be paid once the result is known.
    pub(crate) fn after(self, result: &Value) -> u64 {
        match self {
            Cost::Join => tenth(size(result).saturating_mul(2)),
            _ => 0,
        }
    }
}

fn new_list(length: u64) -> u64 {
    length.saturating_add(1 + super::LIST_COST)
}

/// Reading costs a tenth of a unit for each character.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

fn regex(text: u64, pattern: u64) -> u64 {
    tenth(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// A text that has to be parsed first.
fn parsed(args: &[Value]) -> u64 {
    match args.get(1) {
        Some(text @ Value::String(_)) => tenth(size(text)),
        _ => 0,
    }
}

fn pairs(list: Option<&Value>) -> u64 {
    let Some(Value::List(list)) = list else {
        return new_list(0);
    };
    let length = count(list.items().len());
    let twice = length.saturating_mul(length).saturating_mul(2);
    let texts = match list.items().first() {
        Some(Value::String(_) | Value::Bytes(_)) => length.saturating_mul(length) / 10,
        _ => 0,
    };
    new_list(twice.saturating_add(texts))
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => count(text.chars().count()),
        Value::Bytes(bytes) => count(bytes.len()),
        Value::List(list) => count(list.items().len()),
        Value::Map(map) => count(map.entries().len()),
        Value::Optional(Some(value)) => size(value),
        Value::Opaque(Opaque::Ip(std::net::IpAddr::V4(_))) => 4,
        Value::Opaque(Opaque::Ip(std::net::IpAddr::V6(_))) => 16,
        Value::Opaque(Opaque::Cidr(_, bits)) => u64::from(*bits).div_ceil(8),
        _ => 1,
    }
}

fn traversal(budget: &mut Budget, value: &Value) -> Evaluated<u64> {
    budget.step()?;
    let mut cost: u64 = 0;
    match value {
        Value::String(text) => cost = count(text.len()) / 10,
        Value::Bytes(bytes) => cost = count(bytes.len()) / 10,
        Value::List(list) => {
            for item in list.items() {
                cost = cost.saturating_add(traversal(budget, item)?);
            }
        }
        Value::Map(map) => {
            for (key, item) in map.entries() {
                let key = traversal(budget, &key.to_value())?;
                cost = cost
                    .saturating_add(key)
                    .saturating_add(traversal(budget, item)?);
            }
        }
        _ => cost = 1,
    }
    Ok(cost)
}
