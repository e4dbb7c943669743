//! Durations on the command line.

use std::time::Duration;

/// A duration as Go writes it, in hours, minutes and seconds: `1h`, `1m30s`, `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err(format!(
            "{text:?} is no time at all; write it as 30s, 1m0s or 1h"
        )),
        total => Ok(total),
    }
}

/// The same, where no time at all has a meaning.
pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    rhumb_meta::parse_duration(text)
        .ok_or_else(|| format!("{text:?} is no duration; write it as 30s, 1m0s or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
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
