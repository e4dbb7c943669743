//! Runtime cost of function calls, equal to upstream's (`CostEstimator` of `apiserver/pkg/cel/library`), so that an
//! expression within upstream's cost limit is within rhumb's.
//!
//! Costs that depend on the arguments are charged before the call is made.

use crate::error::EvaluationResult;
use crate::library::opaque_value::OpaqueValue;
use crate::limits::EvaluationBudget;
use crate::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallCost {
    Fixed(u64),
    /// The first argument is scanned this many times.
    Scan(u64),
    /// The first argument is traversed recursively.
    Traversal,
    InList,
    Comparison,
    Concat,
    Regex,
    Contains,
    Join,
    /// All pairs of items of the list argument at this index are compared.
    Pairs(usize),
    Sets(u64),
    /// Allocates a list as long as the first argument (a list or a number).
    NewList,
    Slice,
    Flatten,
    Selector,
    ValidateFormat,
    ContainsIp,
    ContainsCidr,
}

const AUTHORIZATION_CHECK_COST: u64 = 350_000;

impl CallCost {
    pub(crate) fn for_call(function: &str, overload: Option<&str>) -> CallCost {
        match function {
            "check" => CallCost::Fixed(AUTHORIZATION_CHECK_COST),
            "fieldSelector" | "labelSelector" => CallCost::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => CallCost::Traversal,
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
            | "isSemver" => CallCost::Scan(1),
            "ip" if overload == Some("cidr_ip") => CallCost::Fixed(1),
            "ip" => CallCost::Scan(1),
            "replace" | "split" | "ip.isCanonical" => CallCost::Scan(2),
            "join" => CallCost::Join,
            "find" | "findAll" => CallCost::Regex,
            "matches" if overload == Some("matches_string") => CallCost::Regex,
            "containsIP" => CallCost::ContainsIp,
            "containsCIDR" => CallCost::ContainsCidr,
            "validate" => CallCost::ValidateFormat,
            "_==_" | "_!=_" => CallCost::Comparison,
            "startsWith" | "endsWith" | "strings.quote" | "format" => CallCost::Scan(1),
            "contains" => CallCost::Contains,
            "sets.contains" | "sets.intersects" => CallCost::Sets(1),
            "sets.equivalent" => CallCost::Sets(2),
            "lists.range" | "reverse" => CallCost::NewList,
            "slice" => CallCost::Slice,
            "flatten" => CallCost::Flatten,
            "distinct" => CallCost::Pairs(0),
            "sort" if overload.is_some() => CallCost::Pairs(0),
            "@sortByAssociatedKeys" if overload.is_some() => CallCost::Pairs(1),
            _ => CallCost::for_overload(overload),
        }
    }

    fn for_overload(overload: Option<&str>) -> CallCost {
        match overload {
            Some("in_list") => CallCost::InList,
            Some("add_string" | "add_bytes") => CallCost::Concat,
            Some("string_to_bytes" | "bytes_to_string") => CallCost::Scan(1),
            Some(
                "less_string"
                | "less_equals_string"
                | "greater_string"
                | "greater_equals_string"
                | "less_bytes"
                | "less_equals_bytes"
                | "greater_bytes"
                | "greater_equals_bytes",
            ) => CallCost::Comparison,
            _ => CallCost::Fixed(1),
        }
    }

