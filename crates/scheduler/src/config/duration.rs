//! Durations as Go writes them.

use std::time::Duration;

/// `1h`, `1m30s`, `1.5s`, `500ms`; `None` if it is none, or less than nothing.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit_ns: f64 = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        let part = Duration::try_from_secs_f64(number * unit_ns / 1e9).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("15s", Some(15_000)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1500)),
            ("+250ms", Some(250)),
            ("1h", Some(3_600_000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("1000000ns", Some(1)),
            ("2000µs", Some(2)),
            ("", None),
            ("15", None),
            ("s", None),
            ("-1s", None),
            ("1 s", None),
            ("1.2.3s", None),
            ("99999999999999999999h", None),
        ] {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }
}
