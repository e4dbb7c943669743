//! The string function `format`: `'%s is %d'.format(['a', 1])`.

use super::conversions::{parse_double, string_of};
use super::{FunctionTable, fail, no_overload};
use crate::error::{EvaluationError, EvaluationResult};
use crate::interpreter::Interpreter;
use crate::value::{MapKey, Value};
use rhumb_meta::gotext;

pub(super) const FUNCTIONS: FunctionTable = &[("format", format)];

/// A formatting clause, such as `%d` or `%.2f`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatClause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    /// Upper case or not.
    Hex(bool),
    Octal,
}

const PRECISION_DEFAULT: usize = 6;
/// More digits than a double ever has.
const PRECISION_MAX: usize = 1000;

impl FormatClause {
    pub(crate) fn type_error(self, name: &str) -> String {
        let supported = match self {
            FormatClause::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            FormatClause::Decimal => "decimal clause can only be used on integers",
            FormatClause::Fixed(_) => "fixed-point clause can only be used on doubles",
            FormatClause::Scientific(_) => "scientific clause can only be used on doubles",
            FormatClause::Binary => "only integers and bools can be formatted as binary",
            FormatClause::Hex(_) => {
                "only integers, byte buffers, and strings can be formatted as hex"
            }
            FormatClause::Octal => "octal clause can only be used on integers",
        };
        format!("{supported}, was given {name}")
    }
}

/// Literal text or a clause.
enum FormatPart<'t> {
    Text(&'t str),
    Clause(FormatClause),
}

/// Calls `each` for the clauses of a format in order, up to the first invalid one.
pub(crate) fn clauses<E: From<(Option<usize>, String)>>(
    format: &str,
    mut each: impl FnMut(FormatClause) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = format;
    while let Some((part, after)) = next_part(rest) {
        if let FormatPart::Clause(clause) = part.map_err(|message| E::from((None, message)))? {
            each(clause)?;
        }
        rest = after;
    }
    Ok(())
}

/// The first part, and the rest of the format.
fn next_part(format: &str) -> Option<(Result<FormatPart<'_>, String>, &str)> {
    if format.is_empty() {
        return None;
    }
    let at = format.find('%').unwrap_or(format.len());
    if at > 0 {
        return Some((Ok(FormatPart::Text(&format[..at])), &format[at..]));
    }
    let rest = &format[1..];
    if let Some(after) = rest.strip_prefix('%') {
        return Some((Ok(FormatPart::Text("%")), after));
    }
    match parse_clause(rest) {
        Ok((clause, after)) => Some((Ok(FormatPart::Clause(clause)), after)),
        Err(message) => Some((Err(message), "")),
    }
}

fn parse_clause(text: &str) -> Result<(FormatClause, &str), String> {
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let clause_error = |message: String| format!("could not parse formatting clause: {message}");
    let (precision, rest) = match text.strip_prefix('.') {
        None => (PRECISION_DEFAULT, text),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, after) = rest.split_at(length);
            if after.is_empty() {
                return Err(clause_error(
                    "error while parsing precision: could not find end of precision specifier"
                        .to_owned(),
                ));
            }
            let precision = digits.parse().map_err(|_| {
                clause_error(format!(
                    "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
                    gotext::quote(digits)
                ))
            })?;
            (precision, after)
        }
    };
    let mut characters = rest.chars();
    let letter = characters.next().unwrap_or_default();
    let clause = match letter {
        's' => FormatClause::String,
        'd' => FormatClause::Decimal,
        'f' => FormatClause::Fixed(precision),
        'e' => FormatClause::Scientific(precision),
        'b' => FormatClause::Binary,
        'x' => FormatClause::Hex(false),
        'X' => FormatClause::Hex(true),
        'o' => FormatClause::Octal,
        other => {
            return Err(clause_error(format!(
                "unrecognized formatting clause \"{other}\""
            )));
        }
    };
    Ok((clause, characters.as_str()))
}

fn format(interpreter: &mut Interpreter<'_, '_>, args: &[Value]) -> EvaluationResult<Value> {
    let [Value::String(format), Value::List(list)] = args else {
        return no_overload();
    };
    let mut out = String::new();
    let mut used = 0;
    let mut rest = &**format;
    while let Some((part, after)) = next_part(rest) {
        let before = out.len();
        match part.map_err(EvaluationError::new)? {
            FormatPart::Text(text) => out.push_str(text),
            FormatPart::Clause(clause) => {
                let Some(value) = list.items().get(used) else {
                    return fail(format!("index {used} out of range"));
                };
                used += 1;
                write_clause(interpreter, clause, value, &mut out)?;
            }
        }
        interpreter.budget.allocate(out.len() - before)?;
        rest = after;
    }
    Ok(Value::from(out))
}

