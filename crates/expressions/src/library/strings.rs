//! The strings library (cel-go: `ext.Strings`), and the display of values in errors.

use super::conversions::string_of;
use super::{FunctionTable, fail, no_overload};
use crate::error::EvaluationResult;
use crate::interpreter::Interpreter;
use crate::value::{ITEM_BYTES, MapKey, Value};
use rhumb_meta::gotext;
use std::sync::Arc;

pub(super) const FUNCTIONS: FunctionTable = &[
    ("contains", |_, args| {
        string_predicate(args, |text, part| text.contains(part))
    }),
    ("startsWith", |_, args| {
        string_predicate(args, |text, part| text.starts_with(part))
    }),
    ("endsWith", |_, args| {
        string_predicate(args, |text, part| text.ends_with(part))
    }),
    ("charAt", char_at),
    ("lowerAscii", |interpreter, args| {
        map_string(interpreter, args, str::to_ascii_lowercase)
    }),
    ("upperAscii", |interpreter, args| {
        map_string(interpreter, args, str::to_ascii_uppercase)
    }),
    ("trim", |interpreter, args| {
        map_string(interpreter, args, |text| text.trim().to_owned())
    }),
    ("strings.quote", |interpreter, args| {
        map_string(interpreter, args, quote)
    }),
    ("jsonpatch.escapeKey", |interpreter, args| {
        map_string(interpreter, args, |key| {
            key.replace('~', "~0").replace('/', "~1")
        })
    }),
    ("replace", replace),
    ("split", split),
    ("substring", substring),
    ("join", join),
];

fn string_predicate(args: &[Value], predicate: fn(&str, &str) -> bool) -> EvaluationResult<Value> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(predicate(text, part))),
        _ => no_overload(),
    }
}

fn map_string(
    interpreter: &mut Interpreter<'_, '_>,
    args: &[Value],
    map: fn(&str) -> String,
) -> EvaluationResult<Value> {
    match args {
        [Value::String(text)] => {
            interpreter.budget.allocate(text.len())?;
            let mapped = map(text);
            interpreter.budget.allocate(mapped.len())?;
            Ok(Value::from(mapped))
        }
        _ => no_overload(),
    }
}

/// The byte offset of a character index; the index after the last character is allowed.
fn byte_offset(text: &str, index: i64) -> EvaluationResult<usize> {
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

fn char_at(_: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    match args {
        [Value::String(text), Value::Int(index)] => {
            let rest = &text[byte_offset(text, *index)?..];
            Ok(Value::from(rest.chars().take(1).collect::<String>()))
        }
        _ => no_overload(),
    }
}

fn substring(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
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
    let from = byte_offset(text, start)?;
    let to = match end {
        Some(end) => byte_offset(text, end)?,
        None => text.len(),
    };
    interpreter.budget.allocate(to - from)?;
    Ok(Value::from(&text[from..to]))
}

/// `indexOf` and `lastIndexOf` of strings, in characters.
pub(super) fn index_of(args: &[Value], last: bool) -> EvaluationResult<Value> {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return no_overload(),
    };
    let length = len_to_int(text.chars().count());
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
            let from = byte_offset(text, from)?;
            text[from..].find(&**part).map(|at| from + at)
        }
        (true, None) => text.rfind(&**part),
        (true, Some(from)) => {
            // The occurrence may begin at `from` and end after it.
            let from = byte_offset(text, from)?;
            let end = (from + part.len()).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(text.len())].rfind(&**part)
        }
    };
    let index = found.map_or(-1, |at| len_to_int(text[..at].chars().count()));
    Ok(Value::Int(index))
}

fn len_to_int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A negative limit means unlimited.
fn count_limit(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn replace(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
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
    let times = count_limit(times);
    let found = match from.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(&**from).count(),
    };
    let added_bytes = found.min(times).saturating_mul(to.len());
    interpreter
        .budget
        .allocate(text.len().saturating_add(added_bytes))?;
    Ok(Value::from(text.replacen(&**from, to, times)))
}

fn split(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let (text, separator, times) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [
            Value::String(text),
            Value::String(separator),
            Value::Int(times),
        ] => (text, separator, *times),
        _ => return no_overload(),
    };
    let times = count_limit(times);
    interpreter.budget.allocate(text.len())?;
    let parts: Vec<&str> = match separator.is_empty() {
        _ if times == 0 => Vec::new(),
        true => split_characters(text, times),
        false => text.splitn(times, &**separator).collect(),
    };
    interpreter.budget.allocate(parts.len() * ITEM_BYTES)?;
    Ok(Value::list(parts.into_iter().map(Value::from).collect()))
}

/// Splits into characters; the last part is the rest if the limit is reached.
fn split_characters(text: &str, times: usize) -> Vec<&str> {
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

fn join(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, Arc::from("")),
        [Value::List(list), Value::String(separator)] => (list, separator.clone()),
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
        interpreter.budget.count_step()?;
        let Value::String(text) = item else {
            return fail(format!("join: invalid input: {}", display_value(item)));
        };
        if index > 0 {
            joined.push_str(&separator);
        }
        interpreter.budget.allocate(separator.len() + text.len())?;
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

/// A value as error messages display it, truncated if it is long.
pub(crate) fn display_value(value: &Value) -> String {
    const DISPLAY_BYTES_MAX: usize = 1024;
    let mut text = String::new();
    display_into(value, &mut text, DISPLAY_BYTES_MAX);
    text
}

fn display_into(value: &Value, out: &mut String, max_bytes: usize) {
    if out.len() >= max_bytes {
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
                if out.len() >= max_bytes {
                    break;
                }
                display_into(item, out, max_bytes);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (index, (key, item)) in map.entries().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                if out.len() >= max_bytes {
                    break;
                }
                display_key(key, out);
                out.push_str(": ");
                display_into(item, out, max_bytes);
            }
            out.push('}');
        }
        other => match string_of(other) {
            Ok(Some(text)) => out.push_str(&text),
            _ => out.push_str(other.type_name()),
        },
    }
}

fn display_key(key: &MapKey, out: &mut String) {
    display_into(&key.to_value(), out, usize::MAX);
}

/// Base64, the JSON encoding of bytes.
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