    /// The cost charged before the call, from the arguments.
    pub(crate) fn before_call(
        self,
        budget: &mut EvaluationBudget,
        args: &[Value],
    ) -> EvaluationResult<u64> {
        let size = |index: usize| args.get(index).map_or(1, actual_size);
        Ok(match self {
            CallCost::Fixed(cost) => cost,
            CallCost::Scan(times) => string_traversal_cost(size(0).saturating_mul(times)),
            CallCost::Traversal => match args.first() {
                Some(value) => traversal_cost(budget, value)?,
                None => 1,
            },
            CallCost::InList => size(1),
            CallCost::Comparison if matches!(args.first(), Some(Value::Opaque(_))) => 1,
            CallCost::Comparison => string_traversal_cost(size(0).min(size(1))),
            CallCost::Concat => string_traversal_cost(size(0).saturating_add(size(1))),
            CallCost::Regex => regex_cost(size(0), size(1)),
            CallCost::Contains => {
                string_traversal_cost(size(0)).saturating_mul(string_traversal_cost(size(1)))
            }
            CallCost::Join => 0,
            CallCost::Pairs(index) => pairwise_cost(args.get(index)),
            CallCost::Sets(factor) => 1 + size(0).saturating_mul(size(1)).saturating_mul(factor),
            CallCost::NewList => match args.first() {
                Some(Value::Int(count)) => list_create_cost(u64::try_from(*count).unwrap_or(0)),
                _ => list_create_cost(size(0)),
            },
            CallCost::Slice => match args {
                [_, Value::Int(start), Value::Int(end)] => {
                    list_create_cost(u64::try_from(end.saturating_sub(*start)).unwrap_or(0))
                }
                _ => list_create_cost(0),
            },
            CallCost::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                    _ => 1,
                };
                list_create_cost(size(0).saturating_mul(depth))
            }
            CallCost::Selector => {
                // The cost of a list, of parsing, and of a requirement for every two characters.
                let length = size(1);
                10 + string_traversal_cost(length) + 50_u64.saturating_mul(length.div_ceil(2))
            }
            CallCost::ValidateFormat => match args.first() {
                Some(Value::Opaque(OpaqueValue::NamedFormat(format))) => {
                    regex_cost(size(1), format.regex_size)
                }
                _ => 1,
            },
            CallCost::ContainsIp => string_traversal_cost(2 * size(0)) + parse_cost(args),
            CallCost::ContainsCidr => {
                string_traversal_cost(2 * size(0))
                    + string_traversal_cost(size(0))
                    + 1
                    + parse_cost(args)
            }
        })
    }

    /// The cost charged after the call, from the result.
    pub(crate) fn after_call(self, result: &Value) -> u64 {
        match self {
            CallCost::Join => string_traversal_cost(actual_size(result).saturating_mul(2)),
            _ => 0,
        }
    }
}

fn list_create_cost(length: u64) -> u64 {
    length.saturating_add(1 + super::LIST_CREATE_BASE_COST)
}

/// One tenth per character (cel-go: `StringTraversalCostFactor`).
fn string_traversal_cost(size: u64) -> u64 {
    size.div_ceil(10)
}

fn regex_cost(text: u64, pattern: u64) -> u64 {
    string_traversal_cost(text.saturating_add(1)).saturating_mul(pattern.div_ceil(4))
}

/// The cost of parsing the second argument if it is a string.
fn parse_cost(args: &[Value]) -> u64 {
    match args.get(1) {
        Some(text @ Value::String(_)) => string_traversal_cost(actual_size(text)),
        _ => 0,
    }
}

fn pairwise_cost(list: Option<&Value>) -> u64 {
    let Some(Value::List(list)) = list else {
        return list_create_cost(0);
    };
    let length = to_u64(list.items().len());
    let twice = length.saturating_mul(length).saturating_mul(2);
    let texts = match list.items().first() {
        Some(Value::String(_) | Value::Bytes(_)) => length.saturating_mul(length) / 10,
        _ => 0,
    };
    list_create_cost(twice.saturating_add(texts))
}

fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn actual_size(value: &Value) -> u64 {
    match value {
        Value::String(text) => to_u64(text.chars().count()),
        Value::Bytes(bytes) => to_u64(bytes.len()),
        Value::List(list) => to_u64(list.items().len()),
        Value::Map(map) => to_u64(map.entries().len()),
        Value::Optional(Some(value)) => actual_size(value),
        Value::Opaque(OpaqueValue::Ip(std::net::IpAddr::V4(_))) => 4,
        Value::Opaque(OpaqueValue::Ip(std::net::IpAddr::V6(_))) => 16,
        Value::Opaque(OpaqueValue::Cidr(_, bits)) => u64::from(*bits).div_ceil(8),
        _ => 1,
    }
}

fn traversal_cost(budget: &mut EvaluationBudget, value: &Value) -> EvaluationResult<u64> {
    budget.count_step()?;
    let mut cost: u64 = 0;
    match value {
        Value::String(text) => cost = to_u64(text.len()) / 10,
        Value::Bytes(bytes) => cost = to_u64(bytes.len()) / 10,
        Value::List(list) => {
            for item in list.items() {
                cost = cost.saturating_add(traversal_cost(budget, item)?);
            }
        }
        Value::Map(map) => {
            for (key, item) in map.entries() {
                let key = traversal_cost(budget, &key.to_value())?;
                cost = cost
                    .saturating_add(key)
                    .saturating_add(traversal_cost(budget, item)?);
            }
        }
        _ => cost = 1,
    }
    Ok(cost)
}