fn write_clause(
    interpreter: &mut Interpreter<'_, '_>,
    clause: FormatClause,
    value: &Value,
    out: &mut String,
) -> EvaluationResult<()> {
    let format_error =
        |message: String| EvaluationError::new(format!("error during formatting: {message}"));
    let written = match (clause, value) {
        (FormatClause::String, _) => {
            return write_string(interpreter, value, out);
        }
        (FormatClause::Decimal, Value::Int(int)) => int.to_string(),
        (FormatClause::Decimal, Value::Uint(uint)) => uint.to_string(),
        (FormatClause::Binary, Value::Int(int)) => signed(*int, |number| format!("{number:b}")),
        (FormatClause::Binary, Value::Uint(uint)) => format!("{uint:b}"),
        (FormatClause::Binary, Value::Bool(bool)) => u8::from(*bool).to_string(),
        (FormatClause::Octal, Value::Int(int)) => signed(*int, |number| format!("{number:o}")),
        (FormatClause::Octal, Value::Uint(uint)) => format!("{uint:o}"),
        (FormatClause::Hex(upper), value) => match hex(value) {
            Some(text) if upper => text.to_uppercase(),
            Some(text) => text,
            None => return Err(format_error(clause.type_error(value.type_name()))),
        },
        (FormatClause::Fixed(precision), value) => match double(value) {
            Some(number) => fixed(number, precision.min(PRECISION_MAX)),
            None => return Err(format_error(clause.type_error(value.type_name()))),
        },
        (FormatClause::Scientific(precision), value) => match double(value) {
            // Upstream uses the precision as a width.
            Some(number) => {
                let width = precision.min(PRECISION_MAX);
                format!("{:>width$}", scientific(number))
            }
            None => return Err(format_error(clause.type_error(value.type_name()))),
        },
        _ => return Err(format_error(clause.type_error(value.type_name()))),
    };
    out.push_str(&written);
    Ok(())
}

fn signed(number: i64, write: fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", write(number.unsigned_abs()))
}

fn hex(value: &Value) -> Option<String> {
    let of_bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(match value {
        Value::Int(int) => signed(*int, |number| format!("{number:x}")),
        Value::Uint(uint) => format!("{uint:x}"),
        Value::String(text) => of_bytes(text.as_bytes()),
        Value::Bytes(bytes) => of_bytes(bytes),
        _ => return None,
    })
}

/// A double, also from one of the strings NaN, Infinity and -Infinity.
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(double) => Some(*double),
        Value::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            parse_double(text)
        }
        _ => None,
    }
}

fn non_finite(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// With thousands separators, as upstream's default locale has them.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = non_finite(number) {
        return text.to_owned();
    }
    let text = format!("{number:.precision$}");
    let (whole, fraction) = text.split_once('.').map_or((&*text, ""), |parts| parts);
    let (sign, digits) = whole
        .strip_prefix('-')
        .map_or(("", whole), |rest| ("-", rest));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        "" => format!("{sign}{grouped}"),
        _ => format!("{sign}{grouped}.{fraction}"),
    }
}

fn scientific(number: f64) -> String {
    if let Some(text) = non_finite(number) {
        return text.to_owned();
    }
    let text = format!("{number:.PRECISION_DEFAULT$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // The locale writes the exponent with superscript digits.
    let superscript: String = format!("{:02}", exponent.unsigned_abs())
        .chars()
        .map(|digit| match digit {
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            other => other
                .to_digit(10)
                .and_then(|digit| char::from_u32(0x2070 + digit))
                .unwrap_or(other),
        })
        .collect();
    let sign = if exponent < 0 { "⁻" } else { "" };
    format!("{mantissa}×10{sign}{superscript}")
}

/// The string clause.
fn write_string(
    interpreter: &mut Interpreter<'_, '_>,
    value: &Value,
    out: &mut String,
) -> EvaluationResult<()> {
    match value {
        Value::List(_) | Value::Map(_) => write_nested(interpreter, value, out),
        Value::Null => {
            out.push_str("null");
            Ok(())
        }
        Value::Opaque(_) => string_clause_error(value),
        _ => match string_of(value)? {
            Some(text) => {
                out.push_str(&text);
                Ok(())
            }
            None => string_clause_error(value),
        },
    }
}

fn string_clause_error<T>(value: &Value) -> EvaluationResult<T> {
    let message = FormatClause::String.type_error(value.type_name());
    fail(format!("error during formatting: {message}"))
}

/// Writes a list, a map, or a value inside of them.
fn write_nested(
    interpreter: &mut Interpreter<'_, '_>,
    value: &Value,
    out: &mut String,
) -> EvaluationResult<()> {
    interpreter.budget.count_step()?;
    let before = out.len();
    match value {
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.items().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_nested(interpreter, item, out)?;
            }
            out.push(']');
            return Ok(());
        }
        Value::Map(map) => return write_map(interpreter, map.entries(), out),
        Value::String(text) => out.push_str(&gotext::quote(text).to_string()),
        Value::Bytes(_) => {
            let text = string_of(value)?.unwrap_or_default();
            out.push_str(&format!("b{}", gotext::quote(&text)));
        }
        Value::Timestamp(..) | Value::Duration(_) => {
            let name = match value {
                Value::Duration(_) => "duration",
                _ => "timestamp",
            };
            let text = string_of(value)?.unwrap_or_default();
            out.push_str(&format!("{name}({})", gotext::quote(&text)));
        }
        Value::Double(double) if !double.is_finite() => {
            let text = gotext::float(*double);
            out.push_str(&gotext::quote(&text).to_string());
        }
        Value::Double(double) => out.push_str(&format!("{double:.6}")),
        Value::Null => out.push_str("null"),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Type(_) => {
            out.push_str(&string_of(value)?.unwrap_or_default());
        }
        other => {
            let name = other.type_name();
            return fail(format!(
                "error during formatting: no formatting function for {name}"
            ));
        }
    }
    interpreter.budget.allocate(out.len() - before)
}

fn write_map(
    interpreter: &mut Interpreter<'_, '_>,
    entries: &[(MapKey, Value)],
    out: &mut String,
) -> EvaluationResult<()> {
    let mut written = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let (mut name, mut text) = (String::new(), String::new());
        write_nested(interpreter, &key.to_value(), &mut name)?;
        write_nested(interpreter, value, &mut text)?;
        written.push((name, text));
    }
    written.sort();
    out.push('{');
    for (index, (name, text)) in written.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(&format!("{name}:{text}"));
    }
    out.push('}');
    Ok(())
}
