//! Strings.

use super::convert::string_of;
use super::{Table, fail, no_overload};
use crate::error::Evaluated;
use crate::run::Machine;
use crate::value::{ITEM_BYTES, Key, Value};
use rhumb_meta::gotext;
use std::sync::Arc;

pub(super) const TABLE: Table = &[
    ("contains", |_, args| {
        test(args, |text, part| text.contains(part))
    }),
    ("startsWith", |_, args| {
        test(args, |text, part| text.starts_with(part))
    }),
    ("endsWith", |_, args| {
        test(args, |text, part| text.ends_with(part))
    }),
    ("charAt", char_at),
    ("lowerAscii", |machine, args| {
        mapped(machine, args, str::to_ascii_lowercase)
    }),
    ("upperAscii", |machine, args| {
        mapped(machine, args, str::to_ascii_uppercase)
    }),
    ("trim", |machine, args| {
        mapped(machine, args, |text| text.trim().to_owned())
    }),
    ("strings.quote", |machine, args| {
        mapped(machine, args, quote)
    }),
    ("jsonpatch.escapeKey", |machine, args| {
        mapped(machine, args, |key| {
            key.replace('~', "~0").replace('/', "~1")
        })
    }),
    ("replace", replace),
    ("split", split),
    ("substring", substring),
    ("join", join),
];

fn test(args: &[Value], holds: fn(&str, &str) -> bool) -> Evaluated<Value> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => no_overload(),
    }
}

fn mapped(
    machine: &mut Machine<'_, '_>,
    args: &[Value],
    map: fn(&str) -> String,
) -> Evaluated<Value> {
    match args {
        [Value::String(text)] => {
            machine.budget.allocate(text.len())?;
            let mapped = map(text);
            machine.budget.allocate(mapped.len())?;
            Ok(Value::from(mapped))
        }
        _ => no_overload(),
    }
}

/// Where in the bytes the character with that index begins; the end of the text counts as well.
fn offset(text: &str, index: i64) -> Evaluated<usize> {
    let out_of_range = || fail(format!("index out of range: {index}"));
    let Ok(index) = usize::try_from(index) else {
        return out_of_range();
    };
    match text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .nth(index)
    {
        Some(at) => Ok(at),
        None => out_of_range(),
    }
}

fn char_at(_: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    match args {
        [Value::String(text), Value::Int(index)] => {
            let rest = &text[offset(text, *index)?..];
            Ok(Value::from(rest.chars().take(1).collect::<String>()))
        }
        _ => no_overload(),
    }
}

fn substring(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return no_overload(),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return fail(format!(
            "invalid substring range. start: {start}, end: {end}"
        ));
    }
    let from = offset(text, start)?;
    let to = match end {
        Some(end) => offset(text, end)?,
        None => text.len(),
    };
    machine.budget.allocate(to - from)?;
    Ok(Value::from(&text[from..to]))
}

/// Where a text is in another, in characters, from the start or from the end.
pub(super) fn index_of(args: &[Value], last: bool) -> Evaluated<Value> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return no_overload(),
    };
    let length = to_int(text.chars().count());
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or(if last { length } else { 0 })));
    }
    if let Some(from) = from.filter(|from| *from < 0) {
        return fail(format!("index out of range: {from}"));
    }
    if from.is_some_and(|from| from >= length) {
        return Ok(Value::Int(-1));
    }
    let found = match (last, from) {
        (false, None) => text.find(&**part),
        (false, Some(from)) => {
            let from = offset(text, from)?;
            text[from..].find(&**part).map(|at| from + at)
        }
        (true, None) => text.rfind(&**part),
        (true, Some(from)) => {
            // It may begin there, and end later.
            let from = offset(text, from)?;
            let end = (from + part.len()).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(text.len())].rfind(&**part)
        }
    };
    let index = found.map_or(-1, |at| to_int(text[..at].chars().count()));
    Ok(Value::Int(index))
}

fn to_int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How many times at most; negative means any number.
fn limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn replace(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (text, from, to, times) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [
            Value::String(text),
            Value::String(from),
            Value::String(to),
            Value::Int(times),
        ] => (text, from, to, *times),
        _ => return no_overload(),
    };
    let times = limit(times);
    let found = match from.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(&**from).count(),
    };
    let longer = found.min(times).saturating_mul(to.len());
    machine.budget.allocate(text.len().saturating_add(longer))?;
    Ok(Value::from(text.replacen(&**from, to, times)))
}

fn split(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (text, by, times) = match args {
        [Value::String(text), Value::String(by)] => (text, by, -1),
        [Value::String(text), Value::String(by), Value::Int(times)] => (text, by, *times),
        _ => return no_overload(),
    };
    let times = limit(times);
    machine.budget.allocate(text.len())?;
    let parts: Vec<&str> = match by.is_empty() {
        _ if times == 0 => Vec::new(),
        true => characters(text, times),
        false => text.splitn(times, &**by).collect(),
    };
    machine.budget.allocate(parts.len() * ITEM_BYTES)?;
    Ok(Value::list(parts.into_iter().map(Value::from).collect()))
}

/// Every character by itself, and the rest when there are too many.
fn characters(text: &str, times: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == times {
            parts.push(rest);
            break;
        }
        let (part, after) = rest.split_at(first.len_utf8());
        parts.push(part);
        rest = after;
    }
    parts
}

fn join(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let (list, between) = match args {
        [Value::List(list)] => (list, Arc::from("")),
        [Value::List(list), Value::String(between)] => (list, between.clone()),
        _ => return no_overload(),
    };
    if list
        .items()
        .first()
        .is_some_and(|first| !matches!(first, Value::String(_)))
    {
        return no_overload();
    }
    let mut joined = String::new();
    for (index, item) in list.items().iter().enumerate() {
        machine.budget.step()?;
        let Value::String(text) = item else {
            return fail(format!("join: invalid input: {}", show(item)));
        };
        if index > 0 {
            joined.push_str(&between);
        }
        machine.budget.allocate(between.len() + text.len())?;
        joined.push_str(text);
    }
    Ok(Value::from(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A value as error messages show it. What is long is cut, for nobody reads it.
pub(crate) fn show(value: &Value) -> String {
    const SHOWN_MAX: usize = 1024;
    let mut text = String::new();
    show_into(value, &mut text, SHOWN_MAX);
    text
}

fn show_into(value: &Value, out: &mut String, limit: usize) {
    if out.len() >= limit {
        return;
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Double(double) => out.push_str(&gotext::float(*double)),
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.items().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                if out.len() >= limit {
                    break;
                }
                show_into(item, out, limit);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (index, (key, item)) in map.entries().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                if out.len() >= limit {
                    break;
                }
                show_key(key, out);
                out.push_str(": ");
                show_into(item, out, limit);
            }
            out.push('}');
        }
        other => match string_of(other) {
            Ok(Some(text)) => out.push_str(&text),
            _ => out.push_str(other.type_name()),
        },
    }
}

fn show_key(key: &Key, out: &mut String) {
    show_into(&key.to_value(), out, usize::MAX);
}

/// Bytes as JSON has them.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let six = (group >> (18 - 6 * digit)) & 63;
            match digit <= chunk.len() {
                true => text.push(char::from(DIGITS[six as usize])),
                false => text.push('='),
            }
        }
    }
    text
}
