//! Where values end, for those who pass over them.

use super::Malformed;
use super::plain::plain_end;
use super::syntax::MAX_DEPTH;
use super::unquote::unquote;

/// Behind the value that begins there, of any depth.
pub(super) fn value_end(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    match bytes[at] {
        b'{' | b'[' => nested_end(bytes, at),
        _ => scalar_end(bytes, at),
    }
}

/// Behind the number that begins there.
pub(super) fn number_end(bytes: &[u8], mut at: usize) -> Result<usize, Malformed> {
    let is = |at: usize, wanted: &[u8]| bytes.get(at).is_some_and(|byte| wanted.contains(byte));
    at += usize::from(is(at, b"-"));
    at = match is(at, b"0") {
        true => at + 1,
        false => digits_end(bytes, at)?,
    };
    if is(at, b".") {
        at = digits_end(bytes, at + 1)?;
    }
    if is(at, b"eE") {
        at += 1;
        at += usize::from(is(at, b"+-"));
        at = digits_end(bytes, at)?;
    }
    Ok(at)
}

/// Behind all digits that are there; one there must be.
fn digits_end(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let rest = bytes.get(at..).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    match digits.count() {
        0 => Err(Malformed),
        count => Ok(at + count),
    }
}

/// Where the next token begins.
#[inline]
fn token(bytes: &[u8], mut at: usize) -> Result<usize, Malformed> {
    loop {
        match bytes.get(at) {
            Some(b' ' | b'\n' | b'\t' | b'\r') => at += 1,
            Some(_) => return Ok(at),
            None => return Err(Malformed),
        }
    }
}

/// Behind the object or list that begins there.
fn nested_end(bytes: &[u8], mut at: usize) -> Result<usize, Malformed> {
    let mut open = Nesting::default();
    loop {
        // Here a value begins.
        at = token(bytes, at)?;
        match bytes[at] {
            b'{' => {
                open.enter(true)?;
                at = token(bytes, at + 1)?;
                if bytes[at] != b'}' {
                    at = key_end(bytes, at)?;
                    continue;
                }
            }
            b'[' => {
                open.enter(false)?;
                at = token(bytes, at + 1)?;
                if bytes[at] != b']' {
                    continue;
                }
            }
            b'"' => at = string_end(bytes, at + 1)?,
            _ => at = scalar_end(bytes, at)?,
        }
        // Here one has ended, or there is none in what was just entered.
        loop {
            at = token(bytes, at)?;
            let next = bytes[at];
            at += 1;
            match (next, open.is_object()) {
                (b',', true) => {
                    at = key_end(bytes, token(bytes, at)?)?;
                    break;
                }
                (b',', false) => break,
                (b'}', true) | (b']', false) => {
                    if open.leave() {
                        return Ok(at);
                    }
                }
                _ => return Err(Malformed),
            }
        }
    }
}

/// Behind the key that begins there, and its colon.
#[inline]
fn key_end(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    if bytes[at] != b'"' {
        return Err(Malformed);
    }
    let colon = token(bytes, string_end(bytes, at + 1)?)?;
    match bytes[colon] {
        b':' => Ok(colon + 1),
        _ => Err(Malformed),
    }
}

/// Behind the string whose opening quote is right before that place.
#[inline]
fn string_end(bytes: &[u8], start: usize) -> Result<usize, Malformed> {
    let end = plain_end(bytes, start);
    match bytes.get(end) {
        Some(b'"') => Ok(end + 1),
        _ => escaped_end(bytes, start, end),
    }
}

/// The same for a string that is plain up to `end`.
#[cold]
fn escaped_end(bytes: &[u8], start: usize, mut end: usize) -> Result<usize, Malformed> {
    while bytes.get(end) == Some(&b'\\') {
        end = plain_end(bytes, end + 2);
    }
    // Neither a control character nor the end of the text can be there.
    if bytes.get(end) != Some(&b'"') {
        return Err(Malformed);
    }
    unquote(&bytes[start..end])?;
    Ok(end + 1)
}

/// Behind the value that begins there, and is neither an object nor a list.
fn scalar_end(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let word = |word: &str| match bytes[at..].starts_with(word.as_bytes()) {
        true => Ok(at + word.len()),
        false => Err(Malformed),
    };
    match bytes[at] {
        b'"' => string_end(bytes, at + 1),
        b't' => word("true"),
        b'f' => word("false"),
        b'n' => word("null"),
        _ => number_end(bytes, at),
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
    use crate::json::Reader;

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
            let mixed = |at: usize| at.is_multiple_of(3);
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
