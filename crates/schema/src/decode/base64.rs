//! Base64 as Go reads it: lines may be broken, padding must be there, bits that are left over do not matter.

use std::borrow::Cow;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text as Go would write it back, or the byte at which it is wrong.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut changed = false;
    let mut digits: Vec<u8> = Vec::new();
    loop {
        let group = read_group(bytes, &mut at, &mut changed)?;
        digits.extend_from_slice(&group.digits[..group.len]);
        if group.len < 4 {
            changed |= group.spare_bits();
            break;
        }
    }
    if !changed {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(write(digits)))
}

/// Four digits, or the last ones.
#[derive(Default)]
struct Group {
    digits: [u8; 4],
    len: usize,
}

impl Group {
    fn spare_bits(&self) -> bool {
        match self.len {
            2 => self.digits[1] & 0x0f != 0,
            3 => self.digits[2] & 0x03 != 0,
            _ => false,
        }
    }
}

fn read_group(bytes: &[u8], at: &mut usize, changed: &mut bool) -> Result<Group, usize> {
    let mut group = Group::default();
    while group.len < 4 {
        let Some(&byte) = bytes.get(*at) else {
            return if group.len == 0 {
                Ok(group)
            } else {
                Err(*at - group.len)
            };
        };
        *at += 1;
        if let Some(digit) = digit(byte) {
            group.digits[group.len] = digit;
            group.len += 1;
        } else if matches!(byte, b'\r' | b'\n') {
            *changed = true;
        } else if byte == b'=' && group.len >= 2 {
            end_padding(bytes, at, group.len, changed)?;
            return Ok(group);
        } else {
            return Err(*at - 1);
        }
    }
    Ok(group)
}

/// After the first sign of padding: the second if there must be one, and then the end.
fn end_padding(
    bytes: &[u8],
    at: &mut usize,
    digits: usize,
    changed: &mut bool,
) -> Result<(), usize> {
    if digits == 2 {
        skip_line_ends(bytes, at, changed);
        match bytes.get(*at) {
            None => return Err(bytes.len()),
            Some(b'=') => *at += 1,
            Some(_) => return Err(*at - 1),
        }
    }
    skip_line_ends(bytes, at, changed);
    if *at < bytes.len() { Err(*at) } else { Ok(()) }
}

fn skip_line_ends(bytes: &[u8], at: &mut usize, changed: &mut bool) {
    while matches!(bytes.get(*at), Some(b'\r' | b'\n')) {
        *at += 1;
        *changed = true;
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn write(mut digits: Vec<u8>) -> String {
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
    fn texts_are_read_as_in_go() {
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
