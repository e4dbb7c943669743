//! Base64 as Go decodes it: line breaks are ignored, padding is required, non-zero trailing bits are accepted.

use std::borrow::Cow;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Re-encodes the text as Go would; the error is the offset of the first invalid byte.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    let bytes = text.as_bytes();
    let mut offset = 0;
    let mut is_changed = false;
    let mut digits: Vec<u8> = Vec::new();
    loop {
        let quantum = read_quantum(bytes, &mut offset, &mut is_changed)?;
        digits.extend_from_slice(&quantum.digits[..quantum.len]);
        if quantum.len < 4 {
            is_changed |= quantum.has_trailing_bits();
            break;
        }
    }
    if !is_changed {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(encode_digits(digits)))
}

/// Four base64 digits (RFC 4648: a 24-bit quantum); the last quantum may be shorter.
#[derive(Default)]
struct Base64Quantum {
    digits: [u8; 4],
    len: usize,
}

impl Base64Quantum {
    fn has_trailing_bits(&self) -> bool {
        match self.len {
            2 => self.digits[1] & 0x0f != 0,
            3 => self.digits[2] & 0x03 != 0,
            _ => false,
        }
    }
}

fn read_quantum(
    bytes: &[u8],
    offset: &mut usize,
    is_changed: &mut bool,
) -> Result<Base64Quantum, usize> {
    let mut quantum = Base64Quantum::default();
    while quantum.len < 4 {
        let Some(&byte) = bytes.get(*offset) else {
            return if quantum.len == 0 {
                Ok(quantum)
            } else {
                Err(*offset - quantum.len)
            };
        };
        *offset += 1;
        if let Some(digit) = digit_value(byte) {
            quantum.digits[quantum.len] = digit;
            quantum.len += 1;
        } else if matches!(byte, b'\r' | b'\n') {
            *is_changed = true;
        } else if byte == b'=' && quantum.len >= 2 {
            end_padding(bytes, offset, quantum.len, is_changed)?;
            return Ok(quantum);
        } else {
            return Err(*offset - 1);
        }
    }
    Ok(quantum)
}

/// Checks what follows the first padding character: a second one if required, and then the end of the input.
fn end_padding(
    bytes: &[u8],
    offset: &mut usize,
    digits: usize,
    is_changed: &mut bool,
) -> Result<(), usize> {
    if digits == 2 {
        skip_line_ends(bytes, offset, is_changed);
        match bytes.get(*offset) {
            None => return Err(bytes.len()),
            Some(b'=') => *offset += 1,
            Some(_) => return Err(*offset - 1),
        }
    }
    skip_line_ends(bytes, offset, is_changed);
    if *offset < bytes.len() {
        Err(*offset)
    } else {
        Ok(())
    }
}

fn skip_line_ends(bytes: &[u8], offset: &mut usize, is_changed: &mut bool) {
    while matches!(bytes.get(*offset), Some(b'\r' | b'\n')) {
        *offset += 1;
        *is_changed = true;
    }
}

fn digit_value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn encode_digits(mut digits: Vec<u8>) -> String {
    if let Some(last) = digits.len().checked_sub(1) {
        match digits.len() % 4 {
            2 => digits[last] &= 0x30,
            3 => digits[last] &= 0x3c,
            _ => {}
        }
    }
    let mut text: String = digits
        .iter()
        .map(|&digit| char::from(ALPHABET[usize::from(digit)]))
        .collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_as_in_go() {
        for (text, expect) in [
            ("", Ok("")),
            ("aGk=", Ok("aGk=")),
            ("aGVsbG8h", Ok("aGVsbG8h")),
            ("aGVs\nbG8h\n", Ok("aGVsbG8h")),
            ("aR==", Ok("aQ==")),
            ("aGl=", Ok("aGk=")),
            ("aGk", Err(0)),
            ("a", Err(0)),
            ("aGk!", Err(3)),
            ("aQ=x", Err(2)),
            ("aQ=", Err(3)),
            ("aGk=x", Err(4)),
            ("=", Err(0)),
            ("YWJjZA", Err(4)),
        ] {
            assert_eq!(
                canonical(text).as_deref(),
                expect.as_ref().copied(),
                "{text}"
            );
        }
    }
}
