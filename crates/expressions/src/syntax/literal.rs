//! What numbers and strings in the text stand for.

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

/// The text between the quotes, with escapes resolved.
pub(crate) fn string(lexeme: &str) -> Result<Value, &'static str> {
    let mut out = String::new();
    for piece in pieces(lexeme) {
        match piece {
            Piece::Character(character) => out.push(character),
            Piece::Number(number) => {
                out.push(char::from_u32(number).ok_or("invalid unicode code point")?);
            }
            Piece::Byte(byte) => out.push(char::from(byte)),
        }
    }
    Ok(Value::from(out))
}

/// As [`string`], but a numeric escape is one byte.
pub(crate) fn bytes(lexeme: &str) -> Result<Value, &'static str> {
    let mut out = Vec::new();
    let lexeme = lexeme.trim_start_matches(['b', 'B']);
    let mut buffer = [0; 4];
    for piece in pieces(lexeme) {
        match piece {
            Piece::Character(character) => {
                out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
            }
            Piece::Number(_) => return Err("unable to unescape string"),
            Piece::Byte(byte) => out.push(byte),
        }
    }
    Ok(Value::Bytes(out.into()))
}

enum Piece {
    Character(char),
    /// `\u` and `\U`.
    Number(u32),
    /// `\x` and octal.
    Byte(u8),
}

fn pieces(lexeme: &str) -> Vec<Piece> {
    let raw = lexeme.starts_with(['r', 'R']);
    let body = lexeme.trim_start_matches(['r', 'R']);
    let quotes = match body {
        _ if body.len() >= 6 && (body.starts_with("\"\"\"") || body.starts_with("'''")) => 3,
        _ => 1,
    };
    let body = body
        .get(quotes..body.len().saturating_sub(quotes))
        .unwrap_or_default()
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let mut pieces = Vec::new();
    let mut rest = body.chars();
    while let Some(character) = rest.next() {
        pieces.push(match character {
            '\\' if !raw => escape(&mut rest),
            _ => Piece::Character(character),
        });
    }
    pieces
}

/// The lexer has made sure that it is one.
fn escape(rest: &mut std::str::Chars<'_>) -> Piece {
    let Some(kind) = rest.next() else {
        return Piece::Character('\\');
    };
    let mut number = |first: u32, digits: usize, radix: u32| {
        rest.by_ref()
            .take(digits)
            .filter_map(|c| c.to_digit(radix))
            .fold(first, |sum, digit| {
                sum.wrapping_mul(radix).wrapping_add(digit)
            })
    };
    let byte = |number: u32| Piece::Byte(u8::try_from(number).unwrap_or(u8::MAX));
    match kind {
        'a' => Piece::Character('\u{7}'),
        'b' => Piece::Character('\u{8}'),
        'f' => Piece::Character('\u{c}'),
        'n' => Piece::Character('\n'),
        'r' => Piece::Character('\r'),
        't' => Piece::Character('\t'),
        'v' => Piece::Character('\u{b}'),
        'x' | 'X' => byte(number(0, 2, 16)),
        'u' => Piece::Number(number(0, 4, 16)),
        'U' => Piece::Number(number(0, 8, 16)),
        '0'..='3' => byte(number(kind.to_digit(8).unwrap_or(0), 2, 8)),
        other => Piece::Character(other),
    }
}
