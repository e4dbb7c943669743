//! Splits the text of an expression into tokens.

use crate::compile_issue::CompileIssue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Int,
    Uint,
    Float,
    String,
    Bytes,
    Ident,
    /// An identifier in backquotes (`ESC_IDENTIFIER`).
    EscapedIdent,
    /// An operator, a bracket, or one of the words `in`, `true`, `false`, `null`.
    Symbol(&'static str),
    Eof,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A symbol precedes its own prefixes.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

/// Returns the tokens, and an issue for each unrecognized part of the text.
pub(crate) fn tokenize(text: &[char]) -> (Vec<Token>, Vec<CompileIssue>) {
    let mut tokens = Vec::new();
    let mut issues = Vec::new();
    let mut offset = 0;
    while offset < text.len() {
        if let Some(end) = skip_whitespace_or_comment(text, offset) {
            offset = end;
            continue;
        }
        match scan_token(text, offset) {
            Ok((kind, end)) => {
                tokens.push(Token {
                    kind,
                    start: offset,
                    end,
                });
                offset = end;
            }
            Err(failed) => {
                let end = (failed + 1).min(text.len());
                let skipped: String = text[offset..end].iter().collect();
                let skipped = escape_control_characters(&skipped);
                issues.push(CompileIssue::at(
                    offset,
                    format!("Syntax error: token recognition error at: '{skipped}'"),
                ));
                offset = end.max(offset + 1);
            }
        }
    }
    tokens.push(Token {
        kind: TokenKind::Eof,
        start: text.len(),
        end: text.len(),
    });
    (tokens, issues)
}

/// Escapes control characters as error messages show them.
pub(crate) fn escape_control_characters(text: &str) -> String {
    text.replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t")
}

/// The end of the white space or of the comment that begins at `offset`, if one does.
fn skip_whitespace_or_comment(text: &[char], offset: usize) -> Option<usize> {
    let is_space = |c: &char| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}');
    if text[offset..].starts_with(&['/', '/']) {
        let line = text[offset..].iter().position(|c| *c == '\n');
        return Some(line.map_or(text.len(), |length| offset + length));
    }
    let spaces = text[offset..].iter().take_while(|c| is_space(c)).count();
    (spaces > 0).then_some(offset + spaces)
}

/// The kind and the end of the token that begins at `offset`; the error is the offset of the unexpected character.
fn scan_token(text: &[char], offset: usize) -> Result<(TokenKind, usize), usize> {
    let first = text[offset];
    if let Some((kind, literal)) = scan_string_prefix(text, offset) {
        return scan_string(text, literal.quote_offset, literal.raw).map(|end| (kind, end));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        return Ok(scan_word(text, offset));
    }
    if let Some(number) = scan_number(text, offset) {
        return Ok(number);
    }
    if first == '`' {
        return scan_escaped_ident(text, offset).map(|end| (TokenKind::EscapedIdent, end));
    }
    for symbol in SYMBOLS {
        if symbol
            .chars()
            .enumerate()
            .all(|(index, c)| text.get(offset + index) == Some(&c))
        {
            return Ok((TokenKind::Symbol(symbol), offset + symbol.len()));
        }
    }
    // After the first character of `==`, `&&` and `||`, the character that follows is the unexpected one.
    Err(match first {
        '=' | '&' | '|' => offset + 1,
        _ => offset,
    })
}

/// The opening quote of a string literal.
struct StringLiteralStart {
    quote_offset: usize,
    raw: bool,
}

/// The start of the string or bytes literal at `offset`, after its optional prefixes `b` and `r`.
fn scan_string_prefix(text: &[char], offset: usize) -> Option<(TokenKind, StringLiteralStart)> {
    let mut kind = TokenKind::String;
    let mut raw = false;
    let mut quote_offset = offset;
    if matches!(text.get(quote_offset), Some('b' | 'B')) {
        kind = TokenKind::Bytes;
        quote_offset += 1;
    }
    if matches!(text.get(quote_offset), Some('r' | 'R')) {
        raw = true;
        quote_offset += 1;
    }
    matches!(text.get(quote_offset), Some('"' | '\''))
        .then_some((kind, StringLiteralStart { quote_offset, raw }))
}

