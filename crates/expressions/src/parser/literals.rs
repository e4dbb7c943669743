//! Values of number, string and bytes literals (cel-go: `parser/unescape.go`).

use crate::value::Value;

pub(crate) fn int(text: &str, negative: bool) -> Result<Value, &'static str> {
    let sign = if negative { "-" } else { "" };
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
        None => format!("{sign}{text}").parse(),
    };
    parsed.map(Value::Int).map_err(|_| "invalid int literal")
}

pub(crate) fn uint(text: &str) -> Result<Value, &'static str> {
    let digits = text.trim_end_matches(['u', 'U']);
    let parsed = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    parsed.map(Value::Uint).map_err(|_| "invalid uint literal")
}

pub(crate) fn float(text: &str, negative: bool) -> Result<Value, &'static str> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => {
            Ok(Value::Double(if negative { -number } else { number }))
        }
        _ => Err("invalid double literal"),
    }
}

/// Unescapes a string literal.
pub(crate) fn string(token: &str) -> Result<Value, &'static str> {
    let mut out = String::new();
    for unescaped in unescape(token) {
        match unescaped {
            UnescapedChar::Character(character) => out.push(character),
            UnescapedChar::CodePoint(number) => {
                out.push(char::from_u32(number).ok_or("invalid unicode code point")?);
            }
            UnescapedChar::Byte(byte) => out.push(char::from(byte)),
        }
    }
    Ok(Value::from(out))
}

/// Unescapes a bytes literal: a numeric escape is one byte.
pub(crate) fn bytes(token: &str) -> Result<Value, &'static str> {
    let mut out = Vec::new();
    let token = token.trim_start_matches(['b', 'B']);
    let mut buffer = [0; 4];
    for unescaped in unescape(token) {
        match unescaped {
            UnescapedChar::Character(character) => {
                out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
            }
            UnescapedChar::CodePoint(_) => return Err("unable to unescape string"),
            UnescapedChar::Byte(byte) => out.push(byte),
        }
    }
    Ok(Value::Bytes(out.into()))
}

/// One character or escape sequence of a literal.
enum UnescapedChar {
    Character(char),
    /// `\u` and `\U`.
    CodePoint(u32),
    /// `\x` and octal.
    Byte(u8),
}

fn unescape(token: &str) -> Vec<UnescapedChar> {
    let raw = token.starts_with(['r', 'R']);
    let body = token.trim_start_matches(['r', 'R']);
    let quotes = match body {
        _ if body.len() >= 6 && (body.starts_with("\"\"\"") || body.starts_with("'''")) => 3,
        _ => 1,
    };
    let body = body
        .get(quotes..body.len().saturating_sub(quotes))
        .unwrap_or_default()
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut unescaped = Vec::new();
    let mut rest = body.chars();
    while let Some(character) = rest.next() {
        unescaped.push(match character {
            '\\' if !raw => unescape_sequence(&mut rest),
            _ => UnescapedChar::Character(character),
        });
    }
    unescaped
}

/// Reads an escape sequence after its backslash; the lexer has validated it.
fn unescape_sequence(rest: &mut std::str::Chars<'_>) -> UnescapedChar {
    let Some(kind) = rest.next() else {
        return UnescapedChar::Character('\\');
    };
    let mut number = |first: u32, digits: usize, radix: u32| {
        rest.by_ref()
            .take(digits)
            .filter_map(|c| c.to_digit(radix))
            .fold(first, |sum, digit| {
                sum.wrapping_mul(radix).wrapping_add(digit)
            })
    };
    let byte = |number: u32| UnescapedChar::Byte(u8::try_from(number).unwrap_or(u8::MAX));
    match kind {
        'a' => UnescapedChar::Character('\u{7}'),
        'b' => UnescapedChar::Character('\u{8}'),
        'f' => UnescapedChar::Character('\u{c}'),
        'n' => UnescapedChar::Character('\n'),
        'r' => UnescapedChar::Character('\r'),
        't' => UnescapedChar::Character('\t'),
        'v' => UnescapedChar::Character('\u{b}'),
        'x' | 'X' => byte(number(0, 2, 16)),
        'u' => UnescapedChar::CodePoint(number(0, 4, 16)),
        'U' => UnescapedChar::CodePoint(number(0, 8, 16)),
        '0'..='3' => byte(number(kind.to_digit(8).unwrap_or(0), 2, 8)),
        other => UnescapedChar::Character(other),
    }
}
