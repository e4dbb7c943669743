//! Finds bytes that end the unescaped part of a JSON string (quote, backslash, control characters), eight at a time.

/// Every byte is 1.
const ONES: u64 = u64::MAX / 0xff;

/// Position of the first special byte at or after `from`; the length if there is none.
#[inline]
pub(super) fn find_special_byte(bytes: &[u8], from: usize) -> usize {
    let mut rest = bytes.get(from..).unwrap_or_default();
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let special = special_bytes(u64::from_le_bytes(*chunk));
        if special != 0 {
            return bytes.len() - rest.len() + (special.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    bytes.len() - rest.len() + find_special_byte_in_tail(rest)
}

/// Whether no byte needs escaping.
#[inline]
pub(super) fn needs_no_escaping(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk::<8>() else {
        return special_bytes(load_short(text)) == 0;
    };
    // The last eight bytes may overlap the last chunk.
    let (chunks, _) = text.as_chunks::<8>();
    let special = |chunk: &[u8; 8]| special_bytes(u64::from_le_bytes(*chunk));
    chunks
        .iter()
        .fold(special(last), |all, chunk| all | special(chunk))
        == 0
}

/// Loads less than eight bytes into a word. Some may be repeated; unused bytes are not special.
#[inline]
fn load_short(text: &[u8]) -> u64 {
    const PLAIN: u64 = ONES * b'a' as u64;
    if let (Some(head), Some(tail)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let (head, tail) = (u32::from_le_bytes(*head), u32::from_le_bytes(*tail));
        return u64::from(head) | u64::from(tail) << 32;
    }
    match *text {
        [first, .., last] => {
            let middle = text[text.len() / 2];
            PLAIN << 24 | u64::from(last) << 16 | u64::from(middle) << 8 | u64::from(first)
        }
        [only] => PLAIN << 8 | u64::from(only),
        [] => PLAIN,
    }
}

/// Sets the high bit of each special byte. Bytes after the first special one may be marked wrongly, because the
/// subtractions borrow from them.
#[inline]
fn special_bytes(chunk: u64) -> u64 {
    // Flipping one bit swaps the quote and the space, so that the quote directly follows the control characters.
    let swapped = chunk ^ (ONES * u64::from(b'"' ^ b' '));
    let quote_or_control = swapped.wrapping_sub(ONES * u64::from(b' ' + 1));
    let backslash = (chunk ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    (quote_or_control | backslash) & !chunk & (ONES << 7)
}

/// As [`find_special_byte`], for less than eight bytes.
#[cold]
fn find_special_byte_in_tail(last: &[u8]) -> usize {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let end = last.iter().position(special);
    end.unwrap_or(last.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_at_any_position() {
        for length in 0..30 {
            for special in 0..=255 {
                for filler in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                    for offset in 0..length {
                        let mut bytes = vec![filler; length];
                        bytes[offset] = special;
                        let is_special = matches!(special, b'"' | b'\\' | 0..=0x1f);
                        let expect = if is_special { offset } else { length };
                        assert_eq!(
                            find_special_byte(&bytes, 0),
                            expect,
                            "{special} in {filler}"
                        );
                        assert_eq!(find_special_byte(&bytes, offset), expect);
                        assert_eq!(find_special_byte(&bytes, offset + 1), length);
                        assert_eq!(
                            needs_no_escaping(&bytes),
                            !is_special,
                            "{special} in {filler}"
                        );
                    }
                }
            }
        }
    }
}
