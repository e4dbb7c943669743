//! Decodes string literals. As in Go, invalid UTF-8 bytes and unpaired surrogates become U+FFFD.

use std::borrow::Cow;

use super::MalformedJson;

/// Decodes the bytes between the quotes.
pub(super) fn unquote(quoted: &[u8]) -> Result<String, MalformedJson> {
    let mut text = String::with_capacity(quoted.len());
    let mut rest = quoted;
    while let Some(offset) = rest.iter().position(|&byte| byte == b'\\') {
        text.push_str(&replace_invalid(&rest[..offset]));
        rest = escape(&rest[offset + 1..], &mut text)?;
    }
    text.push_str(&replace_invalid(rest));
    Ok(text)
}

/// Go replaces each invalid byte; Rust's `from_utf8_lossy` replaces each truncated sequence.
pub(super) fn replace_invalid(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// Decodes an escape sequence after its backslash; returns the rest.
fn escape<'a>(rest: &'a [u8], text: &mut String) -> Result<&'a [u8], MalformedJson> {
    let (&letter, rest) = rest.split_first().ok_or(MalformedJson)?;
    let plain = match letter {
        b'"' | b'\\' | b'/' => char::from(letter),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(rest, text),
        _ => return Err(MalformedJson),
    };
    text.push(plain);
    Ok(rest)
}

fn unicode<'a>(rest: &'a [u8], text: &mut String) -> Result<&'a [u8], MalformedJson> {
    let (unit, rest) = hex4(rest).ok_or(MalformedJson)?;
    if (0xd800..0xdc00).contains(&unit)
        && let Some((low, after)) = rest.strip_prefix(b"\\u").and_then(hex4)
        && (0xdc00..0xe000).contains(&low)
    {
        let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        return Ok(after);
    }
    text.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
    Ok(rest)
}

fn hex4(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(4)?;
    let mut unit = 0;
    for &digit in digits {
        unit = unit * 16 + char::from(digit).to_digit(16)?;
    }
    Some((unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_invalid_utf8_is_replaced() {
        let check = |quoted: &[u8], expect: &str| {
            assert_eq!(unquote(quoted).as_deref(), Ok(expect), "{quoted:?}");
        };
        check(b"plain", "plain");
        check(br#"a\n\t\"\\\/\b\f\r"#, "a\n\t\"\\/\u{8}\u{c}\r");
        check(br"\u00e9\uD83D\uDE00", "\u{e9}\u{1f600}");
        check(br"\ud800x\udc00", "\u{fffd}x\u{fffd}");
        check(br"\ud800\u0041", "\u{fffd}A");
        check(b"a\xffb", "a\u{fffd}b");
        check(b"\xe2\x82", "\u{fffd}\u{fffd}");
        assert_eq!(unquote(br"\x"), Err(MalformedJson));
        assert_eq!(unquote(br"\u12"), Err(MalformedJson));
    }
}
