//! Escaping of field selector values: `\`, `,` and `=` are preceded by `\`.

use std::borrow::Cow;

const SPECIAL: [char; 3] = ['\\', ',', '='];

/// Why a text is not an escaped value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnescapeError {
    #[error("invalid field selector: invalid escape sequence: {0}")]
    InvalidSequence(String),
    /// Upstream's message contains the code point of the character.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// Escapes a value for use in a field selector.
pub fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(SPECIAL) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        if SPECIAL.contains(&c) {
            out.push('\\');
        }
        out.push(c);
    }
    Cow::Owned(out)
}

/// Unescapes a value of a field selector.
pub fn unescape(text: &str) -> Result<Cow<'_, str>, UnescapeError> {
    if !text.contains(SPECIAL) {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) if SPECIAL.contains(&escaped) => out.push(escaped),
                Some(other) => return Err(UnescapeError::InvalidSequence(format!("\\{other}"))),
                None => return Err(UnescapeError::InvalidSequence("\\".to_owned())),
            },
            ',' | '=' => return Err(UnescapeError::Unescaped(c)),
            _ => out.push(c),
        }
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_escapes_are_rejected_with_upstreams_messages() {
        let table = [
            (
                r"a\b",
                r"invalid field selector: invalid escape sequence: \b",
            ),
            (r"a\", r"invalid field selector: invalid escape sequence: \"),
            (
                "a=b",
                "invalid field selector: unescaped character in value: 61",
            ),
            (
                "a,b",
                "invalid field selector: unescaped character in value: 44",
            ),
        ];
        for (input, want) in table {
            assert_eq!(unescape(input).expect_err(input).to_string(), want);
        }
    }

    proptest! {
        #![proptest_config(crate::testing::config())]

        #[test]
        fn escaping_round_trips(value in r"[a\\,=é]{0,12}|.{0,12}") {
            let escaped = escape(&value).into_owned();
            prop_assert_eq!(unescape(&escaped), Ok(Cow::Borrowed(value.as_str())));
        }
    }
}
