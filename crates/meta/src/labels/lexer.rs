//! Lexer for label selectors.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    End,
    Identifier,
    In,
    NotIn,
    OpenParenthesis,
    ClosedParenthesis,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind,
    pub(super) text: &'a str,
}

impl Token<'_> {
    /// The kind where a key or value is expected: `in` and `notin` are identifiers there.
    pub(super) fn kind_as_word(self) -> TokenKind {
        match self.kind {
            TokenKind::In | TokenKind::NotIn => TokenKind::Identifier,
            kind => kind,
        }
    }
}

/// Splits a text into tokens.
///
/// As in upstream's lexer, a NUL byte ends the token that it follows, or the whole input if it is at the start of a
/// token.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(input: &'a str) -> Self {
        Lexer { rest: input }
    }

    /// The next token; always [`TokenKind::End`] after the end of the input.
    pub(super) fn next(&mut self) -> Token<'a> {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let mut bytes = self.rest.bytes();
        let Some(first) = bytes.next().filter(|&byte| byte != 0) else {
            self.rest = "";
            return Token {
                kind: TokenKind::End,
                text: "",
            };
        };
        match symbol(first, bytes.next()) {
            Some((kind, len)) => self.take(kind, len),
            None => {
                let len = self.rest.find(is_separator).unwrap_or(self.rest.len());
                let kind = match &self.rest[..len] {
                    "in" => TokenKind::In,
                    "notin" => TokenKind::NotIn,
                    _ => TokenKind::Identifier,
                };
                self.take(kind, len)
            }
        }
    }

    fn take(&mut self, kind: TokenKind, len: usize) -> Token<'a> {
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest.strip_prefix('\0').unwrap_or(rest);
        Token { kind, text }
    }
}

fn symbol(first: u8, second: Option<u8>) -> Option<(TokenKind, usize)> {
    Some(match (first, second) {
        (b'=', Some(b'=')) => (TokenKind::DoubleEquals, 2),
        (b'!', Some(b'=')) => (TokenKind::NotEquals, 2),
        (b'=', _) => (TokenKind::Equals, 1),
        (b'!', _) => (TokenKind::Not, 1),
        (b'(', _) => (TokenKind::OpenParenthesis, 1),
        (b')', _) => (TokenKind::ClosedParenthesis, 1),
        (b',', _) => (TokenKind::Comma, 1),
        (b'>', _) => (TokenKind::GreaterThan, 1),
        (b'<', _) => (TokenKind::LessThan, 1),
        _ => return None,
    })
}

fn is_separator(c: char) -> bool {
    matches!(
        c,
        '\0' | ' ' | '\t' | '\r' | '\n' | '=' | '!' | '(' | ')' | ',' | '>' | '<'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(input: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(input);
        let mut words = Vec::new();
        loop {
            let token = lexer.next();
            if token.kind == TokenKind::End {
                return words;
            }
            words.push(token.text);
        }
    }

    #[test]
    fn tokens_are_split_as_upstream() {
        let table: [(&str, &[&str]); 9] = [
            ("", &[]),
            (" \t\r\n", &[]),
            ("a=b", &["a", "=", "b"]),
            ("a===b!==c", &["a", "==", "=", "b", "!=", "=", "c"]),
            ("x in (a,,b)", &["x", "in", "(", "a", ",", ",", "b", ")"]),
            ("!a>1<2", &["!", "a", ">", "1", "<", "2"]),
            ("é日=ü", &["é日", "=", "ü"]),
            ("a\0b=\0c", &["a", "b", "=", "c"]),
            ("a \0b", &["a"]),
        ];
        for (input, want) in table {
            assert_eq!(words(input), want, "{input:?}");
        }
    }
}
