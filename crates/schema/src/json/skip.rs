//! Finds the end of a JSON value in order to skip it, without recursion.

use super::MalformedJson;
use super::special_bytes::find_special_byte;
use super::syntax::MAX_DEPTH;
use super::unquote::unquote;

/// End of the value of any depth that starts at `offset`.
pub(super) fn value_end(bytes: &[u8], offset: usize) -> Result<usize, MalformedJson> {
    match bytes[offset] {
        b'{' | b'[' => nested_end(bytes, offset),
        _ => scalar_end(bytes, offset),
    }
}

/// End of the number that starts at `offset`.
pub(super) fn number_end(bytes: &[u8], mut offset: usize) -> Result<usize, MalformedJson> {
    let is = |offset: usize, expected: &[u8]| {
        bytes
            .get(offset)
            .is_some_and(|byte| expected.contains(byte))
    };
    offset += usize::from(is(offset, b"-"));
    offset = match is(offset, b"0") {
        true => offset + 1,
        false => digits_end(bytes, offset)?,
    };
    if is(offset, b".") {
        offset = digits_end(bytes, offset + 1)?;
    }
    if is(offset, b"eE") {
        offset += 1;
        offset += usize::from(is(offset, b"+-"));
        offset = digits_end(bytes, offset)?;
    }
    Ok(offset)
}

/// End of the digits at `offset`, of which there must be at least one.
fn digits_end(bytes: &[u8], offset: usize) -> Result<usize, MalformedJson> {
    let rest = bytes.get(offset..).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    match digits.count() {
        0 => Err(MalformedJson),
        count => Ok(offset + count),
    }
}

/// Start of the next token.
#[inline]
fn skip_whitespace(bytes: &[u8], mut offset: usize) -> Result<usize, MalformedJson> {
    loop {
        match bytes.get(offset) {
            Some(b' ' | b'\n' | b'\t' | b'\r') => offset += 1,
            Some(_) => return Ok(offset),
            None => return Err(MalformedJson),
        }
    }
}

/// End of the object or list that starts at `offset`.
fn nested_end(bytes: &[u8], mut offset: usize) -> Result<usize, MalformedJson> {
    let mut nesting = BracketStack::default();
    loop {
        // A value starts here.
        offset = skip_whitespace(bytes, offset)?;
        match bytes[offset] {
            b'{' => {
                nesting.enter(true)?;
                offset = skip_whitespace(bytes, offset + 1)?;
                if bytes[offset] != b'}' {
                    offset = key_end(bytes, offset)?;
                    continue;
                }
            }
            b'[' => {
                nesting.enter(false)?;
                offset = skip_whitespace(bytes, offset + 1)?;
                if bytes[offset] != b']' {
                    continue;
                }
            }
            b'"' => offset = string_end(bytes, offset + 1)?,
            _ => offset = scalar_end(bytes, offset)?,
        }
        // A value has ended, or the object or list just entered is empty.
        loop {
            offset = skip_whitespace(bytes, offset)?;
            let next = bytes[offset];
            offset += 1;
            match (next, nesting.is_object()) {
                (b',', true) => {
                    offset = key_end(bytes, skip_whitespace(bytes, offset)?)?;
                    break;
                }
                (b',', false) => break,
                (b'}', true) | (b']', false) => {
                    if nesting.leave() {
                        return Ok(offset);
                    }
                }
                _ => return Err(MalformedJson),
            }
        }
    }
}

/// End of the key that starts at `offset`, including its colon.
#[inline]
fn key_end(bytes: &[u8], offset: usize) -> Result<usize, MalformedJson> {
    if bytes[offset] != b'"' {
        return Err(MalformedJson);
    }
    let colon = skip_whitespace(bytes, string_end(bytes, offset + 1)?)?;
    match bytes[colon] {
        b':' => Ok(colon + 1),
        _ => Err(MalformedJson),
    }
}

/// End of the string whose content starts at `start`.
#[inline]
fn string_end(bytes: &[u8], start: usize) -> Result<usize, MalformedJson> {
    let end = find_special_byte(bytes, start);
    match bytes.get(end) {
        Some(b'"') => Ok(end + 1),
        _ => escaped_string_end(bytes, start, end),
    }
}

/// As [`string_end`], for a string with escapes. `end` is the position of its first special byte.
#[cold]
fn escaped_string_end(bytes: &[u8], start: usize, mut end: usize) -> Result<usize, MalformedJson> {
    while bytes.get(end) == Some(&b'\\') {
        end = find_special_byte(bytes, end + 2);
    }
    // A control character or the end of the input.
    if bytes.get(end) != Some(&b'"') {
        return Err(MalformedJson);
    }
    unquote(&bytes[start..end])?;
    Ok(end + 1)
}

/// End of the scalar that starts at `offset`.
fn scalar_end(bytes: &[u8], offset: usize) -> Result<usize, MalformedJson> {
    let word = |word: &str| match bytes[offset..].starts_with(word.as_bytes()) {
        true => Ok(offset + word.len()),
        false => Err(MalformedJson),
    };
    match bytes[offset] {
        b'"' => string_end(bytes, offset + 1),
        b't' => word("true"),
        b'f' => word("false"),
        b'n' => word("null"),
        _ => number_end(bytes, offset),
    }
}

/// Stack of open brackets, one bit each.
#[derive(Debug, Default)]
struct BracketStack {
    depth: usize,
    /// The innermost brackets, the last one in the lowest bit; 1 for an object, 0 for a list.
    inner: u64,
    /// All other brackets, 64 in each word.
    outer: Vec<u64>,
}

impl BracketStack {
    fn enter(&mut self, object: bool) -> Result<(), MalformedJson> {
        if self.depth == MAX_DEPTH {
            return Err(MalformedJson);
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

    /// Closes the innermost bracket; returns whether it was the outermost one.
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
    use crate::json::JsonReader;

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
            let mut reader = JsonReader::new(text.as_bytes());
            assert_eq!(reader.skip(), Ok(text.as_bytes()));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn brackets_must_match() {
        for depth in [1, 63, 64, 65, 128, 129, 200] {
            let mixed = |offset: usize| offset.is_multiple_of(3);
            let open = (0..depth).map(|offset| if mixed(offset) { "{\"a\":" } else { "[" });
            let close = (0..depth)
                .rev()
                .map(|offset| if mixed(offset) { "}" } else { "]" });
            let text: String = open.chain(["1"]).chain(close).collect();
            assert_eq!(JsonReader::new(text.as_bytes()).skip(), Ok(text.as_bytes()));
            let middle = text.find('1').expect("a number");
            for offset in middle + 1..text.len() {
                let mut wrong = text.clone().into_bytes();
                wrong[offset] ^= b'}' ^ b']';
                let result = JsonReader::new(&wrong).skip();
                assert_eq!(result, Err(MalformedJson), "{depth}: {offset}");
            }
        }
    }

    #[test]
    fn malformed_values_are_rejected() {
        let deep = "[".repeat(MAX_DEPTH + 1);
        for text in [
            "", "[", "{", "{]", "[}", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "01x", "1.", "1e",
            "tru", "\"\\q\"", "\"\n\"", "\"\\", "[1 2]", &deep,
        ] {
            let mut reader = JsonReader::new(text.as_bytes());
            let result = reader.skip().and_then(|_| reader.end());
            assert_eq!(result, Err(MalformedJson), "{text:.20}");
        }
    }
}
