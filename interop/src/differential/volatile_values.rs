//! Recognizes UIDs, times and numbers within text.

const TOKEN_VOLUME: &str = "kube-api-access-";

/// The length of the UUID at the start of `text`.
pub(crate) fn uuid(text: &[u8]) -> Option<usize> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let candidate = text.get(..36)?;
    let fits = candidate.iter().enumerate().all(|(index, byte)| {
        if DASHES.contains(&index) {
            *byte == b'-'
        } else {
            byte.is_ascii_hexdigit()
        }
    });
    fits.then_some(36)
}

/// The length of the time at the start of `text`, such as `2026-01-02T03:04:05Z`, with or without a fraction.
pub(crate) fn time(text: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let candidate = text.get(..SHAPE.len())?;
    let fits = SHAPE.iter().zip(candidate).all(|(shape, byte)| {
        if *shape == b'0' {
            byte.is_ascii_digit()
        } else {
            shape == byte
        }
    });
    let mut end = SHAPE.len();
    if text.get(end) == Some(&b'.') {
        end += 1 + digits(&text[end + 1..]);
    }
    (fits && text.get(end) == Some(&b'Z')).then_some(end + 1)
}

/// The length of a service account token volume's name at the start of `text`.
pub(crate) fn token_volume(text: &[u8]) -> Option<usize> {
    const RANDOM: usize = 5;
    let random = text.strip_prefix(TOKEN_VOLUME.as_bytes())?.get(..RANDOM)?;
    let fits = random
        .iter()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    fits.then_some(TOKEN_VOLUME.len() + RANDOM)
}

/// The number of digits at the start of `text`.
pub(crate) fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Whether the whole text is an age in a table, such as `5s` or `3d4h`.
pub(crate) fn is_age(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let count = digits(rest);
        let unit = rest.get(count);
        if count == 0 || !unit.is_some_and(|unit| b"smhdy".contains(unit)) {
            return false;
        }
        rest = &rest[count + 1..];
    }
    !text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volatile_values_are_recognized() {
        assert_eq!(uuid(b"123e4567-e89b-12d3-a456-426614174000, and"), Some(36));
        assert_eq!(uuid(b"123e4567-e89b-12d3-a456"), None);
        assert_eq!(time(b"2026-01-02T03:04:05Z"), Some(20));
        assert_eq!(time(b"2026-01-02T03:04:05.000006Z etc"), Some(27));
        assert_eq!(time(b"2026-01-02 03:04:05Z"), None);
        assert_eq!(token_volume(b"kube-api-access-4x2bz, and"), Some(21));
        assert_eq!(token_volume(b"kube-api-access-"), None);
        assert!(is_age("3d4h") && is_age("0s"));
        assert!(!is_age("") && !is_age("s") && !is_age("5") && !is_age("5x"));
    }
}
