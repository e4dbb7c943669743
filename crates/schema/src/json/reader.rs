//! Reads JSON from the front to the back, without ever going back.
//!
//! It only says that something is malformed; [`super::check`] finds out what, in the rare case.

use std::borrow::Cow;

use super::plain::plain_end;
use super::skip::{number_end, value_end};
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
        self.at = number_end(self.bytes, start)?;
        match self.text {
            Some(text) => text.get(start..self.at).ok_or(Malformed),
            None => std::str::from_utf8(&self.bytes[start..self.at]).map_err(|_| Malformed),
        }
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
        self.peek()?;
        let start = self.at;
        self.at = value_end(self.bytes, start)?;
        Ok(&self.bytes[start..self.at])
    }
}
