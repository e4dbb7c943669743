//! Reads JSON from the front to the back, without ever going back.
//!
//! It only says that something is malformed; [`super::check`] finds out what, in the rare case.

use std::borrow::Cow;

use super::plain::plain_end;
use super::syntax::MAX_DEPTH;
use super::unquote::{replace_invalid, unquote};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    /// The same, if all of it is UTF-8: nothing in it needs another look then.
    text: Option<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            bytes,
            text: std::str::from_utf8(bytes).ok(),
            at: 0,
        }
    }

    /// Whether all of it is UTF-8. What is not is replaced in strings that are read, as Go does.
    pub fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// The first byte of the next token, which stays unread.
    #[inline]
    pub fn peek(&mut self) -> Result<u8, Malformed> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Malformed)
    }

    #[inline]
    fn expect(&mut self, wanted: u8) -> Result<(), Malformed> {
        if self.peek()? != wanted {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(())
    }

    /// That nothing but white space is left.
    pub fn end(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            Ok(_) => Err(Malformed),
            Err(Malformed) => Ok(()),
        }
    }

    #[inline(always)]
    pub fn string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        self.expect(b'"')?;
        self.rest_of_string()
    }

    /// After the opening quote.
    #[inline(always)]
    fn rest_of_string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        let end = plain_end(self.bytes, self.at);
        if self.bytes.get(end) == Some(&b'"')
            && let Some(plain) = self.text.and_then(|text| text.get(self.at..end))
        {
            self.at = end + 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.unusual_string(end)
    }

    /// The string whose opening quote is what [`Reader::peek`] has just shown.
    #[inline(always)]
    pub fn string_here(&mut self) -> Result<Cow<'a, str>, Malformed> {
        self.at += 1;
        self.rest_of_string()
    }

    /// After the opening quote: a string with escapes, or one that is no UTF-8. It is plain up to `end`.
    #[cold]
    fn unusual_string(&mut self, mut end: usize) -> Result<Cow<'a, str>, Malformed> {
        let start = self.at;
        let mut escaped = false;
        while self.bytes.get(end) == Some(&b'\\') {
            escaped = true;
            end = plain_end(self.bytes, end + 2);
        }
        // Neither a control character nor the end of the text can be there.
        if self.bytes.get(end) != Some(&b'"') {
            return Err(Malformed);
        }
        self.at = end + 1;
        let quoted = &self.bytes[start..end];
        if escaped {
            unquote(quoted).map(Cow::Owned)
        } else {
            Ok(replace_invalid(quoted))
        }
    }

    pub fn number(&mut self) -> Result<&'a str, Malformed> {
        self.peek()?;
        let start = self.at;
        self.take_if(|byte| byte == b'-');
        if !self.take_if(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.take_if(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.take_if(|byte| matches!(byte, b'e' | b'E')) {
            self.take_if(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        match self.text {
            Some(text) => text.get(start..self.at).ok_or(Malformed),
            None => std::str::from_utf8(&self.bytes[start..self.at]).map_err(|_| Malformed),
        }
    }

    fn take_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let found = self.bytes.get(self.at).is_some_and(|&byte| wanted(byte));
        self.at += usize::from(found);
        found
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        if !self.take_if(|byte| byte.is_ascii_digit()) {
            return Err(Malformed);
        }
        while self.take_if(|byte| byte.is_ascii_digit()) {}
        Ok(())
    }

    /// `true`, `false` or `null`.
    pub fn word(&mut self, word: &str) -> Result<(), Malformed> {
        self.peek()?;
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    #[inline]
    pub fn open(&mut self, bracket: u8) -> Result<(), Malformed> {
        self.expect(bracket)
    }

    /// The next key of an object, or `None` at its end. `first` becomes false.
    #[inline(always)]
    pub fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>, Malformed> {
        if !self.more(first, b'}')? {
            return Ok(None);
        }
        let key = self.string()?;
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Whether a list has another item. `first` becomes false.
    #[inline]
    pub fn item(&mut self, first: &mut bool) -> Result<bool, Malformed> {
        self.more(first, b']')
    }

    #[inline]
    fn more(&mut self, first: &mut bool, end: u8) -> Result<bool, Malformed> {
        let was_first = std::mem::replace(first, false);
        let next = self.peek()?;
        if next == end {
            self.at += 1;
            return Ok(false);
        }
        match next {
            _ if was_first => Ok(true),
            b',' => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(Malformed),
        }
    }

    /// Reads over a value of any depth, without recursion, and gives its text.
    pub fn skip(&mut self) -> Result<&'a [u8], Malformed> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'{' | b'[' => self.skip_nested()?,
            _ => self.skip_scalar(first)?,
        }
        Ok(&self.bytes[start..self.at])
    }

    fn skip_nested(&mut self) -> Result<(), Malformed> {
        let mut open = Nesting::default();
        loop {
            // Here a value begins.
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    open.enter(true)?;
                    if self.peek()? != b'}' {
                        self.skip_key()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    open.enter(false)?;
                    if self.peek()? != b']' {
                        continue;
                    }
                }
                first => self.skip_scalar(first)?,
            }
            // Here one has ended, or there is none in what was just entered.
            loop {
                let next = self.peek()?;
                self.at += 1;
                match (next, open.is_object()) {
                    (b',', true) => {
                        self.skip_key()?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) | (b']', false) => {
                        if open.leave() {
                            return Ok(());
                        }
                    }
                    _ => return Err(Malformed),
                }
            }
        }
    }

    #[inline(always)]
    fn skip_key(&mut self) -> Result<(), Malformed> {
        self.expect(b'"')?;
        self.skip_rest_of_string()?;
        self.expect(b':')
    }

    /// After the opening quote.
    #[inline]
    fn skip_rest_of_string(&mut self) -> Result<(), Malformed> {
        let end = plain_end(self.bytes, self.at);
        if self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(());
        }
        self.unusual_string(end).map(|_| ())
    }

    /// A value that begins with that byte, which stands next.
    #[inline(always)]
    fn skip_scalar(&mut self, first: u8) -> Result<(), Malformed> {
        match first {
            b'"' => {
                self.at += 1;
                self.skip_rest_of_string()
            }
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number().map(|_| ()),
        }
    }
}

/// The brackets that are open, a bit for each.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    /// Of the innermost ones, the last in the lowest bit: whether it is an object, and no list.
    inner: u64,
    /// Of all others, 64 in each.
    outer: Vec<u64>,
}

