//! Single-pass pull reader for JSON.
//!
//! It only reports that the input is malformed; [`super::check`] computes the error message in that rare case.

use std::borrow::Cow;

use super::skip::{number_end, value_end};
use super::special_bytes::find_special_byte;
use super::unquote::{replace_invalid, unquote};

/// The input is not valid JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedJson;

/// Reads tokens on request of the caller, who tracks the nesting.
#[derive(Debug)]
pub struct JsonReader<'a> {
    bytes: &'a [u8],
    /// The input as text if all of it is UTF-8; strings can then be borrowed without validation.
    text: Option<&'a str>,
    offset: usize,
}

impl<'a> JsonReader<'a> {
    pub fn new(bytes: &'a [u8]) -> JsonReader<'a> {
        JsonReader {
            bytes,
            text: std::str::from_utf8(bytes).ok(),
            offset: 0,
        }
    }

    /// Whether the input is valid UTF-8. Invalid bytes in strings are replaced, as in Go.
    pub fn is_utf8(&self) -> bool {
        self.text.is_some()
    }

    /// The first byte of the next token, which stays unread.
    #[inline]
    pub fn peek(&mut self) -> Result<u8, MalformedJson> {
        while let Some(&byte) = self.bytes.get(self.offset) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(byte);
            }
            self.offset += 1;
        }
        Err(MalformedJson)
    }

    #[inline]
    fn expect(&mut self, expected: u8) -> Result<(), MalformedJson> {
        if self.peek()? != expected {
            return Err(MalformedJson);
        }
        self.offset += 1;
        Ok(())
    }

    /// Checks that only whitespace is left.
    pub fn end(&mut self) -> Result<(), MalformedJson> {
        match self.peek() {
            Ok(_) => Err(MalformedJson),
            Err(MalformedJson) => Ok(()),
        }
    }

    #[inline(always)]
    pub fn string(&mut self) -> Result<Cow<'a, str>, MalformedJson> {
        self.expect(b'"')?;
        self.rest_of_string()
    }

    /// Reads the rest of a string, after its opening quote.
    #[inline(always)]
    fn rest_of_string(&mut self) -> Result<Cow<'a, str>, MalformedJson> {
        let end = find_special_byte(self.bytes, self.offset);
        if self.bytes.get(end) == Some(&b'"')
            && let Some(plain) = self.text.and_then(|text| text.get(self.offset..end))
        {
            self.offset = end + 1;
            return Ok(Cow::Borrowed(plain));
        }
        self.escaped_or_invalid_string(end)
    }

    /// Reads a string whose opening quote has just been returned by [`JsonReader::peek`].
    #[inline(always)]
    pub fn string_after_peek(&mut self) -> Result<Cow<'a, str>, MalformedJson> {
        self.offset += 1;
        self.rest_of_string()
    }

    /// Reads the rest of a string that has escapes or invalid UTF-8. `end` is the position of its first special byte.
    #[cold]
    fn escaped_or_invalid_string(&mut self, mut end: usize) -> Result<Cow<'a, str>, MalformedJson> {
        let start = self.offset;
        let mut escaped = false;
        while self.bytes.get(end) == Some(&b'\\') {
            escaped = true;
            end = find_special_byte(self.bytes, end + 2);
        }
        // A control character or the end of the input.
        if self.bytes.get(end) != Some(&b'"') {
            return Err(MalformedJson);
        }
        self.offset = end + 1;
        let quoted = &self.bytes[start..end];
        if escaped {
            unquote(quoted).map(Cow::Owned)
        } else {
            Ok(replace_invalid(quoted))
        }
    }

    pub fn number(&mut self) -> Result<&'a str, MalformedJson> {
        self.peek()?;
        let start = self.offset;
        self.offset = number_end(self.bytes, start)?;
        match self.text {
            Some(text) => text.get(start..self.offset).ok_or(MalformedJson),
            None => std::str::from_utf8(&self.bytes[start..self.offset]).map_err(|_| MalformedJson),
        }
    }

    /// `true`, `false` or `null`.
    pub fn word(&mut self, word: &str) -> Result<(), MalformedJson> {
        self.peek()?;
        if !self.bytes[self.offset..].starts_with(word.as_bytes()) {
            return Err(MalformedJson);
        }
        self.offset += word.len();
        Ok(())
    }

    #[inline]
    pub fn open(&mut self, bracket: u8) -> Result<(), MalformedJson> {
        self.expect(bracket)
    }

    /// The next key of an object, or `None` at its end. `first` becomes false.
    #[inline(always)]
    pub fn key(&mut self, first: &mut bool) -> Result<Option<Cow<'a, str>>, MalformedJson> {
        if !self.has_next(first, b'}')? {
            return Ok(None);
        }
        let key = self.string()?;
        self.expect(b':')?;
        Ok(Some(key))
    }

    /// Whether a list has another item. `first` becomes false.
    #[inline]
    pub fn item(&mut self, first: &mut bool) -> Result<bool, MalformedJson> {
        self.has_next(first, b']')
    }

    #[inline]
    fn has_next(&mut self, first: &mut bool, end: u8) -> Result<bool, MalformedJson> {
        let was_first = std::mem::replace(first, false);
        let next = self.peek()?;
        if next == end {
            self.offset += 1;
            return Ok(false);
        }
        match next {
            _ if was_first => Ok(true),
            b',' => {
                self.offset += 1;
                Ok(true)
            }
            _ => Err(MalformedJson),
        }
    }

    /// Skips a value of any depth, without recursion, and returns its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], MalformedJson> {
        self.peek()?;
        let start = self.offset;
        self.offset = value_end(self.bytes, start)?;
        Ok(&self.bytes[start..self.offset])
    }
}
