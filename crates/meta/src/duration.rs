//! Durations as Go writes them, in hours, minutes, seconds and milliseconds.

use std::time::Duration;

/// `1h`, `1m30s`, `500ms`, or `0`; `None` for everything else, and for what is longer than can be counted.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    if text.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit_ms: u64 = match &rest[..unit] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        let part = Duration::from_millis(number.checked_mul(unit_ms)?);
        total = total.checked_add(part)?;
        rest = &rest[unit..];
    }
    Some(total)
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
            ("0", Some(0)),
            ("0s", Some(0)),
            ("", None),
            ("60", None),
            ("-1s", None),
            ("1d", None),
            ("99999999999999999999h", None),
        ] {
            let got = parse_duration(text).map(|it| it.as_millis());
            assert_eq!(got, want_ms, "{text:?}");
        }
    }
}
