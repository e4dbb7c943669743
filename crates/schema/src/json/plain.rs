//! The part of a string that stands for itself.

/// Every byte of it is 1.
const ONES: u64 = u64::MAX / 0xff;

/// From there on, the first byte that is a quote, a backslash or a control character; the end if there is none.
#[inline]
pub(super) fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut rest = bytes.get(from..).unwrap_or_default();
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        let special = special_bytes(u64::from_le_bytes(*eight));
        if special != 0 {
            return bytes.len() - rest.len() + (special.trailing_zeros() / 8) as usize;
        }
        rest = behind;
    }
    bytes.len() - rest.len() + last_plain_end(rest)
}

/// Whether all of it stands for itself.
#[inline]
pub(super) fn is_plain(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk::<8>() else {
        return special_bytes(short(text)) == 0;
    };
    // The last eight may have bytes in common with those before them.
    let (eights, _) = text.as_chunks::<8>();
    let special = |eight: &[u8; 8]| special_bytes(u64::from_le_bytes(*eight));
    eights
        .iter()
        .fold(special(last), |all, eight| all | special(eight))
        == 0
}

/// Less than eight bytes, some of them twice, and with plain ones where none are left.
#[inline]
fn short(text: &[u8]) -> u64 {
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

/// The high bit of each byte that is special. Those behind the first one may be marked wrongly, as the subtractions
/// carry over to them.
#[inline]
fn special_bytes(eight: u64) -> u64 {
    // With one bit turned, the quote changes places with the space and so comes right after the control characters.
    let turned = eight ^ (ONES * u64::from(b'"' ^ b' '));
    let quote_or_control = turned.wrapping_sub(ONES * u64::from(b' ' + 1));
    let backslash = (eight ^ (ONES * u64::from(b'\\'))).wrapping_sub(ONES);
    (quote_or_control | backslash) & !eight & (ONES << 7)
}

/// The same with less than eight bytes left.
#[cold]
fn last_plain_end(last: &[u8]) -> usize {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let end = last.iter().position(special);
    end.unwrap_or(last.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found_wherever_it_is() {
        for length in 0..30 {
            for special in 0..=255 {
                for filler in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                    for at in 0..length {
                        let mut bytes = vec![filler; length];
                        bytes[at] = special;
                        let is_special = matches!(special, b'"' | b'\\' | 0..=0x1f);
                        let expect = if is_special { at } else { length };
                        assert_eq!(plain_end(&bytes, 0), expect, "{special} in {filler}");
                        assert_eq!(plain_end(&bytes, at), expect);
                        assert_eq!(plain_end(&bytes, at + 1), length);
                        assert_eq!(is_plain(&bytes), !is_special, "{special} in {filler}");
                    }
                }
            }
        }
    }
}
