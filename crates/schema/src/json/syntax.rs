//! Checks JSON syntax, with the error messages of Go's `encoding/json`.

use rhumb_meta::gotext;

/// Maximum nesting depth.
pub(crate) const MAX_DEPTH: usize = 10_000;

const UNEXPECTED_END: &str = "unexpected end of JSON input";

/// Checks that the bytes are valid JSON; the error describes the first syntax error.
pub(crate) fn check(bytes: &[u8]) -> Result<(), String> {
    let mut scanner = Scanner {
        bytes,
        offset: 0,
        open_brackets: Vec::new(),
    };
    scanner.document()
}

/// Counterpart of Go's `json.scanner`.
struct Scanner<'a> {
    bytes: &'a [u8],
    offset: usize,
    /// Stack of unclosed brackets.
    open_brackets: Vec<u8>,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.begin_value()?;
        while let Some(&bracket) = self.open_brackets.last() {
            let (byte, context) = match bracket {
                b'{' => (self.next()?, "after object key:value pair"),
                _ => (self.next()?, "after array element"),
            };
            match (bracket, byte) {
                (b'{', b',') => {
                    if self.next()? != b'"' {
                        return Err(
                            self.unexpected_byte("looking for beginning of object key string")
                        );
                    }
                    self.key()?;
                    self.begin_value()?;
                }
                (b'[', b',') => self.begin_value()?,
                (b'{', b'}') | (b'[', b']') => {
                    self.open_brackets.pop();
                }
                _ => return Err(self.unexpected_byte(context)),
            }
        }
        match self.next() {
            Ok(_) => Err(self.unexpected_byte("after top-level value")),
            Err(_) => Ok(()),
        }
    }

    /// Reads a scalar completely, or an object or list up to the end of its first scalar.
    fn begin_value(&mut self) -> Result<(), String> {
        loop {
            let byte = self.next()?;
            match byte {
                b'{' => {
                    self.push(byte)?;
                    match self.next()? {
                        b'}' => {
                            self.open_brackets.pop();
                            return Ok(());
                        }
                        b'"' => self.key()?,
                        _ => {
                            return Err(
                                self.unexpected_byte("looking for beginning of object key string")
                            );
                        }
                    }
                }
                b'[' => {
                    self.push(byte)?;
                    if self.next()? == b']' {
                        self.open_brackets.pop();
                        return Ok(());
                    }
                    self.offset -= 1;
                }
                _ => return self.scalar(byte),
            }
        }
    }

    fn push(&mut self, bracket: u8) -> Result<(), String> {
        self.open_brackets.push(bracket);
        if self.open_brackets.len() > MAX_DEPTH {
            return Err(self.unexpected_byte("exceeded max depth"));
        }
        Ok(())
    }

    /// Reads the rest of a key after its opening quote, and the colon.
    fn key(&mut self) -> Result<(), String> {
        self.string()?;
        if self.next()? != b':' {
            return Err(self.unexpected_byte("after object key"));
        }
        Ok(())
    }

    fn scalar(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            _ => Err(self.unexpected_byte("looking for beginning of value")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                0..=0x1f => return Err(self.unexpected_byte("in string literal")),
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.byte()? {
            b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => Ok(()),
            b'u' => {
                for _ in 0..4 {
                    if !self.byte()?.is_ascii_hexdigit() {
                        return Err(self.unexpected_byte("in \\u hexadecimal character escape"));
                    }
                }
                Ok(())
            }
            _ => Err(self.unexpected_byte("in string escape code")),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            if self.byte()? != expected {
                let expected = char::from(expected);
                return Err(
                    self.unexpected_byte(&format!("in literal {word} (expecting '{expected}')"))
                );
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let lead = if first == b'-' {
            self.digit("in numeric literal")?
        } else {
            first
        };
        if lead != b'0' {
            self.more_digits();
        }
        if self.peek_is(b".") {
            self.offset += 1;
            self.digit("after decimal point in numeric literal")?;
            self.more_digits();
        }
        if self.peek_is(b"eE") {
            self.offset += 1;
            if self.peek_is(b"+-") {
                self.offset += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.more_digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<u8, String> {
        let byte = self.byte()?;
        if byte.is_ascii_digit() {
            Ok(byte)
        } else {
            Err(self.unexpected_byte(context))
        }
    }

    fn more_digits(&mut self) {
        while self.peek_is(b"0123456789") {
            self.offset += 1;
        }
    }

    fn peek_is(&self, any_of: &[u8]) -> bool {
        let next = self.bytes.get(self.offset);
        next.is_some_and(|byte| any_of.contains(byte))
    }

    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.offset).ok_or(UNEXPECTED_END)?;
        self.offset += 1;
        Ok(*byte)
    }

    /// The next byte that is not white space.
    fn next(&mut self) -> Result<u8, String> {
        loop {
            let byte = self.byte()?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(byte);
            }
        }
    }

    /// The error for an unexpected byte, which was read last.
    fn unexpected_byte(&self, context: &str) -> String {
        let byte = self.bytes.get(self.offset.wrapping_sub(1)).copied();
        let quoted = match byte.map(char::from) {
            Some('\'') => "\\'".to_owned(),
            Some('"') => "\"".to_owned(),
            Some(other) => {
                let quoted = gotext::quote(other.encode_utf8(&mut [0; 4])).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            }
            None => String::new(),
        };
        format!("invalid character '{quoted}' {context}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        for (text, expect) in [
            ("", UNEXPECTED_END),
            ("{", UNEXPECTED_END),
            ("[1,2", UNEXPECTED_END),
            ("\"abc", UNEXPECTED_END),
            ("tru", UNEXPECTED_END),
            ("-", UNEXPECTED_END),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            (
                "{a:1}",
                "invalid character 'a' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            (
                "[1,]",
                "invalid character ']' looking for beginning of value",
            ),
            (
                "'a'",
                "invalid character '\\'' looking for beginning of value",
            ),
            ("{} x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\q\"", "invalid character 'q' in string escape code"),
            (
                "\"\\u12x4\"",
                "invalid character 'x' in \\u hexadecimal character escape",
            ),
            ("-a", "invalid character 'a' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            (
                "1e+x",
                "invalid character 'x' in exponent of numeric literal",
            ),
            (
                "trux",
                "invalid character 'x' in literal true (expecting 'e')",
            ),
            (
                "nil",
                "invalid character 'i' in literal null (expecting 'u')",
            ),
            (
                "\u{e9}",
                "invalid character '\u{c3}' looking for beginning of value",
            ),
            (&deep, "invalid character '[' exceeded max depth"),
        ] {
            assert_eq!(check(text.as_bytes()), Err(expect.to_owned()), "{text:.20}");
        }
    }

    #[test]
    fn valid_json_is_accepted() {
        for text in [
            "{}",
            " [ ] ",
            "{\"a\":[1,2,{\"b\":-0.5e-3}],\"c\":null}\n",
            "\"\\ud800\"",
            "0",
        ] {
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
    }
}
