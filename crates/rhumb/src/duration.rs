//! Parsers for duration flags, in Go's syntax.

use std::time::Duration;

/// A positive duration in Go's syntax: `1h`, `1m30s`, `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err(format!(
            "{text:?} is not greater than zero; use for example 30s, 1m0s or 1h"
        )),
        total => Ok(total),
    }
}

/// Like `parse_positive_duration`, for flags where zero has a meaning.
pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    rhumb_meta::parse_duration(text)
        .ok_or_else(|| format!("{text:?} is not a duration; use for example 30s, 1m0s or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_go_syntax() {
        for (text, want_ms) in [
            ("60s", Some(60_000)),
            ("1m0s", Some(60_000)),
            ("1h30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("", None),
            ("0s", None),
            ("60", None),
            ("-1s", None),
            ("1d", None),
            ("99999999999999999999h", None),
        ] {
            let got = duration(text).ok().map(|it| it.as_millis());
            assert_eq!(got, want_ms, "{text:?}");
        }
    }
}