fn scan_string(text: &[char], start: usize, raw: bool) -> Result<usize, usize> {
    let quote = text[start];
    let triple = text[start..].starts_with(&[quote; 3]);
    let mut offset = start + if triple { 3 } else { 1 };
    loop {
        let Some(&character) = text.get(offset) else {
            // Without closing quotes, the first two of three quotes are an empty string.
            return if triple { Ok(start + 2) } else { Err(offset) };
        };
        if character == quote && (!triple || text[offset..].starts_with(&[quote; 3])) {
            return Ok(offset + if triple { 3 } else { 1 });
        }
        match character {
            '\\' if !raw => {
                offset +=
                    1 + scan_escape(&text[offset + 1..]).map_err(|valid| offset + 1 + valid)?;
            }
            '\n' | '\r' if !triple => return Err(offset),
            _ => offset += 1,
        }
    }
}

/// The length of the escape sequence after a backslash; the error is the length of its valid part.
fn scan_escape(rest: &[char]) -> Result<usize, usize> {
    let digits = |from: usize, count: usize, radix: u32| {
        let valid = rest
            .iter()
            .skip(from)
            .take(count)
            .take_while(|c| c.is_digit(radix))
            .count();
        if valid == count {
            Ok(from + count)
        } else {
            Err(from + valid)
        }
    };
    match rest.first() {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(1),
        Some('x' | 'X') => digits(1, 2, 16),
        Some('u') => digits(1, 4, 16),
        Some('U') => digits(1, 8, 16),
        Some('0'..='3') => digits(1, 2, 8),
        _ => Err(0),
    }
}

fn scan_word(text: &[char], offset: usize) -> (TokenKind, usize) {
    let length = text[offset..]
        .iter()
        .take_while(|c| c.is_ascii_alphanumeric() || **c == '_')
        .count();
    let end = offset + length;
    let word: String = text[offset..end].iter().collect();
    let kind = match word.as_str() {
        "in" => TokenKind::Symbol("in"),
        "true" => TokenKind::Symbol("true"),
        "false" => TokenKind::Symbol("false"),
        "null" => TokenKind::Symbol("null"),
        _ => TokenKind::Ident,
    };
    (kind, end)
}

fn scan_number(text: &[char], offset: usize) -> Option<(TokenKind, usize)> {
    let digits = |from: usize| {
        text.get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let unsigned = |kind: TokenKind, end: usize| match text.get(end) {
        Some('u' | 'U') => (TokenKind::Uint, end + 1),
        _ => (kind, end),
    };
    if text[offset..].starts_with(&['0', 'x']) {
        let hex = text[offset + 2..]
            .iter()
            .take_while(|c| c.is_ascii_hexdigit())
            .count();
        if hex > 0 {
            return Some(unsigned(TokenKind::Int, offset + 2 + hex));
        }
    }
    let whole = digits(offset);
    let mut end = offset + whole;
    let mut float = false;
    if text.get(end) == Some(&'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
        float = true;
    }
    if whole == 0 && !float {
        return None;
    }
    if matches!(text.get(end), Some('e' | 'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some('+' | '-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
            float = true;
        }
    }
    Some(match float {
        true => (TokenKind::Float, end),
        false => unsigned(TokenKind::Int, end),
    })
}

fn scan_escaped_ident(text: &[char], offset: usize) -> Result<usize, usize> {
    let is_inside =
        |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    let length = text[offset + 1..]
        .iter()
        .take_while(|c| is_inside(c))
        .count();
    let end = offset + 1 + length;
    match text.get(end) {
        Some('`') if length > 0 => Ok(end + 1),
        _ => Err(end),
    }
}