impl Nesting {
    fn enter(&mut self, object: bool) -> Result<(), Malformed> {
        if self.depth == MAX_DEPTH {
            return Err(Malformed);
        }
        if self.depth.is_multiple_of(64) && self.depth > 0 {
            self.outer.push(self.inner);
        }
        self.inner = self.inner << 1 | u64::from(object);
        self.depth += 1;
        Ok(())
    }

    fn is_object(&self) -> bool {
        self.inner & 1 == 1
    }

    /// Whether that was the last one.
    fn leave(&mut self) -> bool {
        self.depth -= 1;
        self.inner >>= 1;
        if self.depth.is_multiple_of(64)
            && let Some(outer) = self.outer.pop()
        {
            self.inner = outer;
        }
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_depth_are_skipped() {
        let deep = format!("{}1{}", "[{\"a\":".repeat(4000), "}]".repeat(4000));
        for text in [
            r#"{"a":[1,{"b":null},"c\"]"],"d":{}}"#,
            "[]",
            "-1.5e+3",
            "[[],{},[{}]]",
            &deep,
        ] {
            let mut reader = Reader::new(text.as_bytes());
            assert_eq!(reader.skip(), Ok(text.as_bytes()));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn every_bracket_is_closed_by_its_own() {
        for depth in [1, 63, 64, 65, 128, 129, 200] {
            let mixed = |at: usize| at % 3 == 0;
            let open = (0..depth).map(|at| if mixed(at) { "{\"a\":" } else { "[" });
            let close = (0..depth).rev().map(|at| if mixed(at) { "}" } else { "]" });
            let text: String = open.chain(["1"]).chain(close).collect();
            assert_eq!(Reader::new(text.as_bytes()).skip(), Ok(text.as_bytes()));
            let middle = text.find('1').expect("a number");
            for at in middle + 1..text.len() {
                let mut wrong = text.clone().into_bytes();
                wrong[at] ^= b'}' ^ b']';
                let read = Reader::new(&wrong).skip();
                assert_eq!(read, Err(Malformed), "{depth}: {at}");
            }
        }
    }

    #[test]
    fn malformed_values_are_not_skipped() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        for text in [
            "", "[", "{", "{]", "[}", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "01x", "1.", "1e",
            "tru", "\"\\q\"", "\"\n\"", "\"\\", "[1 2]", &deep,
        ] {
            let mut reader = Reader::new(text.as_bytes());
            let read = reader.skip().and_then(|_| reader.end());
            assert_eq!(read, Err(Malformed), "{text:.20}");
        }
    }
}
