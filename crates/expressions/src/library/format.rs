//! `'%s is %d'.format(['a', 1])`.

use super::convert::{parse_double, string_of};
use super::{Table, fail, no_overload};
use crate::error::{Evaluated, EvaluationError};
use crate::run::Machine;
use crate::value::{Key, Value};
use rhumb_meta::gotext;

pub(super) const TABLE: Table = &[("format", format)];

/// What stands after a percent sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    /// In capitals or not.
    Hex(bool),
    Octal,
}

const PRECISION_DEFAULT: usize = 6;
/// More digits than a double ever has.
const PRECISION_MAX: usize = 1000;

impl Clause {
    pub(crate) fn refusal(self, name: &str) -> String {
        let only = match self {
            Clause::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Clause::Decimal => "decimal clause can only be used on integers",
            Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
            Clause::Scientific(_) => "scientific clause can only be used on doubles",
            Clause::Binary => "only integers and bools can be formatted as binary",
            Clause::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
            Clause::Octal => "octal clause can only be used on integers",
        };
        format!("{only}, was given {name}")
    }
}

/// A stretch of text, or a clause.
enum Piece<'t> {
    Text(&'t str),
    Clause(Clause),
}

/// The clauses of a format, one after the other, up to the first that is wrong.
pub(crate) fn clauses<E: From<(Option<usize>, String)>>(
    format: &str,
    mut each: impl FnMut(Clause) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = format;
    while let Some((piece, after)) = next(rest) {
        if let Piece::Clause(clause) = piece.map_err(|problem| E::from((None, problem)))? {
            each(clause)?;
        }
        rest = after;
    }
    Ok(())
}

/// The first piece, and what follows it.
fn next(format: &str) -> Option<(Result<Piece<'_>, String>, &str)> {
    if format.is_empty() {
        return None;
    }
    let at = format.find('%').unwrap_or(format.len());
    if at > 0 {
        return Some((Ok(Piece::Text(&format[..at])), &format[at..]));
    }
    let rest = &format[1..];
    if let Some(after) = rest.strip_prefix('%') {
        return Some((Ok(Piece::Text("%")), after));
    }
    match clause(rest) {
        Ok((clause, after)) => Some((Ok(Piece::Clause(clause)), after)),
        Err(problem) => Some((Err(problem), "")),
    }
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    if text.is_empty() {
        return Err("unexpected end of string".to_owned());
    }
    let refuse = |problem: String| format!("could not parse formatting clause: {problem}");
    let (precision, rest) = match text.strip_prefix('.') {
        None => (PRECISION_DEFAULT, text),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, after) = rest.split_at(length);
            if after.is_empty() {
                return Err(refuse(
                    "error while parsing precision: could not find end of precision specifier"
                        .to_owned(),
                ));
            }
            let precision = digits.parse().map_err(|_| {
                refuse(format!(
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
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex(false),
        'X' => Clause::Hex(true),
        'o' => Clause::Octal,
        other => {
            return Err(refuse(format!(
                "unrecognized formatting clause \"{other}\""
            )));
        }
    };
    Ok((clause, characters.as_str()))
}

fn format(machine: &mut Machine<'_, '_>, args: &[Value]) -> Evaluated<Value> {
    let [Value::String(format), Value::List(list)] = args else {
        return no_overload();
    };
    let mut out = String::new();
    let mut used = 0;
    let mut rest = &**format;
    while let Some((piece, after)) = next(rest) {
        let before = out.len();
        match piece.map_err(EvaluationError::new)? {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(clause) => {
                let Some(value) = list.items().get(used) else {
                    return fail(format!("index {used} out of range"));
                };
                used += 1;
                write_clause(machine, clause, value, &mut out)?;
            }
        }
        machine.budget.allocate(out.len() - before)?;
        rest = after;
    }
    Ok(Value::from(out))
}

fn write_clause(
    machine: &mut Machine<'_, '_>,
    clause: Clause,
    value: &Value,
    out: &mut String,
) -> Evaluated<()> {
    let problem =
        |problem: String| EvaluationError::new(format!("error during formatting: {problem}"));
    let written = match (clause, value) {
        (Clause::String, _) => {
            return write_string(machine, value, out);
        }
        (Clause::Decimal, Value::Int(int)) => int.to_string(),
        (Clause::Decimal, Value::Uint(uint)) => uint.to_string(),
        (Clause::Binary, Value::Int(int)) => signed(*int, |number| format!("{number:b}")),
        (Clause::Binary, Value::Uint(uint)) => format!("{uint:b}"),
        (Clause::Binary, Value::Bool(bool)) => u8::from(*bool).to_string(),
        (Clause::Octal, Value::Int(int)) => signed(*int, |number| format!("{number:o}")),
        (Clause::Octal, Value::Uint(uint)) => format!("{uint:o}"),
        (Clause::Hex(upper), value) => match hex(value) {
            Some(text) if upper => text.to_uppercase(),
            Some(text) => text,
            None => return Err(problem(clause.refusal(value.type_name()))),
        },
        (Clause::Fixed(precision), value) => match double(value) {
            Some(number) => fixed(number, precision.min(PRECISION_MAX)),
            None => return Err(problem(clause.refusal(value.type_name()))),
        },
        (Clause::Scientific(precision), value) => match double(value) {
            // Upstream takes the precision for a width.
            Some(number) => {
                let width = precision.min(PRECISION_MAX);
                format!("{:>width$}", scientific(number))
            }
            None => return Err(problem(clause.refusal(value.type_name()))),
        },
        _ => return Err(problem(clause.refusal(value.type_name()))),
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

/// A double, or the name of one that has no digits.
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(double) => Some(*double),
        Value::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => {
            parse_double(text)
        }
        _ => None,
    }
}

fn unusual(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// With commas between thousands, as the locale has it that upstream uses.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(text) = unusual(number) {
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
    if let Some(text) = unusual(number) {
        return text.to_owned();
    }
    let text = format!("{number:.PRECISION_DEFAULT$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // With small digits rather than with a letter: that is what the locale does.
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

/// The string clause: lists and maps are shown as one would write them.
fn write_string(machine: &mut Machine<'_, '_>, value: &Value, out: &mut String) -> Evaluated<()> {
    match value {
        Value::List(_) | Value::Map(_) => write_part(machine, value, out),
        Value::Null => {
            out.push_str("null");
            Ok(())
        }
        Value::Opaque(_) => refused(value),
        _ => match string_of(value)? {
            Some(text) => {
                out.push_str(&text);
                Ok(())
            }
            None => refused(value),
        },
    }
}

fn refused<T>(value: &Value) -> Evaluated<T> {
    let problem = Clause::String.refusal(value.type_name());
    fail(format!("error during formatting: {problem}"))
}

/// What is inside of a list or a map.
fn write_part(machine: &mut Machine<'_, '_>, value: &Value, out: &mut String) -> Evaluated<()> {
    machine.budget.step()?;
    let before = out.len();
    match value {
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.items().iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_part(machine, item, out)?;
            }
            out.push(']');
            return Ok(());
        }
        Value::Map(map) => return write_map(machine, map.entries(), out),
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
    machine.budget.allocate(out.len() - before)
}

fn write_map(
    machine: &mut Machine<'_, '_>,
    entries: &[(Key, Value)],
    out: &mut String,
) -> Evaluated<()> {
    let mut written = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let (mut name, mut text) = (String::new(), String::new());
        write_part(machine, &key.to_value(), &mut name)?;
        write_part(machine, value, &mut text)?;
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
