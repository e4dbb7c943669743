//! Cuts the text into tokens.

use super::issue::Issue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Int,
    Uint,
    Float,
    String,
    Bytes,
    Ident,
    /// A name in backquotes.
    Quoted,
    /// An operator, a bracket, or one of the words `in`, `true`, `false`, `null`.
    Symbol(&'static str),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Longer ones first, where one begins like another.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

/// The tokens, and an issue for each stretch of text that is none.
pub(crate) fn tokens(text: &[char]) -> (Vec<Lexeme>, Vec<Issue>) {
    let mut lexemes = Vec::new();
    let mut issues = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(end) = blank(text, at) {
            at = end;
            continue;
        }
        match token(text, at) {
            Ok((token, end)) => {
                lexemes.push(Lexeme {
                    token,
                    start: at,
                    end,
                });
                at = end;
            }
            Err(failed) => {
                let end = (failed + 1).min(text.len());
                let skipped: String = text[at..end].iter().collect();
                let shown = shown(&skipped);
                issues.push(Issue::at(
                    at,
                    format!("Syntax error: token recognition error at: '{shown}'"),
                ));
                at = end.max(at + 1);
            }
        }
    }
    lexemes.push(Lexeme {
        token: Token::End,
        start: text.len(),
        end: text.len(),
    });
    (lexemes, issues)
}

/// Control characters as error messages show them.
pub(crate) fn shown(text: &str) -> String {
    text.replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t")
}

/// The end of white space or of a comment that begins here.
fn blank(text: &[char], at: usize) -> Option<usize> {
    let is_space = |c: &char| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}');
    if text[at..].starts_with(&['/', '/']) {
        let line = text[at..].iter().position(|c| *c == '\n');
        return Some(line.map_or(text.len(), |length| at + length));
    }
    let spaces = text[at..].iter().take_while(|c| is_space(c)).count();
    (spaces > 0).then_some(at + spaces)
}

/// The token that begins here and where it ends, or where it stopped to be one.
fn token(text: &[char], at: usize) -> Result<(Token, usize), usize> {
    let first = text[at];
    if let Some((token, quote)) = string_prefix(text, at) {
        return string(text, quote.start, quote.raw).map(|end| (token, end));
    }
    if first.is_ascii_alphabetic() || first == '_' {
        return Ok(word(text, at));
    }
    if let Some(number) = number(text, at) {
        return Ok(number);
    }
    if first == '`' {
        return quoted_name(text, at).map(|end| (Token::Quoted, end));
    }
    for symbol in SYMBOLS {
        if symbol
            .chars()
            .enumerate()
            .all(|(index, c)| text.get(at + index) == Some(&c))
        {
            return Ok((Token::Symbol(symbol), at + symbol.len()));
        }
    }
    // The first half of an operator that has two fails at what follows it.
    Err(match first {
        '=' | '&' | '|' => at + 1,
        _ => at,
    })
}

struct Quote {
    start: usize,
    raw: bool,
}

/// Whether a string begins here, after `b` and `r` if they are there.
fn string_prefix(text: &[char], at: usize) -> Option<(Token, Quote)> {
    let mut token = Token::String;
    let mut raw = false;
    let mut start = at;
    if matches!(text.get(start), Some('b' | 'B')) {
        token = Token::Bytes;
        start += 1;
    }
    if matches!(text.get(start), Some('r' | 'R')) {
        raw = true;
        start += 1;
    }
    matches!(text.get(start), Some('"' | '\'')).then_some((token, Quote { start, raw }))
}

fn string(text: &[char], start: usize, raw: bool) -> Result<usize, usize> {
    let quote = text[start];
    let triple = text[start..].starts_with(&[quote; 3]);
    let mut at = start + if triple { 3 } else { 1 };
    loop {
        let Some(&character) = text.get(at) else {
            // An empty string is there even if three quotes do not end.
            return if triple { Ok(start + 2) } else { Err(at) };
        };
        if character == quote && (!triple || text[at..].starts_with(&[quote; 3])) {
            return Ok(at + if triple { 3 } else { 1 });
        }
        match character {
            '\\' if !raw => at += 1 + escape(&text[at + 1..]).map_err(|seen| at + 1 + seen)?,
            '\n' | '\r' if !triple => return Err(at),
            _ => at += 1,
        }
    }
}

/// How long the escape sequence after a backslash is, or how much of it is good.
fn escape(rest: &[char]) -> Result<usize, usize> {
    let digits = |from: usize, count: usize, radix: u32| {
        let good = rest
            .iter()
            .skip(from)
            .take(count)
            .take_while(|c| c.is_digit(radix))
            .count();
        if good == count {
            Ok(from + count)
        } else {
            Err(from + good)
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

fn word(text: &[char], at: usize) -> (Token, usize) {
    let length = text[at..]
        .iter()
        .take_while(|c| c.is_ascii_alphanumeric() || **c == '_')
        .count();
    let end = at + length;
    let word: String = text[at..end].iter().collect();
    let token = match word.as_str() {
        "in" => Token::Symbol("in"),
        "true" => Token::Symbol("true"),
        "false" => Token::Symbol("false"),
        "null" => Token::Symbol("null"),
        _ => Token::Ident,
    };
    (token, end)
}

fn number(text: &[char], at: usize) -> Option<(Token, usize)> {
    let digits = |from: usize| {
        text.get(from..)
            .unwrap_or_default()
            .iter()
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let unsigned = |token: Token, end: usize| match text.get(end) {
        Some('u' | 'U') => (Token::Uint, end + 1),
        _ => (token, end),
    };
    if text[at..].starts_with(&['0', 'x']) {
        let hex = text[at + 2..]
            .iter()
            .take_while(|c| c.is_ascii_hexdigit())
            .count();
        if hex > 0 {
            return Some(unsigned(Token::Int, at + 2 + hex));
        }
    }
    let whole = digits(at);
    let mut end = at + whole;
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
        true => (Token::Float, end),
        false => unsigned(Token::Int, end),
    })
}

fn quoted_name(text: &[char], at: usize) -> Result<usize, usize> {
    let is_inside =
        |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    let length = text[at + 1..].iter().take_while(|c| is_inside(c)).count();
    let end = at + 1 + length;
    match text.get(end) {
        Some('`') if length > 0 => Ok(end + 1),
        _ => Err(end),
    }
}
